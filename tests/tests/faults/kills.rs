//! A proxy is killed under load, and is started again.

use std::net::SocketAddr;
use std::time::Duration;

use leno_tests::backend::Settings;
use leno_tests::load::Clients;
use leno_tests::manifests::ECHO;
use leno_tests::proxy::wait_for;

use super::sides::{Authority, ServerSide, client_side, client_side_at, echo, own_ip};

/// The servers' delay, so that calls are in flight at any moment.
const DELAY: Duration = Duration::from_millis(50);
const IN_FLIGHT: usize = 30;
/// Longest time that a test waits for an event that it expects soon. It allows for a busy machine.
const SOON: Duration = Duration::from_secs(20);

async fn servers(authority: &Authority, count: usize) -> Vec<ServerSide> {
    let settings = Settings { delay: DELAY, ..Settings::default() };
    let mut servers = Vec::new();
    for number in 0..count {
        servers.push(ServerSide::start(authority, &format!("echo{number}"), settings.clone(), &[]).await);
    }
    servers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_side_costs_the_calls_in_flight_there_and_no_other() {
    let authority = Authority::new();
    let mut servers = servers(&authority, 3).await;
    let proxy = client_side(&authority, &[echo(&servers)], &["--limit", "max_backoff_ms=1000"]);
    let clients = Clients::connect(proxy.outbound(), ECHO, 4).await;
    let load = clients.keep_calling(IN_FLIGHT);
    load.wait_for_more(200, SOON).await;

    servers[0].proxy = None;
    load.wait_for_more(200, SOON).await;
    servers[0].start_proxy();
    let before = servers[0].backend.calls();
    wait_for("calls to the server whose proxy is back", SOON, || {
        (servers[0].backend.calls() > before + 10).then_some(())
    });
    let report = load.finish().await;

    let lost = report.lost.len();
    assert!((1..=IN_FLIGHT).contains(&lost), "{lost} calls were lost: {:#?}", report.lost);
    for why in &report.lost {
        assert!(why.contains("grpc-status Some(14)") && why.contains("closed the connection"), "{why}");
    }
    let scrape = proxy.scrape();
    let closed = [r#"direction="outbound""#, r#"why="connection-closed""#];
    assert_eq!(scrape.sum("leno_proxy_errors_total", &closed) as usize, lost);
    assert_eq!(scrape.sum("leno_proxy_errors_total", &[]) as usize, lost);
    clients.busy(300, IN_FLIGHT).await.assert_nothing_lost();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_client_side_leaves_nothing_behind_at_the_servers() {
    let authority = Authority::new();
    let servers = servers(&authority, 2).await;
    let outbound = SocketAddr::new(own_ip(), 4140);
    let killed = client_side_at(outbound, &authority, &[echo(&servers)], &[]);
    let load = Clients::connect(outbound, ECHO, 4).await.keep_calling(IN_FLIGHT);
    load.wait_for_more(200, SOON).await;
    drop(killed);
    let report = load.finish().await;
    assert!((1..=IN_FLIGHT).contains(&report.lost.len()), "{:#?}", report.lost);

    let open = [r#"direction="inbound""#, r#"peer="src""#];
    for server in &servers {
        wait_for("the connections of the dead proxy are closed", SOON, || {
            (server.proxy().scrape().sum("tcp_open_connections", &open) == 0.0).then_some(())
        });
        assert_eq!(server.proxy().scrape().sum("leno_proxy_errors_total", &[]), 0.0, "{}", server.proxy().log());
    }
    let _again = client_side_at(outbound, &authority, &[echo(&servers)], &[]);
    Clients::connect(outbound, ECHO, 4).await.busy(300, IN_FLIGHT).await.assert_nothing_lost();
}
