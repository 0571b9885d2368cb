//! Envoy without a mesh's settings: nothing that the other proxies of the lab do not do either.

use serde_json::json;

use super::super::hop::{Hop, Started};
use super::settings::Settings;
use super::start_with;
use crate::error::Result;

/// A limit above the calls and connections that this lab ever has, so that no call is refused.
const CIRCUIT_BREAKER: u32 = 1_000_000;
/// Maximum number of streams on one connection. Further calls to a backend use more connections. Without this limit a
/// burst exceeds Envoy's own limit of 10,000 queued frames, and Envoy drops the connection.
const MAX_STREAMS: u32 = 1024;

pub(in super::super) fn start_hop(hop: &Hop<'_>) -> Result<Started> {
    start_with(hop, settings())
}

/// No request timeout, no retries and no request ids, because the configurations of the other proxies have no such
/// features either.
pub(super) fn settings() -> Settings {
    let thresholds = json!({
        "max_connections": CIRCUIT_BREAKER,
        "max_pending_requests": CIRCUIT_BREAKER,
        "max_requests": CIRCUIT_BREAKER,
    });
    Settings {
        manager: json!({"generate_request_id": false}),
        action: json!({"timeout": "0s"}),
        cluster: json!({
            "connect_timeout": "5s",
            "lb_policy": "LEAST_REQUEST",
            "circuit_breakers": {"thresholds": [thresholds]},
        }),
        http2: json!({"max_concurrent_streams": MAX_STREAMS}),
        ..Settings::default()
    }
}
