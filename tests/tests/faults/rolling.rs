//! Servers' proxies are replaced one after the other, as a rolling update does it.

use std::time::Duration;

use leno_tests::backend::Settings;
use leno_tests::load::Clients;
use leno_tests::manifests::ECHO;

use super::sides::{Authority, ServerSide, client_side, echo};

const SERVERS: usize = 5;
const IN_FLIGHT: usize = 40;
/// In which anything that must happen soon has happened, on a machine with other things to do.
const SOON: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_of_all_server_sides_loses_no_call() {
    let authority = Authority::new();
    let mut servers = Vec::new();
    for number in 0..SERVERS {
        let settings = Settings { delay: Duration::from_millis(5), ..Settings::default() };
        servers.push(ServerSide::start(&authority, &format!("echo{number}"), settings, &["--grace", "10s"]).await);
    }
    let proxy = client_side(&authority, &[echo(&servers)], &[]);
    let clients = Clients::connect(proxy.outbound(), ECHO, 4).await;
    let load = clients.keep_calling(IN_FLIGHT);
    for server in &mut servers {
        load.wait_for_more(200, SOON).await;
        let before = server.backend.calls();
        assert!(before > 0, "it gets calls while it runs");
        server.drain_proxy(SOON).await;
        server.start_proxy();
    }
    load.wait_for_more(200, SOON).await;
    load.finish().await.assert_nothing_lost();
    let scrape = proxy.scrape();
    assert_eq!(scrape.sum("leno_proxy_errors_total", &[]), 0.0, "{}", proxy.log());
}
