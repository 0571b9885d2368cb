//! Objectives of methods: the counters of the proxies, and the commands that show them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::programs::run_well;
use leno_tests::proxy::{Proxy, free_address, wait_for};
use leno_tests::xds::Control;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(20);
const OBJECTIVE: &str = "leno.dev/objective";
/// A latency objective. A fast call takes less than this bound, even on a loaded machine, and a call that takes
/// [`SLOW_MS`] misses it.
const BOUND: &str = "p99 2s";
const SLOW_MS: &str = "2500";

/// Returns the number of calls, the number of misses and the ratio for an objective of a method.
fn counted(proxy: &Proxy, method: &str, objective: &str) -> (f64, f64, f64) {
    let scrape = proxy.scrape();
    let (method, objective) = (format!("grpc_method=\"{method}\""), format!("objective=\"{objective}\""));
    let of = |name: &str| scrape.sum(&format!("leno_method_objective_{name}"), &[&method, &objective]);
    (of("calls_total"), of("misses_total"), of("ratio"))
}

/// Waits until the proxy's metrics show this ratio for an objective.
fn wait_for_ratio(proxy: &Proxy, method: &str, objective: &str, ratio: f64) {
    let what = format!("{method} has the ratio {ratio}");
    wait_for(&what, SOON, || (counted(proxy, method, objective).2 == ratio).then_some(()));
}

