//! Policies for traffic with real programs: hedging, time limits, retry budgets, and the pages of the proxy that show
//! them.

use std::time::{Duration, Instant};

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, wait_for};
use leno_tests::scripted::{Reply, Scripted};

const SOON: Duration = Duration::from_secs(20);
const DEADLINE_EXCEEDED: u8 = 4;

/// The part of a policy that hedges every method of the test servers.
fn hedged(delay: &str) -> String {
    format!("hedge: {{delay: {delay}, methods: [test.Test/*]}}")
}

fn page(proxy: &Proxy, path: &str) -> serde_json::Value {
    let (status, text) = proxy.get(path).expect("the admin endpoint answers");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_costs_a_delay_and_no_call() {
    let hanging = Scripted::start(|_| Reply::Send(Vec::new()));
    let good = Backend::start().await;
    let service = Service::echo(&[hanging.address(), good.address()]).policed(&hedged("100ms"));
    let proxy = Proxy::start(&[service]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    for number in 0..100 {
        let answer = client.call(&Call::new("Echo").with("grpc-timeout", "15S"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "call {number}: {answer:?}");
    }
    assert!(hanging.requests() > 0, "the hanging server had no call");
    assert_eq!(good.calls(), 100);
    assert!(good.seen().punishments().is_empty(), "{:?}", good.seen().punishments());
    let scrape = proxy.scrape();
    let hedges = scrape.sum("outbound_http_route_hedge_requests_total", &[r#"route_kind="Service""#]);
    assert!((1.0..=hanging.requests() as f64).contains(&hedges), "{hedges} hedges");
    let answered = scrape.sum("outbound_http_route_backend_response_statuses_total", &[r#"error="""#]);
    let attempts = scrape.sum("outbound_http_route_backend_response_statuses_total", &[]);
    assert_eq!((answered, attempts), (100.0, 100.0), "an attempt that loses to a hedge has no result");
    wait_for("what is left of the budget is reported", SOON, || {
        (proxy.scrape().sum("leno_retry_budget_left", &[r#"backend_name="echo""#]) > 0.0).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_count_the_further_attempts_of_the_metrics_and_take_no_offence() {
    let servers = [Backend::start().await, Backend::start().await];
    let addresses = servers.each_ref().map(Backend::address);
    let proxy = Proxy::start(&[Service::echo(&addresses).policed(&hedged("50ms"))]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    // Make only a few calls: the proxy does not hedge calls of a Service that it regards as loaded.
    for number in 0..15 {
        let answer = client.call(&Call::new("Echo").with("delay-ms", "300"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "call {number}: {answer:?}");
    }
    let hedges = proxy.scrape().sum("outbound_http_route_hedge_requests_total", &[]);
    assert!(hedges > 0.0, "no call is hedged");
    let calls: u64 = servers.iter().map(Backend::calls).sum();
    assert_eq!(calls as f64, 15.0 + hedges);
    assert!(servers.iter().all(|server| server.seen().punishments().is_empty()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_is_edited_is_in_force_and_a_mistake_leaves_the_last_valid_one() {
    let server = Backend::start().await;
    let service = Service::echo(&[server.address()]);
    let proxy = Proxy::start(&[service.clone().policed("timeouts: {request: 200ms}")]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    // Far above the limit, so that a machine that stalls does not make the answer come before the limit's end.
    let never = Call::new("Echo").with("delay-ms", "15000");
    let began = Instant::now();
    let answer = client.call(&never, b"hello").await;
    assert_eq!(answer.grpc_status(), Some(DEADLINE_EXCEEDED), "{answer:?}");
    assert_eq!(answer.field("leno-proxy-error"), Some("request-timeout"));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());

    proxy.directory().put(&service.clone().policed("timeouts: {request: soon}"));
    proxy.wait_for_log(&["\"soon\" is not a duration"]);
    assert_eq!(client.call(&never, b"hello").await.grpc_status(), Some(DEADLINE_EXCEEDED));

    proxy.directory().put(&service.policed("timeouts: {request: 20s}"));
    let client = &client;
    let slow = Call::new("Echo").with("delay-ms", "1500");
    let deadline = Instant::now() + SOON;
    while client.call(&slow, b"hello").await.grpc_status() != Some(0) {
        assert!(Instant::now() < deadline, "the new limit is not in force");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_show_each_part_and_the_object_that_sets_it() {
    let server = Backend::start().await;
    let parts = "retry: {grpcCodes: [UNAVAILABLE], mode: Audit}\nhedge: {delay: p95, methods: [test.Test/Echo]}\nbudget: {percent: 7}";
    let proxy = Proxy::start(&[Service::echo(&[server.address()]).policed(parts)]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    for _ in 0..3 {
        assert_eq!(client.call(&Call::new("Echo"), b"hello").await.grpc_status(), Some(0));
    }
    let config = page(&proxy, "/config");
    let calls = &config["mesh"]["routes"][0]["table"]["entries"][0]["rule"]["calls"];
    assert_eq!(calls["retry"]["mode"], "Audit", "{config}");
    assert_eq!(calls["hedge"]["delay"], "p95");
    assert_eq!(calls["hedge"]["set_by"], "TrafficPolicy default/echo");
    let balancer = page(&proxy, "/balancer");
    let budget = &balancer["clusters"][0]["retry_budget"];
    assert_eq!(
        (&budget["percent"], &budget["set_by"]),
        (&7.into(), &"TrafficPolicy default/echo".into()),
        "{balancer}"
    );
    let delay = &balancer["clusters"][0]["hedge_delays"][0];
    assert_eq!([&delay["method"], &delay["delay"]], ["test.Test/Echo", "p95"], "{balancer}");
    assert_eq!((&delay["delay_ms"], &delay["calls_needed"]), (&serde_json::Value::Null, &100.into()));
    let skipped = proxy.scrape().sum("leno_route_hedge_skipped_total", &[r#"reason="unknown-delay""#]);
    assert_eq!(skipped, 3.0, "no call is hedged after an unknown delay");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reason_for_no_retry_has_a_count() {
    let server = Scripted::start(|begun| Reply::Send(Reply::unavailable(begun.stream)));
    let service = Service::echo(&[server.address()]);
    let budget = "budget: {percent: 100, minPerSecond: 1000}";
    let proxy = Proxy::start(&[
        service.policed(&format!("retry: {{grpcCodes: [UNAVAILABLE], attempts: 1, backoff: 1s}}\n{budget}"))
    ]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    for (field, value) in [("grpc-timeout", "500m"), ("grpc-previous-rpc-attempts", "1"), ("x", "1")] {
        let answer = client.call(&Call::new("Echo").with(field, value), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(14), "{answer:?}");
    }
    let scrape = proxy.scrape();
    for reason in ["deadline", "client", "attempts"] {
        let count = scrape.sum("leno_route_retry_skipped_total", &[format!("reason=\"{reason}\"").as_str()]);
        assert_eq!(count, 1.0, "{reason}");
    }
}

/// A policy of Gateway API for the Service `echo`. Its retryConstraint has this budget, and allows one retry per hour
/// in addition. Leno rounds this rate up to one per second.
fn retry_constraint(name: &str, budget: &str) -> String {
    format!(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {{name: {name}}}
spec:
  targetRefs: [{{group: '', kind: Service, name: echo}}]
  retryConstraint: {{budget: {budget}, minRetryRate: {{count: 1, interval: 1h}}}}
  sessionPersistence: {{sessionName: cart}}
"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_retry_constraint_of_gateway_api_bounds_retries_before_the_budget_of_a_policy() {
    const CALLS: u64 = 50;
    let failing = Scripted::start(|begun| Reply::Send(Reply::unavailable(begun.stream)));
    let parts = "retry: {grpcCodes: [UNAVAILABLE], backoff: 1ms}\nbudget: {percent: 100, minPerSecond: 1000}";
    let proxy = Proxy::start(&[Service::echo(&[failing.address()]).policed(parts)]);
    let client = Client::connect(proxy.outbound(), ECHO).await;
    let retries = async || {
        let (before, began, mut over_budget) = (failing.requests(), Instant::now(), 0);
        for _ in 0..CALLS {
            let answer = client.call(&Call::new("Echo"), b"hello").await;
            over_budget += u64::from(answer.field("leno-proxy-error") == Some("retry-budget-spent"));
        }
        (failing.requests() - before - CALLS, over_budget, began.elapsed())
    };
    let (made, over_budget, _) = retries().await;
    assert_eq!((made, over_budget), (CALLS, 0));

    let set_by = || page(&proxy, "/balancer")["clusters"][0]["retry_budget"]["set_by"].clone();
    let is_set_by = |object: &str| {
        wait_for(&format!("{object} sets the budget"), SOON, || (set_by() == object).then_some(()));
    };
    is_set_by("TrafficPolicy default/echo");
    let constraint = retry_constraint("first", "{percent: 0, interval: 1s}");
    proxy.directory().write("y.yaml", &constraint);
    is_set_by("XBackendTrafficPolicy default/first");
    proxy.wait_for_log(&["sessionPersistence is not supported"]);
    proxy.wait_for_log(&["minRetryRate is rounded up to 1 per second"]);
    let (made, over_budget, elapsed) = retries().await;
    assert!(made <= elapsed.as_secs() + 2, "{made} retries in {elapsed:?}");
    assert!(over_budget > 0 && over_budget + made == CALLS, "{over_budget} calls over the budget, {made} retries");

    // Tests that the first policy stays in force after a second policy is added, and after the first policy becomes
    // invalid.
    proxy.directory().write("z.yaml", &retry_constraint("second", "{percent: 9}"));
    proxy.wait_for_log(&["the older XBackendTrafficPolicy default/first has the same target"]);
    proxy.directory().write("y.yaml", &constraint.replace("percent: 0", "percent: 101"));
    proxy.wait_for_log(&["spec.retryConstraint.budget.percent", "101 is too much or too little; use 0 to 100"]);
    is_set_by("XBackendTrafficPolicy default/first");
    proxy.directory().remove("y.yaml");
    is_set_by("XBackendTrafficPolicy default/second");
    proxy.directory().remove("z.yaml");
    is_set_by("TrafficPolicy default/echo");
}
