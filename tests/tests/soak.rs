//! Many calls while endpoints are added, removed and restarted: no call may fail.

use std::time::Duration;

use leno_tests::backend::{Backend, Settings};
use leno_tests::load::Clients;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::Proxy;

/// Number of calls; `LENO_SOAK_CALLS=1000000` for the long version.
fn calls() -> usize {
    std::env::var("LENO_SOAK_CALLS").map_or(100_000, |text| text.parse().expect("LENO_SOAK_CALLS is a number"))
}

/// Time between two changes.
const CALM: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_endpoints_come_go_and_restart() {
    let mut backends = Vec::new();
    for _ in 0..5 {
        backends.push(Backend::start().await);
    }
    let proxy = Proxy::start(&[service(&backends)]);
    let clients = Clients::connect(proxy.outbound(), ECHO, 10).await;
    let load = clients.busy(calls(), 100);
    let report = tokio::select! {
        report = load => report,
        () = change_again_and_again(&proxy, backends) => unreachable!("the changes do not end by themselves"),
    };
    println!("{} calls, p50 {:?}, p99 {:?}", report.succeeded(), report.percentile(50), report.percentile(99));
    report.assert_nothing_lost();
}

async fn change_again_and_again(proxy: &Proxy, mut backends: Vec<Backend>) {
    loop {
        // A graceful restart, as in a rolling update: the slices lose the server, the server sends GOAWAY and ends, and
        // a new server starts.
        tokio::time::sleep(CALM).await;
        let leaving = backends.remove(0);
        proxy.directory().put(&service(&backends));
        tokio::time::sleep(CALM).await;
        leaving.stop_gracefully().await;
        backends.push(Backend::start().await);
        proxy.directory().put(&service(&backends));

        // A server that restarts on its address, without any change of the configuration.
        tokio::time::sleep(CALM).await;
        let restarting = backends.remove(0);
        let address = restarting.address();
        restarting.stop_gracefully().await;
        backends.push(Backend::start_on(address, Settings::default()).await);
    }
}

fn service(backends: &[Backend]) -> Service {
    let endpoints: Vec<_> = backends.iter().map(Backend::address).collect();
    Service::echo(&endpoints)
}
