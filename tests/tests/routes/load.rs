//! Routes that are edited during calls.

use std::time::Duration;

use leno_tests::backend::{Backend, Settings};
use leno_tests::load::Clients;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, wait_for};

/// Longest time that a test waits for an event that it expects soon. It allows for a busy machine.
const SOON: Duration = Duration::from_secs(30);

fn split(first: u32, second: u32) -> Service {
    Service::echo(&[]).http_routed(&format!(
        "- backendRefs:
  - {{name: v1, port: 50051, weight: {first}}}
  - {{name: v2, port: 50051, weight: {second}}}"
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_rolled_out_under_load_without_a_failed_call() {
    let slow = || Settings { delay: Duration::from_millis(5), ..Settings::default() };
    let (v1, v2) = (Backend::start_with(slow()).await, Backend::start_with(slow()).await);
    let backends = [Service::new("v1", &[v1.address()]), Service::new("v2", &[v2.address()])];
    let proxy = Proxy::start(&[&backends[..], &[split(100, 0)]].concat());
    let clients = Clients::connect(proxy.outbound(), ECHO, 4).await;
    clients.busy(100, 4).await.assert_nothing_lost();
    assert_eq!((v1.calls(), v2.calls()), (100, 0));

    let load = clients.keep_calling(20);
    let direct = Service::echo(&[v1.address()]);
    for service in [split(90, 10), split(50, 50), direct, split(10, 90), split(0, 100)] {
        let reloads = || proxy.scrape().sum("leno_config_reloads_total", &[]);
        let before = reloads();
        proxy.directory().put(&service);
        wait_for("the edit is read", SOON, || (reloads() > before).then_some(()));
        // Make 100 calls before the next edit, so that the proxy opens the connections that this edit requires.
        load.wait_for_more(100, SOON).await;
    }
    load.finish().await.assert_nothing_lost();

    // After a moment, v2 gets all calls.
    clients.busy_until_shares_are([0, 100], [&v1, &v2], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_never_answers_does_not_slow_the_calls_down() {
    let (v1, shadow) = (
        Backend::start().await,
        Backend::start_with(Settings { delay: Duration::from_secs(60), ..Settings::default() }).await,
    );
    let rules = "- filters:
  - {type: RequestMirror, requestMirror: {backendRef: {name: shadow, port: 50051}}}
  backendRefs: [{name: v1, port: 50051}]";
    let services = [
        Service::echo(&[]).http_routed(rules),
        Service::new("v1", &[v1.address()]),
        Service::new("shadow", &[shadow.address()]),
    ];
    let proxy = Proxy::start(&services);
    let report = Clients::connect(proxy.outbound(), ECHO, 4).await.busy(4_000, 20).await;
    report.assert_nothing_lost();
    // The mirror answers after a minute. So a call would take a minute if it waited for the answer to its copy.
    assert!(report.percentile(100) < Duration::from_secs(30), "one call took {:?}", report.percentile(100));
    assert_eq!(v1.calls(), 4_000);
    assert!(shadow.calls() > 0, "the mirror was never used");
    let scrape = proxy.scrape();
    assert!(scrape.sum("leno_mirrors_dropped_total", &[]) > 0.0, "copies that nobody takes are dropped");
}
