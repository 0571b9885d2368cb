use super::*;
use crate::cluster::prometheus::tests::recorded;
use crate::cluster::source::tests::measured;

const PARENT: &str = "parent_namespace=\"shop\",parent_name=\"cart\",parent_port=\"80\",route_kind=\"GRPCRoute\",route_namespace=\"shop\",route_name=\"canary\"";

fn backend(name: &str) -> String {
    format!("backend_namespace=\"shop\",backend_name=\"{name}\",backend_port=\"80\"")
}

#[test]
fn a_route_has_its_backends_with_their_shares_and_its_retries() {
    let status = "outbound_grpc_route_request_statuses_total";
    let page = format!(
        "outbound_grpc_route_backend_requests_total{{{PARENT},{}}} 90\n\
         outbound_grpc_route_backend_requests_total{{{PARENT},{}}} 10\n\
         {status}{{{PARENT},grpc_status=\"OK\",error=\"\"}} 78\n\
         {status}{{{PARENT},grpc_status=\"UNAVAILABLE\",error=\"\"}} 1\n\
         {status}{{{PARENT},grpc_status=\"\",error=\"connect-failed\"}} 1\n\
         {status}{{{PARENT},grpc_status=\"\",error=\"cancelled\"}} 20\n\
         outbound_grpc_route_retry_requests_total{{{PARENT}}} 5\n\
         outbound_grpc_route_hedge_requests_total{{{PARENT}}} 20",
        backend("v1"),
        backend("v2")
    );
    let window = Duration::from_secs(10);
    let live = measured(&page);
    let text = table(&rows(&live, window), window);
    assert_eq!(table(&rows(&recorded(&live, &WANTED), window), window), text);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "NAMESPACE   NAME   SERVICE        ROUTE                   CALLS/S   SUCCESS   RETRIES/S   HEDGES/S   BACKENDS",
            "shop        web    cart.shop:80   GRPCRoute canary.shop      10.0   97.50 %         0.5        2.0   v1.shop:80 90.00 %, v2.shop:80 10.00 %",
        ]
    );
}

/// The success rate of an HTTPRoute whose calls had these outcomes. Each outcome has its labels and its number of
/// calls.
fn success_rate(outcomes: &[(&str, u32)]) -> Option<f64> {
    let parent = PARENT.replace("GRPCRoute", "HTTPRoute");
    let line = |(labels, count): &(&str, u32)| {
        format!("outbound_http_route_request_statuses_total{{{parent},{labels}}} {count}\n")
    };
    let page: String = outcomes.iter().map(line).collect();
    let (live, window) = (measured(&page), Duration::from_secs(10));
    let rate = rows(&live, window)[0].success_rate;
    assert_eq!(rows(&recorded(&live, &WANTED), window)[0].success_rate, rate);
    rate
}

#[test]
fn a_failed_grpc_call_of_an_http_route_is_a_failure_whatever_its_http_status() {
    for failure in [
        r#"http_status="200",grpc_status="UNAVAILABLE",error="""#,
        r#"http_status="200",grpc_status="DEADLINE_EXCEEDED",error="REQUEST_TIMEOUT""#,
        r#"http_status="200",grpc_status="UNAVAILABLE",error="no-endpoint""#,
        r#"http_status="200",grpc_status="UNIMPLEMENTED",error="no-route""#,
        r#"http_status="200",error="reset""#,
        r#"http_status="503",error="""#,
        r#"http_status="",error="connect-failed""#,
        r#"classification="failure",error="other""#,
    ] {
        assert_eq!(success_rate(&[(r#"http_status="200",error="""#, 75), (failure, 25)]), Some(0.75), "{failure}");
    }
}

#[test]
fn what_a_server_answers_about_the_request_is_no_failure() {
    for success in [
        r#"http_status="200",grpc_status="OK",error="""#,
        r#"http_status="200",grpc_status="NOT_FOUND",error="""#,
        r#"http_status="404",error="""#,
        r#"classification="success",error="other""#,
    ] {
        assert_eq!(success_rate(&[(r#"http_status="503",error="""#, 75), (success, 25)]), Some(0.25), "{success}");
    }
}

#[test]
fn cancelled_and_denied_calls_are_neither() {
    for neither in [
        r#"http_status="200",error="cancelled""#,
        r#"classification="cancelled",error="other""#,
        r#"http_status="200",grpc_status="PERMISSION_DENIED",error="denied""#,
        r#"http_status="403",error="denied""#,
        r#"classification="denied",error="other""#,
    ] {
        let successes = (r#"http_status="200",error="""#, 50);
        let failures = (r#"http_status="503",error="""#, 50);
        assert_eq!(success_rate(&[successes, failures, (neither, 25)]), Some(0.5), "{neither}");
    }
}

#[test]
fn calls_that_the_proxy_answers_itself_are_calls_of_the_route() {
    let page = format!(
        "leno_route_unsent_requests_total{{{PARENT}}} 30\noutbound_grpc_route_backend_requests_total{{{PARENT},{}}} 10",
        backend("v1")
    );
    let (live, window) = (measured(&page), Duration::from_secs(10));
    for measured in [recorded(&live, &WANTED), live] {
        let text = table(&rows(&measured, window), window);
        assert!(text.contains("  4.0  ") && text.contains("v1.shop:80 25.00 %"), "{text}");
    }
}

#[test]
fn a_service_with_a_policy_and_no_route_has_no_name_of_a_route() {
    let page = "outbound_http_route_backend_requests_total{parent_namespace=\"shop\",parent_name=\"cart\",parent_port=\"80\",route_kind=\"Service\",route_name=\"cart\",backend_name=\"cart\",backend_namespace=\"shop\",backend_port=\"80\"} 90";
    let rows = rows(&measured(page), Duration::from_secs(10));
    assert_eq!((rows[0].key.route.as_str(), rows[0].success_rate), ("-", None));
}

#[test]
fn without_routes_the_output_says_so() {
    assert!(table(&[], Duration::from_secs(1)).starts_with("no call of these workloads has matched a route"));
}
