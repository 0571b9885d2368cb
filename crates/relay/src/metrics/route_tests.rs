use std::time::Duration;

use leno_model::mesh::ClusterKey;
use leno_model::route::{RouteKind, RouteName};

use super::{RouteLabels, RouteMetrics};
use crate::metrics::WorkerMetrics;
use crate::metrics::fixtures::{assert_line, late_scrape, scrape};

const ROUTE: &str = r#"parent_group="core",parent_kind="Service",parent_namespace="shop",parent_name="cart",parent_port="80",parent_section_name="",route_group="gateway.networking.k8s.io",route_kind="HTTPRoute",route_namespace="shop",route_name="canary""#;

const MS: Duration = Duration::from_millis(1);

fn backend(name: &str) -> String {
    format!(
        "backend_group=\"core\",backend_kind=\"Service\",backend_namespace=\"shop\",backend_name=\"{name}\",\
         backend_port=\"80\",backend_section_name=\"\""
    )
}

fn key(service: &str) -> ClusterKey {
    ClusterKey { namespace: "shop".into(), service: service.into(), port: 80 }
}

fn labels(kind: RouteKind, route: &str, backend: Option<&str>) -> RouteLabels {
    let route = RouteName { kind, namespace: "shop".into(), name: route.into() };
    RouteLabels { parent: key("cart"), route, backend: backend.map(key) }
}

#[test]
fn requests_count_by_backend_and_what_became_of_them_by_route() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    for (worker, backend) in [(&workers[0], "cart-v1"), (&workers[1], "cart-v1"), (&workers[1], "cart-v2")] {
        let series = worker.route(&labels(RouteKind::Http, "canary", Some(backend)));
        series.requests.add(1);
        series.ended(Some(200), None, None, MS);
    }
    workers[0].route(&labels(RouteKind::Http, "canary", None)).ended(Some(504), None, Some("request-timeout"), MS);
    workers[0].route(&labels(RouteKind::Http, "canary", None)).ended(None, None, Some("cancelled"), MS);

    let text = scrape(&workers);
    let requests = "outbound_http_route_backend_requests_total";
    assert_line(&text, &format!("{requests}{{{ROUTE},{}}} 2", backend("cart-v1")));
    assert_line(&text, &format!("{requests}{{{ROUTE},{}}} 1", backend("cart-v2")));
    let statuses = "outbound_http_route_request_statuses_total";
    assert_line(&text, &format!("{statuses}{{{ROUTE},http_status=\"200\",error=\"\"}} 3"));
    assert_line(&text, &format!("{statuses}{{{ROUTE},http_status=\"504\",error=\"REQUEST_TIMEOUT\"}} 1"));
    assert_line(&text, &format!("{statuses}{{{ROUTE},http_status=\"\",error=\"cancelled\"}} 1"));
    let samples = text.lines().filter(|line| line.starts_with(requests)).count();
    assert_eq!(samples, 2, "what went to no backend is no request to one");
}

#[test]
fn grpc_routes_count_under_names_of_their_own_and_with_grpcs_statuses() {
    let worker = WorkerMetrics::new();
    let series = worker.route(&labels(RouteKind::Grpc, "canary", Some("cart-v1")));
    series.requests.add(1);
    series.ended(Some(200), Some(0), None, MS);
    series.ended(Some(200), Some(14), Some("no-endpoint"), MS);
    let text = scrape(&[worker]);
    let route = ROUTE.replace("HTTPRoute", "GRPCRoute");
    let statuses = "outbound_grpc_route_request_statuses_total";
    assert_line(&text, &format!("{statuses}{{{route},grpc_status=\"OK\",error=\"\"}} 1"));
    assert_line(&text, &format!("{statuses}{{{route},grpc_status=\"UNAVAILABLE\",error=\"no-endpoint\"}} 1"));
    assert!(!text.contains("outbound_http_route_request_statuses_total{"), "{text}");
}

#[test]
fn a_grpc_call_that_an_http_route_sent_has_its_grpc_status_too() {
    let worker = WorkerMetrics::new();
    let series = worker.route(&labels(RouteKind::Http, "canary", Some("cart-v1")));
    series.ended(Some(200), Some(14), None, MS);
    series.ended(Some(200), Some(4), Some("request-timeout"), MS);
    series.ended(Some(200), None, Some("reset"), MS);
    series.ended(Some(200), Some(7), Some("denied"), MS);
    let text = scrape(&[worker]);
    for outcome in [
        r#"http_status="200",grpc_status="PERMISSION_DENIED",error="denied""#,
        r#"http_status="200",grpc_status="UNAVAILABLE",error="""#,
        r#"http_status="200",grpc_status="DEADLINE_EXCEEDED",error="REQUEST_TIMEOUT""#,
        r#"http_status="200",error="reset""#,
    ] {
        assert_line(&text, &format!("outbound_http_route_request_statuses_total{{{ROUTE},{outcome}}} 1"));
    }
}

