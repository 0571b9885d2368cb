use std::net::SocketAddr;
use std::path::Path;

use super::super::super::hop::Side;
use super::super::config::config;
use super::*;
use crate::tls::{CLIENT, Credentials, SERVER, spiffe_id};

/// The configurations of the client's sidecar and of the server's.
fn sidecars() -> (Value, Value) {
    let credentials = credentials();
    let (client, server) = (spiffe_id(CLIENT), spiffe_id(SERVER));
    let clear = Side::in_clear(Wire::Http2);
    let outbound = hop_config(clear, Side::secure(Wire::Http2, &credentials, &server));
    let inbound = hop_config(Side::secure(Wire::Http2, &credentials, &client), clear);
    (outbound, inbound)
}

fn credentials() -> Credentials {
    let file = |name: &str| Path::new("/certificates").join(name);
    Credentials { authority: file("ca.crt"), certificate: file("a.crt"), key: file("a.key"), both: file("a.pem") }
}

fn hop_config(downstream: Side<'_>, upstream: Side<'_>) -> Value {
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let (dir, upstreams) = (Path::new("/"), [address(11)]);
    let hop = Hop { name: "envoy", listener: address(1), downstream, upstream, upstreams: &upstreams, dir, cpus: &[] };
    config(&hop, address(2), sidecar(&hop))
}

fn manager(config: &Value) -> &Value {
    &config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
}

fn route(config: &Value) -> &Value {
    &manager(config)["route_config"]["virtual_hosts"][0]["routes"][0]
}

#[test]
fn both_sidecars_have_istios_filters_before_the_router() {
    let (outbound, inbound) = sidecars();
    for config in [outbound, inbound] {
        let filters = manager(&config)["http_filters"].as_array().expect("a list");
        let names: Vec<_> = filters.iter().filter_map(|filter| filter["name"].as_str()).collect();
        let short: Vec<_> = names.iter().filter_map(|name| name.rsplit('.').next()).collect();
        assert_eq!(short, ["grpc_stats", "fault", "cors", "router"]);
        assert_eq!(manager(&config)["server_name"], "istio-envoy");
    }
}

#[test]
fn no_circuit_breaker_limits_a_call_and_least_request_chooses() {
    let (outbound, _) = sidecars();
    let cluster = &outbound["static_resources"]["clusters"][0];
    assert_eq!(cluster["circuit_breakers"]["thresholds"][0]["max_requests"], u32::MAX);
    assert_eq!(cluster["lb_policy"], "LEAST_REQUEST");
    assert_eq!(cluster["connect_timeout"], "10s");
}

#[test]
fn calls_have_no_timeout_and_the_clients_sidecar_retries_them_twice() {
    let (outbound, inbound) = sidecars();
    let action = &route(&outbound)["route"];
    assert_eq!((&action["timeout"], &action["retry_policy"]["num_retries"]), (&"0s".into(), &2.into()));
    assert!(action["retry_policy"]["retry_on"].as_str().is_some_and(|on| on.contains("unavailable")), "{action}");
    assert_eq!(route(&inbound)["route"]["retry_policy"]["retry_on"], "reset-before-request");
}

#[test]
fn sidecars_exchange_metadata_that_applications_do_not_see() {
    let (outbound, inbound) = sidecars();
    assert_eq!(route(&outbound)["request_headers_to_add"][1]["header"]["key"], "x-envoy-peer-metadata");
    assert_eq!(route(&inbound)["request_headers_to_remove"][1], "x-envoy-peer-metadata");
    assert_eq!(route(&inbound)["response_headers_to_add"][1]["header"]["key"], "x-envoy-peer-metadata");
    assert_eq!(route(&outbound)["response_headers_to_remove"][1], "x-envoy-peer-metadata");
}

#[test]
fn each_side_reports_calls_with_istios_labels() {
    let (outbound, inbound) = sidecars();
    for (config, reporter) in [(outbound, "source"), (inbound, "destination")] {
        let stats = &manager(&config)["access_log"][0]["typed_config"];
        let requests = &stats["counters"][0]["stat"];
        assert_eq!(requests["name"], "requests_total");
        assert_eq!(requests["tags"][0]["value_format"], reporter);
        assert_eq!(stats["histograms"].as_array().map(Vec::len), Some(3));
    }
}
