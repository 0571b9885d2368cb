//! Configurations for tests.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use super::super::hop::{Hop, Side, Wire};
use super::config::config;
use super::settings::Settings;
use crate::experiment::record::{CallPolicy, Protocol};
use crate::tls::{CLIENT, Credentials, SERVER, spiffe_id};

pub(super) fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

pub(super) fn credentials() -> Credentials {
    let file = |name: &str| Path::new("/certificates").join(name);
    Credentials { authority: file("ca.crt"), certificate: file("a.crt"), key: file("a.key"), both: file("a.pem") }
}

/// The configuration of a proxy between `downstream` and `upstreams`.
pub(super) fn config_of(
    (downstream, upstream): (Side<'_>, Side<'_>),
    upstreams: &[SocketAddr],
    settings: impl FnOnce(&Hop<'_>) -> Settings,
) -> Value {
    let dir = Path::new("/");
    let hop = Hop {
        name: "envoy",
        listener: address(1),
        protocol: Protocol::Grpc,
        downstream,
        upstream,
        policy: CallPolicy::Once,
        upstreams,
        dir,
        cpus: &[],
    };
    config(&hop, address(2), settings(&hop))
}

/// The configurations of a client's sidecar and a server's sidecar, for gRPC.
pub(super) fn sidecars(settings: fn(&Hop<'_>) -> Settings) -> (Value, Value) {
    let credentials = credentials();
    let (client, server) = (spiffe_id(CLIENT), spiffe_id(SERVER));
    let clear = Side::in_clear(Wire::Http2);
    let outbound = (clear, Side::secure(Wire::Http2, &credentials, &server));
    let inbound = (Side::secure(Wire::Http2, &credentials, &client), clear);
    (config_of(outbound, &[address(11)], settings), config_of(inbound, &[address(11)], settings))
}

/// The network filters of the only listener.
pub(super) fn network_filters(config: &Value) -> &[Value] {
    let filters = &config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"];
    filters.as_array().expect("a list")
}

/// The HTTP connection manager.
pub(super) fn manager(config: &Value) -> &Value {
    &network_filters(config).last().expect("a filter")["typed_config"]
}

/// The short names of the HTTP filters.
pub(super) fn http_filters(config: &Value) -> Vec<&str> {
    let filters = manager(config)["http_filters"].as_array().expect("a list");
    let names = filters.iter().filter_map(|filter| filter["name"].as_str());
    names.filter_map(|name| name.rsplit('.').next()).collect()
}

/// The only route.
pub(super) fn route(config: &Value) -> &Value {
    &manager(config)["route_config"]["virtual_hosts"][0]["routes"][0]
}

/// The only cluster.
pub(super) fn cluster(config: &Value) -> &Value {
    &config["static_resources"]["clusters"][0]
}