#[test]
fn outcomes_without_a_counter_of_their_own_keep_their_class() {
    let worker = WorkerMetrics::new();
    let series = worker.route(&labels(RouteKind::Http, "canary", Some("cart-v1")));
    // The first outcomes claim all counters of the series, so the later outcomes get none.
    (300..).take(super::OUTCOMES).for_each(|status| series.ended(Some(status), None, None, MS));
    series.ended(Some(200), None, None, MS);
    series.ended(Some(200), Some(5), None, MS);
    series.ended(Some(503), None, None, MS);
    series.ended(Some(200), Some(14), None, MS);
    series.ended(Some(200), None, Some("reset"), MS);
    series.ended(Some(200), Some(12), Some("no-route"), MS);
    series.ended(Some(200), None, Some("cancelled"), MS);
    series.ended(Some(200), Some(7), Some("denied"), MS);
    let text = scrape(&[worker]);
    for (class, count) in [("success", 2), ("failure", 4), ("cancelled", 1), ("denied", 1)] {
        let labels = format!("{ROUTE},classification=\"{class}\",error=\"other\"");
        assert_line(&text, &format!("outbound_http_route_request_statuses_total{{{labels}}} {count}"));
    }
}

#[test]
fn requests_that_were_sent_to_no_backend_count_by_route() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    for worker in &workers {
        worker.route(&labels(RouteKind::Http, "canary", None)).requests.add(2);
        worker.route(&labels(RouteKind::Http, "canary", Some("cart-v1"))).requests.add(5);
    }
    workers[0].route(&labels(RouteKind::Http, "other", None));
    let text = scrape(&workers);
    assert_line(&text, &format!("leno_route_unsent_requests_total{{{ROUTE}}} 4"));
    assert_eq!(text.lines().filter(|line| line.starts_with("leno_route_unsent_requests_total")).count(), 1);
}

#[test]
fn connections_count_as_opened_and_closed() {
    let worker = WorkerMetrics::new();
    let series = worker.route(&labels(RouteKind::Tcp, "canary", Some("cart-v1")));
    series.requests.add(3);
    series.ended(Some(200), None, None, MS);
    series.ended(None, None, None, MS);
    series.ended(None, None, Some("cancelled"), MS);
    let text = scrape(&[worker]);
    let route = ROUTE.replace("HTTPRoute", "TCPRoute");
    let opened = text.lines().find(|line| line.starts_with("outbound_tcp_route_open_total{")).expect("a count");
    assert!(
        opened.contains(&route) && opened.contains("backend_name=\"cart-v1\"") && opened.ends_with(" 3"),
        "{opened}"
    );
    assert_line(&text, &format!("outbound_tcp_route_close_total{{{route},error=\"\"}} 2"));
    assert_line(&text, &format!("outbound_tcp_route_close_total{{{route},error=\"cancelled\"}} 1"));
    assert!(!text.contains("outbound_tls_route_open_total{"), "{text}");
}

#[test]
fn names_beyond_the_limit_share_one_series_of_each_kind() {
    let beyond = labels(RouteKind::Http, "canary", Some("cart-v1")).beyond_limit();
    assert_eq!(beyond, labels(RouteKind::Http, "other-route", Some("cart-v9")).beyond_limit());
    assert_ne!(beyond, labels(RouteKind::Grpc, "canary", Some("cart-v1")).beyond_limit());
}

#[test]
fn reasons_for_no_further_attempt_are_summed_over_backends_and_cost_nothing_without_one() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    for (worker, backend) in [(&workers[0], "cart-v1"), (&workers[1], "cart-v2")] {
        let series = worker.route(&labels(RouteKind::Grpc, "canary", Some(backend)));
        series.retry_skipped("budget");
        series.hedge_skipped("unknown-delay");
    }
    let other = workers[0].route(&labels(RouteKind::Http, "canary", Some("cart-v1")));
    other.ended(Some(200), None, None, MS);
    assert!(other.further.get().is_none());
    workers[0].route(&labels(RouteKind::Grpc, "canary", Some("cart-v1"))).retry_skipped("deadline");

    let text = scrape(&workers);
    let route = ROUTE.replace("HTTPRoute", "GRPCRoute");
    assert_line(&text, &format!("leno_route_retry_skipped_total{{{route},reason=\"budget\"}} 2"));
    assert_line(&text, &format!("leno_route_retry_skipped_total{{{route},reason=\"deadline\"}} 1"));
    assert_line(&text, &format!("leno_route_hedge_skipped_total{{{route},reason=\"unknown-delay\"}} 2"));
    assert_eq!(text.lines().filter(|line| line.contains("_skipped_total{")).count(), 3);
}

