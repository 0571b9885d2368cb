use std::path::Path;

use super::super::plain;
use super::*;
use crate::tls::Credentials;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn config_of(downstream: Side<'_>, upstream: Side<'_>, upstreams: &[SocketAddr]) -> Value {
    let dir = Path::new("/");
    let hop = Hop { name: "envoy", listener: address(1), downstream, upstream, upstreams, dir, cpus: &[] };
    config(&hop, address(2), plain::settings())
}

fn in_clear(wire: Wire) -> Value {
    let clear = Side::in_clear(wire);
    config_of(clear, clear, &[address(11), address(12)])
}

fn filter_of(config: &Value) -> &Value {
    &config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
}

#[test]
fn the_cluster_has_every_backend_and_balances_by_requests_in_flight() {
    let config = in_clear(Wire::Http2);
    let cluster = &config["static_resources"]["clusters"][0];
    assert_eq!(cluster["lb_policy"], "LEAST_REQUEST");
    let endpoints = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"].as_array().expect("a list");
    let ports: Vec<_> =
        endpoints.iter().map(|e| e["endpoint"]["address"]["socket_address"]["port_value"].as_u64()).collect();
    assert_eq!(ports, [Some(11), Some(12)]);
}

#[test]
fn calls_are_neither_timed_out_nor_retried() {
    let config = in_clear(Wire::Http2);
    let route = &filter_of(&config)["typed_config"]["route_config"]["virtual_hosts"][0]["routes"][0]["route"];
    assert_eq!(route["timeout"], "0s");
    assert_eq!(route["retry_policy"], Value::Null);
}

#[test]
fn each_wire_has_its_filter() {
    for (wire, name, codec) in [
        (Wire::Http1, "envoy.filters.network.http_connection_manager", Some("HTTP1")),
        (Wire::Http2, "envoy.filters.network.http_connection_manager", Some("HTTP2")),
        (Wire::Opaque, "envoy.filters.network.tcp_proxy", None),
    ] {
        let config = in_clear(wire);
        let filter = filter_of(&config);
        assert_eq!((&filter["name"], filter["typed_config"]["codec_type"].as_str()), (&Value::from(name), codec));
    }
}

#[test]
fn a_server_in_a_mesh_wants_the_clients_identity_and_resumes_nothing() {
    let file = |name: &str| Path::new("/certificates").join(name);
    let credentials =
        Credentials { authority: file("ca.crt"), certificate: file("a.crt"), key: file("a.key"), both: file("a.pem") };
    let secure = Side::secure(Wire::Http2, &credentials, "spiffe://lab.local/ns/lab/sa/client");
    let config = config_of(secure, Side::in_clear(Wire::Http2), &[address(11)]);
    let socket = &config["static_resources"]["listeners"][0]["filter_chains"][0]["transport_socket"];
    let context = &socket["typed_config"];
    assert_eq!(context["require_client_certificate"], true);
    assert_eq!(context["disable_stateless_session_resumption"], true);
    let common = &context["common_tls_context"];
    assert_eq!(common["tls_params"]["tls_minimum_protocol_version"], "TLSv1_3");
    let id = &common["validation_context"]["match_typed_subject_alt_names"][0]["matcher"]["exact"];
    assert_eq!(id, "spiffe://lab.local/ns/lab/sa/client");
}
