//! The distribution of calls if one server is slow.

use std::time::Duration;

use leno_tests::backend::{Backend, Settings};
use leno_tests::load::Clients;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::Proxy;

/// Makes 4,000 calls from one connection to five servers. The last server answers 50 ms later than the other servers.
/// Returns the number of calls at each server.
async fn calls_by_server(policy: &str) -> Vec<u64> {
    let mut backends = Vec::new();
    for slowness_ms in [0, 0, 0, 0, 50] {
        let delay = Duration::from_millis(2 + slowness_ms);
        backends.push(Backend::start_with(Settings { delay, ..Settings::default() }).await);
    }
    let endpoints: Vec<_> = backends.iter().map(Backend::address).collect();
    let proxy = Proxy::start(&[Service::echo(&endpoints).annotated("leno.dev/balancer", policy)]);
    Clients::connect(proxy.outbound(), ECHO, 1).await.busy(4000, 20).await.assert_nothing_lost();
    backends.iter().map(Backend::calls).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latency_balancer_avoids_a_slow_server() {
    let calls = calls_by_server("latency").await;
    assert!(calls[4] < 4000 / 25, "the slow one of {calls:?} got more than a fifth of its share");
    assert!(calls[..4].iter().all(|calls| *calls > 400), "a healthy one of {calls:?} got less than half its share");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn least_request_avoids_a_slow_server() {
    let calls = calls_by_server("least-request").await;
    assert!(calls[4] < 400, "the slow one of {calls:?} got more than half its share");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn round_robin_gives_everybody_the_same() {
    let calls = calls_by_server("round-robin").await;
    assert!(calls.iter().all(|calls| (795..=805).contains(calls)), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_gives_everybody_about_the_same() {
    let calls = calls_by_server("random").await;
    // The range is six standard deviations (25 each) around 800, the mean of the binomial distribution.
    assert!(calls.iter().all(|calls| (650..=950).contains(calls)), "{calls:?}");
}
