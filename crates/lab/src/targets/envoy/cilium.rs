//! Envoy with the settings of Cilium's layer-7 load balancing: one Envoy for all Pods of a node.
//!
//! Sources in cilium/cilium: `operator/pkg/ciliumenvoyconfig/envoy_config.go`, `cell.go` and `annotations.go`, for a
//! Service with the annotation `service.cilium.io/lb-l7: enabled`. The target's page names the commits.

use serde_json::json;

use super::super::hop::{Hop, Started};
use super::filters::websocket;
use super::settings::Settings;
use super::start_with;
use crate::error::Result;

/// The address ranges that Cilium configures as internal: the private IPv4 ranges of RFC 1918, and 127.0.0.1.
const INTERNAL: [(&str, u8); 4] = [("10.0.0.0", 8), ("172.16.0.0", 12), ("192.168.0.0", 16), ("127.0.0.1", 32)];

pub(in super::super) fn start_hop(hop: &Hop<'_>) -> Result<Started> {
    start_with(hop, settings())
}

/// Cilium's settings, with its default policy ROUND_ROBIN. The route has Envoy's default request timeout of 15 s.
fn settings() -> Settings {
    let ranges = INTERNAL.map(|(prefix, length)| json!({"address_prefix": prefix, "prefix_len": length}));
    Settings {
        manager: json!({
            "stream_idle_timeout": "300s",
            "use_remote_address": true,
            "skip_xff_append": false,
            "internal_address_config": {"unix_sockets": false, "cidr_ranges": ranges},
            "upgrade_configs": websocket(),
        }),
        action: json!({"max_stream_duration": {"max_stream_duration": "0s"}}),
        cluster: json!({
            "connect_timeout": "5s",
            "lb_policy": "ROUND_ROBIN",
            "outlier_detection": {"split_external_local_origin_errors": true, "consecutive_local_origin_failure": 2},
        }),
        upstream_http: json!({"common_http_protocol_options": {"idle_timeout": "60s"}}),
        ..Settings::default()
    }
}

#[cfg(test)]
#[path = "cilium_tests.rs"]
mod tests;