/// Calls a method: `fast` times without a failure, then `failing` times, then `slow` times.
async fn make(client: &Client, method: &str, [fast, failing, slow]: [usize; 3]) {
    for _ in 0..fast {
        assert_eq!(client.call(&Call::new(method), b"hello").await.grpc_status(), Some(0));
    }
    for _ in 0..failing {
        let failed = client.call(&Call::new(method).with("reply-status", "14"), b"hello").await;
        assert_eq!(failed.grpc_status(), Some(14));
    }
    for _ in 0..slow {
        let late = client.call(&Call::new(method).with("delay-ms", SLOW_MS), b"hello").await;
        assert_eq!(late.grpc_status(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_fail_or_are_slow_are_counted_by_method_and_a_new_objective_applies_at_once() {
    let backend = Backend::start().await;
    let echo = Service::echo(&[backend.address()]);
    let lines = format!("test.Test/Get: success 99.9 %, {BOUND}\\ntest.Test/*: success 50 %");
    let dead = Service::new("dead", &[free_address()]).annotated(OBJECTIVE, "success 90 %");
    let proxy = Proxy::start_with(free_address(), &[echo.clone().annotated(OBJECTIVE, &lines), dead], &[]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    make(&client, "Get", [10, 3, 2]).await;
    make(&client, "Add", [1, 1, 0]).await;
    assert_eq!(counted(&proxy, "Get", "success"), (15.0, 3.0, 0.999));
    assert_eq!(counted(&proxy, "Get", "latency"), (12.0, 2.0, 0.99));
    assert_eq!(counted(&proxy, "Add", "success"), (2.0, 1.0, 0.5));
    assert_eq!(counted(&proxy, "Add", "latency"), (0.0, 0.0, 0.0));

    // Only a caller's proxy sees that a server cannot be reached.
    let unreachable = client.call(&Call::new("Get").to("dead.default:50051"), b"hello").await;
    assert_eq!(unreachable.grpc_status(), Some(14));
    assert_eq!(counted(&proxy, "other", "success"), (1.0, 1.0, 0.9));

    // A change of the objective must not reset the counts, close the connections or change the balancer's measurements.
    let connections = backend.seen().connections.load(Ordering::Relaxed);
    proxy.directory().put(&echo.clone().annotated(OBJECTIVE, "success 99 %"));
    wait_for_ratio(&proxy, "Get", "success", 0.99);
    make(&client, "Get", [4, 1, 0]).await;
    assert_eq!(counted(&proxy, "Get", "success"), (20.0, 4.0, 0.99));
    assert_eq!(counted(&proxy, "Get", "latency"), (12.0, 2.0, 0.0), "without an objective, the counts stay");
    assert_eq!(backend.seen().connections.load(Ordering::Relaxed), connections, "no connection is reset");

    // A mistake leaves the last valid objective in force.
    proxy.directory().put(&echo.clone().annotated(OBJECTIVE, "success 101 %"));
    let line = proxy.wait_for_log(&["echo.yaml:", OBJECTIVE]);
    assert!(line.contains("is not a share of successful calls; write 1 % to 99.999 %"), "{line}");
    make(&client, "Get", [1, 0, 0]).await;
    assert_eq!(counted(&proxy, "Get", "success"), (21.0, 4.0, 0.99));

    proxy.directory().put(&echo);
    wait_for_ratio(&proxy, "Get", "success", 0.0);
    make(&client, "Get", [1, 0, 0]).await;
    assert_eq!(counted(&proxy, "Get", "success"), (21.0, 4.0, 0.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_counts_once_however_often_it_is_retried_and_a_missed_deadline_is_a_miss() {
    let backend = Backend::start().await;
    let echo = Service::echo(&[backend.address(), free_address()]).annotated(OBJECTIVE, "success 99 %, p50 10s");
    let echo = echo.policed("retry: {grpcCodes: [UNAVAILABLE], attempts: 3, backoff: 1ms}");
    let proxy = Proxy::start_with(free_address(), &[echo], &[]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    make(&client, "Get", [20, 0, 0]).await;
    assert_eq!(counted(&proxy, "Get", "success"), (20.0, 0.0, 0.99));
    make(&client, "Get", [0, 1, 0]).await;
    assert_eq!(counted(&proxy, "Get", "success"), (21.0, 1.0, 0.99));
    let late = Call::new("Get").with("delay-ms", "5000").with("grpc-timeout", "100m");
    assert_eq!(client.call(&late, b"hello").await.grpc_status(), Some(4));
    assert_eq!(counted(&proxy, "Get", "success"), (22.0, 2.0, 0.99));
    assert_eq!(counted(&proxy, "Get", "latency"), (20.0, 0.0, 0.5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leno_stat_methods_shows_the_objective_and_the_burn_rate() {
    let backend = Backend::start().await;
    let objective = format!("success 99 %, {BOUND}");
    let echo = Service::echo(&[backend.address()]).annotated(OBJECTIVE, &objective);
    let proxy = Proxy::start_with(free_address(), &[echo], &[]);
    let admin = proxy.admin().to_string();
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let stat = |words: &[&str]| {
        let words = [&["stat", "methods", "--admin", &admin, "--window", "2s"], words].concat();
        std::thread::scope(|scope| {
            let counting = scope.spawn(|| run_well("leno", &words, SOON));
            let runtime = tokio::runtime::Handle::current();
            while !counting.is_finished() {
                tokio::task::block_in_place(|| runtime.block_on(make(&client, "Get", [4, 1, 0])));
            }
            counting.join().expect("no panic")
        })
    };
    let text = stat(&[]);
    let row = text.lines().find(|line| line.contains("test.Test/Get")).expect("a row");
    assert!(text.contains("OBJECTIVE") && row.contains("success 99 %, p99 2s"), "{text}");
    let printed = stat(&["-o", "json"]);
    let rows: Value = serde_json::Deserializer::from_str(&printed).into_iter().next().expect("output").expect("JSON");
    let success = &rows[0]["objective"]["success"];
    let burn = success["burn_rate"].as_f64().expect("a burn rate");
    assert!((15.0..=30.0).contains(&burn) && success["ratio"] == 0.99, "a fifth of the calls fail: {rows}");
    assert_eq!(
        (&rows[0]["objective"]["latency"]["misses"], &rows[0]["objective"]["latency_ms"]),
        (&0.0.into(), &2_000.0.into())
    );

    let explained = run_well("leno", &["explain", "test.Test/Get", ECHO, "--admin", &admin], SOON);
    assert!(explained.contains("objective  success 99 %, p99 2s, set by Service default/echo"), "{explained}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_objective_reaches_a_proxy_through_the_control_plane() {
    let backend = Backend::start().await;
    let echo = Service::echo(&[backend.address()]);
    let control = Control::start(&[echo.clone().annotated(OBJECTIVE, "test.Test/Get: success 99.9 %")]);
    let proxy = Proxy::start_asking(control.xds(), &[]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    make(&client, "Get", [2, 1, 0]).await;
    assert_eq!(counted(&proxy, "Get", "success"), (3.0, 1.0, 0.999));
    let connections = backend.seen().connections.load(Ordering::Relaxed);
    control.directory().put(&echo.clone().annotated(OBJECTIVE, "success 95 %"));
    wait_for_ratio(&proxy, "Get", "success", 0.95);
    make(&client, "Get", [1, 0, 0]).await;
    assert_eq!(counted(&proxy, "Get", "success"), (4.0, 1.0, 0.95));
    assert_eq!(backend.seen().connections.load(Ordering::Relaxed), connections, "no connection is reset");
    control.directory().put(&echo);
    wait_for_ratio(&proxy, "Get", "success", 0.0);
}
