use super::super::super::hop::{Side, Wire};
use super::super::fixtures::{address, cluster, config_of, credentials, http_filters, manager, route, sidecars};
use super::*;

#[test]
fn both_sidecars_have_istios_filters_before_the_router() {
    let (outbound, inbound) = sidecars(sidecar);
    for config in [outbound, inbound] {
        assert_eq!(http_filters(&config), ["grpc_stats", "fault", "cors", "router"]);
        assert_eq!(manager(&config)["server_name"], "istio-envoy");
    }
}

#[test]
fn no_circuit_breaker_limits_a_call_and_least_request_chooses() {
    let (outbound, _) = sidecars(sidecar);
    let cluster = cluster(&outbound);
    assert_eq!(cluster["circuit_breakers"]["thresholds"][0]["max_requests"], u32::MAX);
    assert_eq!(cluster["lb_policy"], "LEAST_REQUEST");
    assert_eq!(cluster["connect_timeout"], "10s");
}

#[test]
fn calls_have_no_timeout_and_the_clients_sidecar_retries_them_twice() {
    let (outbound, inbound) = sidecars(sidecar);
    let action = &route(&outbound)["route"];
    assert_eq!((&action["timeout"], &action["retry_policy"]["num_retries"]), (&"0s".into(), &2.into()));
    assert!(action["retry_policy"]["retry_on"].as_str().is_some_and(|on| on.contains("unavailable")), "{action}");
    assert_eq!(route(&inbound)["route"].get("retry_policy"), None, "the servers' sidecars do not retry gRPC");
}

#[test]
fn the_servers_sidecar_retries_requests_that_are_not_grpc() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let retry = inbound_retry(protocol).expect("a policy");
        assert_eq!((&retry["num_retries"], &retry["retry_on"]), (&2.into(), &"reset-before-request".into()));
    }
    assert_eq!(inbound_retry(Protocol::Grpc), None);
}

#[test]
fn sidecars_exchange_metadata_that_applications_do_not_see() {
    let (outbound, inbound) = sidecars(sidecar);
    assert_eq!(route(&outbound)["request_headers_to_add"][1]["header"]["key"], "x-envoy-peer-metadata");
    assert_eq!(route(&inbound)["request_headers_to_remove"][1], "x-envoy-peer-metadata");
    assert_eq!(route(&inbound)["response_headers_to_add"][1]["header"]["key"], "x-envoy-peer-metadata");
    assert_eq!(route(&outbound)["response_headers_to_remove"][1], "x-envoy-peer-metadata");
}

#[test]
fn each_side_reports_calls_with_istios_labels() {
    let (outbound, inbound) = sidecars(sidecar);
    for (config, reporter) in [(outbound, "source"), (inbound, "destination")] {
        let stats = &manager(&config)["access_log"][0]["typed_config"];
        let requests = &stats["counters"][0]["stat"];
        assert_eq!(requests["name"], "requests_total");
        assert_eq!(requests["tags"][0]["value_format"], reporter);
        assert_eq!(stats["histograms"].as_array().map(Vec::len), Some(3));
    }
}

#[test]
fn a_waypoint_balances_like_the_clients_sidecar_and_exchanges_no_metadata() {
    let credentials = credentials();
    let secure = Side::secure(Wire::Http2, &credentials, "spiffe://lab.local/ns/lab/sa/client");
    let config = config_of((secure, secure), &[address(11), address(12)], |_| waypoint());
    assert_eq!(cluster(&config)["lb_policy"], "LEAST_REQUEST");
    assert_eq!(route(&config)["route"]["retry_policy"]["num_retries"], 2);
    assert_eq!(route(&config)["request_headers_to_add"], Value::Null);
}
