//! Envoy with the settings of Consul's sidecars, for a service of the protocol `grpc` and one intention.
//!
//! Sources in hashicorp/consul: the golden files of `agent/xds/testdata` that the target's page names with their
//! commits.

use serde_json::{Value, json};

use super::super::hop::{Hop, Started, Tls, Wire};
use super::filters::{grpc_stats, named, only_peer, websocket};
use super::settings::{Direction, Settings};
use super::start_with;
use crate::error::Result;

/// Consul's regular expression for a client's identity in `x-forwarded-client-cert`. Its groups are the parts of the
/// identity.
const IDENTITY: &str = ".*URI=spiffe://([^/]+.[^/]+)(?:/ap/([^/]+))?/ns/([^/]+)/dc/([^/]+)/svc/([^/;,]+).*";
/// The names of the parts of an identity, in the order of the groups of [`IDENTITY`].
const PARTS: [&str; 5] = ["trust-domain", "partition", "namespace", "datacenter", "service"];

pub(in super::super) fn start_hop(hop: &Hop<'_>) -> Result<Started> {
    start_with(hop, settings(hop))
}

/// Consul's settings. Consul sets neither a balancer nor a request timeout, so Envoy's defaults apply: ROUND_ROBIN and
/// 15 s.
fn settings(hop: &Hop<'_>) -> Settings {
    let direction = Direction::of(hop);
    let mut manager = json!({"tracing": {"random_sampling": {}}, "upgrade_configs": websocket()});
    let mut http_filters = Vec::new();
    if hop.downstream.wire == Wire::Http2 {
        http_filters.push(grpc_stats(json!({"stats_for_all_methods": true})));
        http_filters.push(http1_bridge());
    }
    let mut network_filters = Vec::new();
    let mut cluster = json!({"connect_timeout": "5s"});
    match (direction, hop.downstream.tls) {
        (Direction::Inbound, Some(tls)) if hop.downstream.wire == Wire::Opaque => network_filters.push(rbac(tls)),
        (Direction::Inbound, Some(tls)) => {
            http_filters.extend([http_rbac(tls), header_to_metadata()]);
            manager["normalize_path"] = true.into();
            manager["forward_client_cert_details"] = "APPEND_FORWARD".into();
            manager["set_current_client_cert_details"] =
                json!({"subject": true, "cert": true, "chain": true, "dns": true, "uri": true});
        }
        _ => {
            cluster["circuit_breakers"] = json!({});
            cluster["outlier_detection"] = json!({});
            cluster["common_lb_config"] = json!({"healthy_panic_threshold": {}});
        }
    }
    Settings {
        listener: json!({"traffic_direction": direction.name()}),
        network_filters,
        manager,
        http_filters,
        cluster,
        ..Settings::default()
    }
}

fn http1_bridge() -> Value {
    named(
        "envoy.filters.http.grpc_http1_bridge",
        "envoy.extensions.filters.http.grpc_http1_bridge.v3.Config",
        Value::Null,
    )
}

fn rbac(tls: Tls<'_>) -> Value {
    let fields = json!({"stat_prefix": "connect_authz", "rules": only_peer(tls)});
    named("envoy.filters.network.rbac", "envoy.extensions.filters.network.rbac.v3.RBAC", fields)
}

fn http_rbac(tls: Tls<'_>) -> Value {
    let fields = json!({"rules": only_peer(tls)});
    named("envoy.filters.http.rbac", "envoy.extensions.filters.http.rbac.v3.RBAC", fields)
}

/// The filter that copies each part of the client's identity into metadata. It applies the regular expression once for
/// each part.
fn header_to_metadata() -> Value {
    let rule = |(index, part): (usize, &str)| {
        json!({
            "header": "x-forwarded-client-cert",
            "on_header_present": {
                "metadata_namespace": "consul",
                "key": part,
                "regex_value_rewrite": {
                    "pattern": {"regex": IDENTITY},
                    "substitution": format!("\\{}", index + 1),
                },
            },
        })
    };
    let rules: Vec<Value> = PARTS.into_iter().enumerate().map(rule).collect();
    named(
        "envoy.filters.http.header_to_metadata",
        "envoy.extensions.filters.http.header_to_metadata.v3.Config",
        json!({"request_rules": rules}),
    )
}

#[cfg(test)]
#[path = "consul_tests.rs"]
mod tests;
