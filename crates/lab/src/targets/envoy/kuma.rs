//! Envoy with the settings of Kuma's sidecars, for a mesh with mutual TLS and Kuma's default policies.
//!
//! Sources, at commit 348b652 of kumahq/kuma (after 2.14.3): `pkg/defaults/mesh/meshcircuitbreaker.go`,
//! `meshtimeout.go` and `meshretry.go`, `pkg/plugins/policies/core/defaults/consts.go`,
//! `pkg/plugins/policies/meshretry/plugin/xds/configurer.go`, and the golden files
//! `grpc-service.listeners.golden.yaml` of `meshhttproute` and `inbound-proxy/3-envoy-config.golden.yaml`.

use serde_json::{Value, json};

use super::super::hop::{Hop, Started, Wire};
use super::filters::{grpc_stats, named, only_peer};
use super::settings::{Direction, Settings};
use super::start_with;
use crate::error::Result;

const GRPC_RETRY_ON: &str =
    "cancelled,connect-failure,gateway-error,refused-stream,reset,resource-exhausted,unavailable";
const HTTP_RETRY_ON: &str = "gateway-error,connect-failure,refused-stream";

pub(in super::super) fn start_hop(hop: &Hop<'_>) -> Result<Started> {
    start_with(hop, settings(hop))
}

/// Kuma sets no balancer unless a MeshLoadBalancingStrategy does, so Envoy's default applies: ROUND_ROBIN.
fn settings(hop: &Hop<'_>) -> Settings {
    let is_grpc = hop.downstream.wire == Wire::Http2;
    let direction = Direction::of(hop);
    let own = match direction {
        Direction::Outbound => outbound(is_grpc),
        Direction::Inbound => inbound(),
    };
    let stats = is_grpc.then(|| grpc_stats(json!({"emit_filter_state": true})));
    Settings {
        listener: json!({"traffic_direction": direction.name()}),
        network_filters: hop.downstream.tls.map(|tls| rbac(&only_peer(tls))).into_iter().collect(),
        http_filters: stats.into_iter().collect(),
        ..own
    }
}

fn outbound(is_grpc: bool) -> Settings {
    let thresholds =
        json!({"max_connections": 1024, "max_pending_requests": 1024, "max_requests": 1024, "max_retries": 3});
    let retry = json!({
        "retry_on": if is_grpc { GRPC_RETRY_ON } else { HTTP_RETRY_ON },
        "num_retries": 5,
        "per_try_timeout": "16s",
        "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.250s"},
    });
    Settings {
        manager: json!({
            "normalize_path": true,
            "stream_idle_timeout": "1800s",
            "internal_address_config": internal_addresses(),
        }),
        action: json!({"timeout": "15s", "retry_policy": retry}),
        cluster: json!({"connect_timeout": "5s", "circuit_breakers": {"thresholds": [thresholds]}}),
        upstream_http: json!({"common_http_protocol_options": {"idle_timeout": "3600s"}}),
        ..Settings::default()
    }
}

/// The settings of the server's sidecar. Kuma doubles its timeouts, so that the timeouts of the client's sidecar expire
/// first.
fn inbound() -> Settings {
    Settings {
        manager: json!({
            "common_http_protocol_options": {"idle_timeout": "7200s"},
            "stream_idle_timeout": "3600s",
            "internal_address_config": internal_addresses(),
            "forward_client_cert_details": "SANITIZE_SET",
            "set_current_client_cert_details": {"uri": true},
        }),
        route: json!({"request_headers_to_remove": ["x-kuma-tags"]}),
        action: json!({"timeout": "0s"}),
        cluster: json!({"connect_timeout": "10s"}),
        upstream_http: json!({"common_http_protocol_options": {"idle_timeout": "7200s"}}),
        ..Settings::default()
    }
}

fn internal_addresses() -> Value {
    json!({"cidr_ranges": [{"address_prefix": "127.0.0.1", "prefix_len": 32}]})
}

/// The filter into which Kuma translates a MeshTrafficPermission.
fn rbac(rules: &Value) -> Value {
    named(
        "envoy.filters.network.rbac",
        "envoy.extensions.filters.network.rbac.v3.RBAC",
        json!({"stat_prefix": "inbound", "rules": rules}),
    )
}

#[cfg(test)]
#[path = "kuma_tests.rs"]
mod tests;
