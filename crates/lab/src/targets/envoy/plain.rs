//! Envoy without a mesh's settings. It uses only the features that the lab's other proxies have too.

use serde_json::{Value, json};

use super::super::hop::{Hop, Started};
use super::super::traffic_policy::RETRIES;
use super::settings::Settings;
use super::start_with;
use crate::error::Result;
use crate::experiment::record::CallPolicy;

/// The limit of each circuit breaker. It exceeds the number of calls and connections in any experiment, so that Envoy
/// rejects no call.
const CIRCUIT_BREAKER: u32 = 1_000_000;
/// Maximum number of streams on one connection. For more calls to a backend, Envoy opens further connections. Without
/// this limit, a burst of calls could exceed Envoy's own limit of 10,000 queued frames, and Envoy would then close the
/// connection.
const MAX_STREAMS: u32 = 1024;

pub(in super::super) fn start_hop(hop: &Hop<'_>) -> Result<Started> {
    start_with(hop, settings(hop.policy))
}

/// Envoy's settings: no request timeout and no request ids, because the other proxies have neither. Retries only if
/// `policy` requires them.
pub(super) fn settings(policy: CallPolicy) -> Settings {
    let mut thresholds = json!({
        "max_connections": CIRCUIT_BREAKER,
        "max_pending_requests": CIRCUIT_BREAKER,
        "max_requests": CIRCUIT_BREAKER,
    });
    // For any other policy, keep Envoy's default: at most three concurrent retries.
    if policy == CallPolicy::RetryUnlimited {
        thresholds["max_retries"] = CIRCUIT_BREAKER.into();
    }
    Settings {
        manager: json!({"generate_request_id": false}),
        action: action(policy),
        cluster: json!({
            "connect_timeout": "5s",
            "lb_policy": "LEAST_REQUEST",
            "circuit_breakers": {"thresholds": [thresholds]},
        }),
        http2: json!({"max_concurrent_streams": MAX_STREAMS}),
        ..Settings::default()
    }
}

/// The action of the route. Of the retry settings, only the retried failures and the number of retries differ from
/// Envoy's defaults.
fn action(policy: CallPolicy) -> Value {
    match policy {
        CallPolicy::Retry | CallPolicy::RetryUnlimited => {
            let retry_on = "unavailable,connect-failure,refused-stream";
            json!({"timeout": "0s", "retry_policy": {"retry_on": retry_on, "num_retries": RETRIES}})
        }
        CallPolicy::Once | CallPolicy::Hedge(_) => json!({"timeout": "0s"}),
    }
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
