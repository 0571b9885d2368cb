use std::path::Path;

use super::super::fixtures::{address, credentials};
use super::*;
use crate::experiment::record::{CallPolicy, Protocol};
use crate::tls::{CLIENT, SERVER, spiffe_id};

/// The configuration of a waypoint in front of two endpoints.
fn waypoint() -> Value {
    let credentials = credentials();
    let (client, server) = (spiffe_id(CLIENT), spiffe_id(SERVER));
    let upstreams = [address(11), address(12)];
    let hop = Hop {
        name: "waypoint",
        listener: address(1),
        protocol: Protocol::Grpc,
        downstream: Side::secure(Wire::Http2, &credentials, &client),
        upstream: Side::secure(Wire::Http2, &credentials, &server),
        policy: CallPolicy::Once,
        upstreams: &upstreams,
        dir: Path::new("/"),
        cpus: &[],
    };
    config(&hop, address(2), Settings::default(), &json!({"max_connections": 7}))
}

/// The listener or the cluster with this name.
fn resource<'a>(config: &'a Value, kind: &str, name: &str) -> &'a Value {
    let resources = config["static_resources"][kind].as_array().expect("a list");
    resources.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn only_the_listener_for_tunnels_has_an_address_and_it_requires_a_certificate() {
    let config = waypoint();
    for name in [MAIN, ORIGINATE] {
        let listener = resource(&config, "listeners", name);
        assert!(listener.get("address").is_none() && listener["internal_listener"].is_object(), "{listener}");
        assert_eq!(listener["filter_chains"][0]["transport_socket"], Value::Null);
    }
    let terminate = resource(&config, "listeners", TERMINATE);
    let tls = &terminate["filter_chains"][0]["transport_socket"]["typed_config"];
    assert_eq!(tls["require_client_certificate"], true);
    assert_eq!(tls["common_tls_context"]["alpn_protocols"][0], "h2");
}

#[test]
fn connections_inside_of_envoy_have_the_buffers_of_istios_bootstrap() {
    let extension = &waypoint()["bootstrap_extensions"][0];
    assert_eq!(extension["name"], "envoy.bootstrap.internal_listener");
    assert_eq!(extension["typed_config"]["buffer_size_kb"], 64);
}

#[test]
fn a_tunnel_of_a_client_leads_to_the_listener_for_calls() {
    let config = waypoint();
    let manager = &resource(&config, "listeners", TERMINATE)["filter_chains"][0]["filters"][0]["typed_config"];
    let route = &manager["route_config"]["virtual_hosts"][0]["routes"][0]["route"];
    assert_eq!((&route["cluster"], &route["upgrade_configs"][0]["upgrade_type"]), (&MAIN.into(), &"CONNECT".into()));
    let endpoint = &resource(&config, "clusters", MAIN)["load_assignment"]["endpoints"][0]["lb_endpoints"][0];
    assert_eq!(endpoint["endpoint"]["address"]["envoy_internal_address"]["server_listener_name"], MAIN);
}

#[test]
fn every_endpoint_is_a_tunnel_to_its_own_address() {
    let config = waypoint();
    let cluster = resource(&config, "clusters", "backends");
    let endpoints = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"].as_array().expect("a list");
    let tunnels = endpoints.iter().map(|it| {
        let address = &it["endpoint"]["address"]["envoy_internal_address"];
        assert_eq!(address["server_listener_name"], ORIGINATE);
        assert_eq!(address["endpoint_id"], it["metadata"]["filter_metadata"][ORIGINAL_DST]["local"]);
        address["endpoint_id"].as_str().expect("an address")
    });
    assert_eq!(tunnels.collect::<Vec<_>>(), ["127.0.0.1:11", "127.0.0.1:12"]);
    let passed = &cluster["transport_socket"]["typed_config"]["passthrough_metadata"][0];
    assert_eq!(passed["name"], ORIGINAL_DST);
}

#[test]
fn tunnels_to_ztunnels_use_the_port_of_hbone_and_mutual_tls() {
    let config = waypoint();
    let cluster = resource(&config, "clusters", ORIGINATE);
    assert_eq!(cluster["original_dst_lb_config"]["upstream_port_override"], 15_008);
    let tls = &cluster["transport_socket"]["typed_config"]["common_tls_context"];
    let name = &tls["validation_context"]["match_typed_subject_alt_names"][0]["matcher"]["exact"];
    assert_eq!(*name, spiffe_id(SERVER));
    assert_eq!(cluster["circuit_breakers"]["thresholds"][0]["max_connections"], 7);
}