#[test]
fn attempts_count_by_backend_whether_or_not_they_ended_their_request() {
    let worker = WorkerMetrics::new();
    let [v1, v2] = ["cart-v1", "cart-v2"].map(|name| worker.route(&labels(RouteKind::Grpc, "canary", Some(name))));
    v1.passed_over(Some(200), Some(14), None);
    v1.passed_over(None, None, Some("backend-timeout"));
    v1.ended(Some(200), Some(0), None, MS);
    v2.ended(Some(200), Some(14), None, MS);
    worker.route(&labels(RouteKind::Grpc, "canary", None)).ended(Some(200), Some(14), Some("no-backend"), MS);

    let text = scrape(&[worker]);
    let route = ROUTE.replace("HTTPRoute", "GRPCRoute");
    let statuses = "outbound_grpc_route_backend_response_statuses_total";
    for (name, outcome) in [
        ("cart-v1", r#"grpc_status="UNAVAILABLE",error="""#),
        ("cart-v1", r#"grpc_status="",error="RESPONSE_HEADERS_TIMEOUT""#),
        ("cart-v1", r#"grpc_status="OK",error="""#),
        ("cart-v2", r#"grpc_status="UNAVAILABLE",error="""#),
    ] {
        assert_line(&text, &format!("{statuses}{{{route},{},{outcome}}} 1", backend(name)));
    }
    let samples = text.lines().filter(|line| line.starts_with(statuses)).count();
    assert_eq!(samples, 4, "a request to no backend is no attempt: {text}");
    let requests = "outbound_grpc_route_request_statuses_total";
    assert_line(&text, &format!("{requests}{{{route},grpc_status=\"UNAVAILABLE\",error=\"\"}} 1"));
}

#[test]
fn durations_are_in_linkerds_buckets_and_those_of_requests_are_summed_over_backends() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    for (worker, name, ms) in
        [(&workers[0], "cart-v1", 30), (&workers[1], "cart-v1", 50), (&workers[1], "cart-v2", 700)]
    {
        let series = worker.route(&labels(RouteKind::Http, "canary", Some(name)));
        series.ended(Some(200), None, None, Duration::from_millis(ms));
        series.responded(Duration::from_millis(ms - 10));
    }
    workers[0].route(&labels(RouteKind::Http, "unused", Some("cart-v1")));

    let text = scrape(&workers);
    let requests = "outbound_http_route_request_duration_seconds";
    assert_line(&text, &format!("# TYPE {requests} histogram"));
    for (le, count) in [("0.05", 2), ("0.5", 2), ("1.0", 3), ("10.0", 3), ("+Inf", 3)] {
        assert_line(&text, &format!("{requests}_bucket{{le=\"{le}\",{ROUTE}}} {count}"));
    }
    assert_line(&text, &format!("{requests}_sum{{{ROUTE}}} 0.78"));
    let responses = "outbound_http_route_backend_response_duration_seconds";
    for (le, count) in [("0.025", 1), ("0.05", 2), ("0.1", 2), ("0.25", 2), ("0.5", 2), ("1.0", 2), ("+Inf", 2)] {
        assert_line(&text, &format!("{responses}_bucket{{le=\"{le}\",{ROUTE},{}}} {count}", backend("cart-v1")));
    }
    assert_line(&text, &format!("{responses}_count{{{ROUTE},{}}} 1", backend("cart-v2")));
    let is_unused = |line: &str| line.contains("_duration_seconds") && line.contains("unused");
    assert!(!text.lines().any(is_unused), "a series without durations takes no line: {text}");
}

#[test]
fn a_series_is_small() {
    assert!(size_of::<RouteMetrics>() <= 1_176, "{} bytes", size_of::<RouteMetrics>());
}

#[test]
fn a_backend_that_a_route_no_longer_has_still_counts_for_the_route() {
    let worker = WorkerMetrics::new();
    let series = ["cart-v1", "cart-v2"].map(|name| worker.route(&labels(RouteKind::Http, "canary", Some(name))));
    for series in &series {
        series.retries.requests.add(1);
        series.ended(Some(200), None, None, MS);
    }
    worker.route(&labels(RouteKind::Http, "other", None)).ended(Some(200), None, None, MS);
    let [gone, _held] = series;
    drop(gone);

    let text = late_scrape(&[worker]);
    assert_line(
        &text,
        &format!("outbound_http_route_request_statuses_total{{{ROUTE},http_status=\"200\",error=\"\"}} 2"),
    );
    assert_line(&text, &format!("outbound_http_route_retry_requests_total{{{ROUTE}}} 2"));
    assert_line(&text, &format!("outbound_http_route_request_duration_seconds_count{{{ROUTE}}} 2"));
    assert!(!text.contains(r#"route_name="other""#), "the series of a route that nothing uses has not ended: {text}");
}
