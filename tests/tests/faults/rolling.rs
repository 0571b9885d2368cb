//! Servers' proxies are replaced one after the other, as in a rolling update.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use leno_tests::backend::{Backend, Settings};
use leno_tests::load::{Clients, Load};
use leno_tests::manifests::ECHO;
use leno_tests::proxy::Proxy;

use super::sides::{Authority, ServerSide, client_side, echo};

const SERVERS: usize = 5;
const IN_FLIGHT: usize = 40;
/// Longest time that a test waits for an event that it expects soon. It allows for a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn settings() -> Settings {
    Settings { delay: Duration::from_millis(5), ..Settings::default() }
}

/// Starts five servers with their proxies, and a client with its proxy that puts the servers under full load.
async fn start(authority: &Authority) -> (Vec<ServerSide>, Proxy, Load) {
    let mut servers = Vec::new();
    for number in 0..SERVERS {
        servers.push(ServerSide::start(authority, &format!("echo{number}"), settings(), &["--grace", "10s"]).await);
    }
    let proxy = client_side(authority, &[echo(&servers)], &[]);
    let load = Clients::connect(proxy.outbound(), ECHO, 4).await.keep_calling(IN_FLIGHT);
    (servers, proxy, load)
}

async fn assert_no_call_failed(proxy: &Proxy, load: Load) {
    load.wait_for_more(200, SOON).await;
    load.finish().await.assert_nothing_lost();
    assert_eq!(proxy.scrape().sum("leno_proxy_errors_total", &[]), 0.0, "{}", proxy.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_of_all_server_sides_loses_no_call() {
    let authority = Authority::new();
    let (mut servers, proxy, load) = start(&authority).await;
    for server in &mut servers {
        load.wait_for_more(200, SOON).await;
        assert!(server.backend.calls() > 0, "it gets calls while it runs");
        server.drain_proxy(SOON).await;
        server.start_proxy();
    }
    assert_no_call_failed(&proxy, load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applications_that_end_together_with_their_proxies_lose_no_call() {
    let authority = Authority::new();
    let (mut servers, proxy, load) = start(&authority).await;
    for server in &mut servers {
        load.wait_for_more(200, SOON).await;
        let address = server.endpoint();
        let ending = stand_in(server).await;
        tokio::join!(server.drain_proxy(SOON), ending.stop_gracefully());
        server.backend = Backend::start_on(address, settings()).await;
        server.start_proxy();
    }
    assert_no_call_failed(&proxy, load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_without_its_application_costs_no_call_and_attracts_none() {
    let authority = Authority::new();
    let (mut servers, proxy, load) = start(&authority).await;
    load.wait_for_more(200, SOON).await;
    let answered = load.answered();
    stand_in(&mut servers[0]).await.stop_gracefully().await;
    load.wait_for_more(1_000, SOON).await;
    let (resent, answered) = (proxy.scrape().sum("leno_resent_total", &[]), (load.answered() - answered) as f64);
    assert!((1.0..answered / 5.0).contains(&resent), "{resent} of {answered} calls were sent there first");
    assert_no_call_failed(&proxy, load).await;
}

/// Replaces the server of a [`ServerSide`] by a new server at an address that no client calls. Returns the old server,
/// which the caller can stop.
async fn stand_in(server: &mut ServerSide) -> Backend {
    let other = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    std::mem::replace(&mut server.backend, Backend::start_on(other, settings()).await)
}
