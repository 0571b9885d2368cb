use super::super::fixtures::{address, cluster, config_of, credentials, manager, network_filters, route};
use super::super::plain;
use super::*;
use crate::experiment::record::CallPolicy;

fn in_clear(wire: Wire) -> Value {
    let clear = Side::in_clear(wire);
    config_of((clear, clear), &[address(11), address(12)], |_| plain::settings(CallPolicy::Once))
}

#[test]
fn the_cluster_has_every_backend_and_balances_by_requests_in_flight() {
    let config = in_clear(Wire::Http2);
    let cluster = cluster(&config);
    assert_eq!(cluster["lb_policy"], "LEAST_REQUEST");
    let endpoints = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"].as_array().expect("a list");
    let ports: Vec<_> =
        endpoints.iter().map(|e| e["endpoint"]["address"]["socket_address"]["port_value"].as_u64()).collect();
    assert_eq!(ports, [Some(11), Some(12)]);
}

#[test]
fn calls_are_neither_timed_out_nor_retried() {
    let config = in_clear(Wire::Http2);
    let action = &route(&config)["route"];
    assert_eq!(action["timeout"], "0s");
    assert_eq!(action["retry_policy"], Value::Null);
}

#[test]
fn each_wire_has_its_filter() {
    for (wire, name, codec) in [
        (Wire::Http1, "envoy.filters.network.http_connection_manager", Some("HTTP1")),
        (Wire::Http2, "envoy.filters.network.http_connection_manager", Some("HTTP2")),
        (Wire::Opaque, "envoy.filters.network.tcp_proxy", None),
    ] {
        let config = in_clear(wire);
        let found = (&network_filters(&config)[0]["name"], manager(&config)["codec_type"].as_str());
        assert_eq!(found, (&Value::from(name), codec));
    }
}

#[test]
fn a_server_in_a_mesh_wants_the_clients_identity_and_resumes_nothing() {
    let credentials = credentials();
    let secure = Side::secure(Wire::Http2, &credentials, "spiffe://lab.local/ns/lab/sa/client");
    let config =
        config_of((secure, Side::in_clear(Wire::Http2)), &[address(11)], |_| plain::settings(CallPolicy::Once));
    let socket = &config["static_resources"]["listeners"][0]["filter_chains"][0]["transport_socket"];
    let context = &socket["typed_config"];
    assert_eq!(context["require_client_certificate"], true);
    assert_eq!(context["disable_stateless_session_resumption"], true);
    let common = &context["common_tls_context"];
    assert_eq!(common["tls_params"]["tls_minimum_protocol_version"], "TLSv1_3");
    let id = &common["validation_context"]["match_typed_subject_alt_names"][0]["matcher"]["exact"];
    assert_eq!(id, "spiffe://lab.local/ns/lab/sa/client");
}
