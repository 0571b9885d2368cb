use std::time::Duration;

use crate::metrics::fixtures::{assert_line, inbound, late_scrape, outbound, scrape};
use crate::metrics::{Class, NoTlsReason, TlsLabel, TrafficLabels, WorkerMetrics};

const MS: Duration = Duration::from_millis(1);

#[test]
fn calls_of_all_callers_are_summed_by_port_and_status() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    let web = workers[0].traffic(&inbound(8080, "web"));
    let cart = workers[1].traffic(&inbound(8080, "cart"));
    for series in [&web, &cart] {
        series.request();
        series.response(200, Some(14), Class::Failure, Some(MS));
    }
    web.request();
    web.response(503, None, Class::Failure, Some(MS));
    let probe = TrafficLabels { tls: TlsLabel::None(NoTlsReason::Probe), ..inbound(8080, "web") };
    workers[0].traffic(&probe).request();
    workers[0].traffic(&outbound(50051)).request();

    let text = scrape(&workers);
    let labels = |route: &str| {
        format!("parent_kind=\"default\",parent_port=\"8080\",route_kind=\"default\",route_name=\"{route}\"")
    };
    assert_line(&text, &format!("inbound_http_requests_total{{{}}} 3", labels("default")));
    assert_line(&text, &format!("inbound_http_requests_total{{{}}} 1", labels("probe")));
    assert_line(&text, &format!("inbound_http_statuses_total{{{},status=\"200\"}} 2", labels("default")));
    assert_line(&text, &format!("inbound_http_statuses_total{{{},status=\"503\"}} 1", labels("default")));
    assert_line(&text, &format!("inbound_http_request_duration_seconds_count{{{}}} 3", labels("default")));
    assert_line(
        &text,
        &format!("inbound_http_request_duration_seconds_bucket{{le=\"0.001\",{}}} 3", labels("default")),
    );
    let samples = text.lines().filter(|line| line.starts_with("inbound_http_requests_total{")).count();
    assert_eq!(samples, 2, "outbound calls are no calls to a port: {text}");
}

#[test]
fn calls_of_callers_that_have_left_still_count_for_their_port() {
    let workers = [WorkerMetrics::new(), WorkerMetrics::new()];
    for worker in &workers {
        let left = worker.traffic(&inbound(8080, "web"));
        left.request();
        left.response(503, None, Class::Failure, Some(MS));
    }
    let held = workers[0].traffic(&inbound(8080, "cart"));
    held.request();
    held.response(200, None, Class::Success, Some(MS));

    let text = late_scrape(&workers);
    assert!(!text.contains("/sa/web"), "the series of the caller has not ended: {text}");
    let labels = r#"parent_kind="default",parent_port="8080",route_kind="default",route_name="default""#;
    assert_line(&text, &format!("inbound_http_requests_total{{{labels}}} 3"));
    assert_line(&text, &format!("inbound_http_statuses_total{{{labels},status=\"503\"}} 2"));
    assert_line(&text, &format!("inbound_http_request_duration_seconds_count{{{labels}}} 3"));
}
