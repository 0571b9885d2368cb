use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use leno_model::mesh::ClusterKey;
use leno_model::route::{RouteKind, RouteName};
use leno_model::traffic::Objectives;

use super::{Measured, MethodLabels, MethodMetrics, MethodName, MethodOutcome, MethodTarget, OUTCOMES};
use crate::metrics::fixtures::{assert_line, late_scrape, scrape};
use crate::metrics::{Direction, Exemplar, RelayScrape, TargetLabel, WorkerMetrics};
use crate::trace::TraceId;

const CART: &str = r#"direction="outbound",dst_namespace="shop",dst_service="cart",dst_port="80""#;

const ADD: &str = r#"grpc_service="shop.v1.Cart",grpc_method="Add""#;

fn labels(name: MethodName) -> MethodLabels {
    let key = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
    let of = MethodTarget { direction: Direction::Outbound, target: TargetLabel::Service(key) };
    MethodLabels { of: Arc::new(of), name }
}

fn add() -> MethodLabels {
    labels(MethodName::Grpc("shop.v1.Cart/Add".into()))
}

#[test]
fn calls_of_a_method_are_summed_over_the_workers_by_outcome() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    for worker in &workers {
        let series = worker.method(&add());
        series.requests.add(1);
        series.ended(MethodOutcome::answered(200, Some(0)), Duration::from_millis(7));
    }
    let series = workers[0].method(&add());
    series.requests.add(4);
    series.ended(MethodOutcome::answered(200, Some(14)), Duration::from_millis(1));
    series.ended(MethodOutcome::answered(404, None), Duration::from_millis(1));
    series.ended(MethodOutcome::RESET, Duration::from_millis(1));
    series.ended(MethodOutcome::CANCELLED, Duration::from_secs(5));
    series.ended(MethodOutcome::DENIED, Duration::from_secs(5));

    let text = scrape(&workers);
    assert_line(&text, &format!("leno_method_requests_total{{{CART},{ADD}}} 6"));
    let responses = |outcome: &str| format!("leno_method_responses_total{{{CART},{ADD},{outcome}}}");
    for (outcome, count) in [
        (r#"classification="success",grpc_status="OK""#, 2),
        (r#"classification="failure",grpc_status="UNAVAILABLE""#, 1),
        (r#"classification="success",status_code="404""#, 1),
        (r#"classification="failure",error="reset""#, 1),
        (r#"classification="cancelled",error="cancelled""#, 1),
        (r#"classification="denied",error="denied""#, 1),
    ] {
        assert_line(&text, &format!("{} {count}", responses(outcome)));
    }
    let durations = "leno_method_duration_seconds";
    assert_line(&text, &format!("{durations}_count{{{CART},{ADD}}} 5"));
    assert_line(&text, &format!("{durations}_sum{{{CART},{ADD}}} 0.017"));
    for (le, count) in [("0.001", 3), ("0.005", 3), ("0.01", 5), ("10.0", 5), ("+Inf", 5)] {
        assert_line(&text, &format!("{durations}_bucket{{le=\"{le}\",{CART},{ADD}}} {count}"));
    }
}

#[test]
fn calls_without_a_destination_are_failures_with_their_status() {
    let worker = WorkerMetrics::new();
    let series = worker.method(&add());
    series.ended(MethodOutcome::answered(200, Some(12)), Duration::ZERO);
    series.ended(MethodOutcome::without_destination(200, Some(12)), Duration::ZERO);
    series.ended(MethodOutcome::without_destination(404, None), Duration::ZERO);
    let text = scrape(&[worker]);
    for outcome in [
        r#"classification="success",grpc_status="UNIMPLEMENTED""#,
        r#"classification="failure",grpc_status="UNIMPLEMENTED""#,
        r#"classification="failure",status_code="404""#,
    ] {
        assert_line(&text, &format!("leno_method_responses_total{{{CART},{ADD},{outcome}}} 1"));
    }
}

#[test]
fn http_methods_count_with_their_route() {
    let worker = WorkerMetrics::new();
    let route = RouteName { kind: RouteKind::Http, namespace: "shop".into(), name: "canary".into() };
    worker.method(&labels(MethodName::Http("GET", Some(Arc::new(route))))).requests.add(1);
    worker.method(&labels(MethodName::Http("GET", None))).requests.add(2);
    worker.method(&labels(MethodName::Other)).requests.add(3);
    let text = scrape(&[worker]);
    let routed = r#"http_method="GET",route_kind="HTTPRoute",route_namespace="shop",route_name="canary""#;
    assert_line(&text, &format!("leno_method_requests_total{{{CART},{routed}}} 1"));
    assert_line(&text, &format!("leno_method_requests_total{{{CART},http_method=\"GET\"}} 2"));
    assert_line(&text, &format!("leno_method_requests_total{{{CART},grpc_method=\"other\"}} 3"));
    assert!(!text.contains("leno_method_messages_total{"), "there were no messages");
}

#[test]
fn messages_count_by_side_and_deadlines_by_point() {
    let worker = WorkerMetrics::new();
    let series = worker.method(&add());
    series.request_messages.add(1);
    series.response_messages.add(1_000);
    series.time_left(Measured::Received, Duration::from_millis(500));
    series.time_left(Measured::Sent, Duration::from_millis(90));
    series.time_left(Measured::Ended, Duration::ZERO);
    let text = scrape(&[worker]);
    assert_line(&text, &format!("leno_method_messages_total{{{CART},{ADD},side=\"request\"}} 1"));
    assert_line(&text, &format!("leno_method_messages_total{{{CART},{ADD},side=\"response\"}} 1000"));
    let left = "leno_method_time_left_seconds";
    for (at, le, count) in
        [("received", "0.1", 0), ("received", "1.0", 1), ("sent", "0.01", 0), ("sent", "0.1", 1), ("ended", "0.0", 1)]
    {
        assert_line(&text, &format!("{left}_bucket{{le=\"{le}\",{CART},{ADD},at=\"{at}\"}} {count}"));
    }
    assert_line(&text, &format!("{left}_sum{{{CART},{ADD},at=\"received\"}} 0.5"));
}

#[test]
fn outcomes_beyond_the_limit_count_together_and_still_as_what_they_are() {
    let worker = WorkerMetrics::new();
    let series = worker.method(&add());
    for status in 400..400 + OUTCOMES as u16 {
        series.ended(MethodOutcome::answered(status, None), Duration::ZERO);
    }
    for outcome in [MethodOutcome::answered(200, None), MethodOutcome::answered(503, None), MethodOutcome::RESET] {
        series.ended(outcome, Duration::ZERO);
    }
    series.ended(MethodOutcome::CANCELLED, Duration::ZERO);
    let text = scrape(&[worker]);
    for (labels, count) in [
        (r#"classification="success",error="other""#, 1),
        (r#"classification="failure",error="other""#, 2),
        (r#"classification="cancelled",error="cancelled""#, 1),
    ] {
        assert_line(&text, &format!("leno_method_responses_total{{{CART},{ADD},{labels}}} {count}"));
    }
}

#[test]
fn a_series_is_small() {
    assert!(size_of::<MethodMetrics>() <= 352, "{} bytes", size_of::<MethodMetrics>());
}

#[test]
fn traced_calls_are_exemplars_of_their_own_buckets() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    let get = labels(MethodName::Grpc("shop.v1.Cart/Get".into()));
    let ended = |worker: &WorkerMetrics, of: &MethodLabels, trace: u128, ms: u64| {
        let (series, duration) = (worker.method(of), Duration::from_millis(ms));
        series.ended(MethodOutcome::answered(200, Some(0)), duration);
        let trace = TraceId::of(trace).expect("not zero");
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + trace.0.get() as u64);
        series.traced(Exemplar { trace, duration, at });
    };
    ended(&workers[0], &add(), 0xa, 7);
    ended(&workers[1], &add(), 0xb, 8);
    ended(&workers[0], &get, 0xc, 1);
    ended(&workers[0], &get, 0xd, 20_000);
    workers[1].method(&labels(MethodName::Other)).ended(MethodOutcome::RESET, Duration::from_millis(3));

    let text = RelayScrape::new(&workers, Instant::now()).exemplars().add_to(scrape(&workers));
    let bucket = |le: &str, method: &str| {
        format!(
            "leno_method_duration_seconds_bucket{{le=\"{le}\",{CART},grpc_service=\"shop.v1.Cart\",grpc_method=\"{method}\"}}"
        )
    };
    let id = |last: &str| format!("{{trace_id=\"{last:0>32}\"}}");
    assert_line(&text, &format!("{} 2 # {} 0.008 1700000011.000", bucket("0.01", "Add"), id("b")));
    assert_line(&text, &format!("{} 1 # {} 0.001 1700000012.000", bucket("0.001", "Get"), id("c")));
    assert_line(&text, &format!("{} 2 # {} 20 1700000013.000", bucket("+Inf", "Get"), id("d")));
    assert_eq!(text.matches("trace_id").count(), 3);
}

#[test]
fn series_that_services_share_beyond_a_limit_have_no_objective() {
    let objectives = Objectives::read("success 99 %", "Service shop/cart".into()).expect("objectives");
    let worker = WorkerMetrics::new();
    for labels in [add(), add().beyond_limit()] {
        let series = worker.method(&labels);
        series.set_objective(objectives.of_others());
        series.count_for_objective(MethodOutcome::RESET, Duration::ZERO);
    }
    let text = scrape(&[worker]);
    assert_line(&text, &format!("leno_method_objective_misses_total{{{CART},{ADD},objective=\"success\"}} 1"));
    assert_eq!(text.lines().filter(|line| line.starts_with("leno_method_objective_misses_total")).count(), 1);
}

#[test]
fn a_worker_without_calls_keeps_its_counts_and_not_its_former_objective() {
    let objectives = |text: &str| Objectives::read(text, "Service shop/cart".into()).expect("objectives");
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    let held = workers.each_ref().map(|worker| worker.method(&add()));
    for (series, text) in held.iter().zip(["success 99.9 %, p99 50ms", "success 99 %, p90 20ms"]) {
        series.set_objective(objectives(text).of_others());
        series.count_for_objective(MethodOutcome::RESET, Duration::ZERO);
    }
    let [left, _stays] = held;
    drop(left);
    let text = late_scrape(&workers);
    let labels = |objective: &str| format!("{{{CART},{ADD},objective=\"{objective}\"}}");
    assert_line(&text, &format!("leno_method_objective_misses_total{} 2", labels("success")));
    assert_line(&text, &format!("leno_method_objective_ratio{} 0.99", labels("success")));
    assert_line(&text, &format!("leno_method_objective_ratio{} 0.9", labels("latency")));
    assert_line(&text, &format!("leno_method_objective_bound_seconds{} 0.02", labels("latency")));
}
