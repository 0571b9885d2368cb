//! Envoy with the settings of Istio's sidecars and of Istio's waypoint, as istiod generates them without any policy.
//!
//! Sources, at commit 86c9f01 of istio/istio (1.32 in development): `listener_builder.go`, `listener.go`,
//! `listener_inbound.go`, `cluster_traffic_policy.go`, `route/route.go`, `route/retry/retry.go` in
//! `pilot/pkg/networking/core`, `pilot/pkg/xds/filters/filters.go`, and `pkg/bootstrap/testdata/running_golden.json`.

use serde_json::{Value, json};

use super::super::hop::{Hop, Started};
use super::filters::{grpc_stats, named, websocket};
use super::settings::{Direction, Settings};
use super::{hbone, istio_stats, start_configured, start_with};
use crate::child::free_address;
use crate::error::Result;
use crate::experiment::record::Protocol;

/// The limit of every circuit breaker. As in Istio, it is the largest possible value, so that no limit applies.
const NO_LIMIT: u32 = u32::MAX;
/// The headers in which Istio's sidecars send the metadata of their workloads to each other.
const PEER_HEADERS: [&str; 2] = ["x-envoy-peer-metadata-id", "x-envoy-peer-metadata"];
/// Size of the `x-envoy-peer-metadata` header. In Istio, it contains a workload's names, labels and owner, as a
/// protobuf message in base64.
const PEER_METADATA_BYTES: usize = 400;

/// Starts a sidecar.
pub(in super::super) fn start_sidecar(hop: &Hop<'_>) -> Result<Started> {
    start_with(hop, sidecar(hop))
}

/// Starts a waypoint.
pub(in super::super) fn start_waypoint(hop: &Hop<'_>) -> Result<Started> {
    start_with(hop, waypoint())
}

/// Starts a waypoint that speaks HBONE on both sides.
pub(in super::super) fn start_hbone_waypoint(hop: &Hop<'_>) -> Result<Started> {
    let admin = free_address()?;
    start_configured(hop, admin, &hbone::config(hop, admin, waypoint(), &thresholds()))
}

fn sidecar(hop: &Hop<'_>) -> Settings {
    let direction = Direction::of(hop);
    let (manager, route, retry) = match direction {
        Direction::Outbound => (
            json!({}),
            json!({"request_headers_to_add": peer_headers(), "response_headers_to_remove": PEER_HEADERS}),
            Some(outbound_retry()),
        ),
        Direction::Inbound => (
            json!({
                "forward_client_cert_details": "APPEND_FORWARD",
                "set_current_client_cert_details": {"subject": true, "dns": true, "uri": true},
            }),
            json!({"request_headers_to_remove": PEER_HEADERS, "response_headers_to_add": peer_headers()}),
            inbound_retry(hop.protocol),
        ),
    };
    let listener_filters = match direction {
        Direction::Outbound => json!([]),
        Direction::Inbound => json!([tls_inspector()]),
    };
    let listener = json!({"traffic_direction": direction.name(), "listener_filters": listener_filters});
    settings(direction, Parts { listener, manager, route, retry })
}

/// The settings of a waypoint: the filters of an inbound sidecar, and the clusters of an outbound sidecar. They do not
/// set [`PEER_HEADERS`], because Istio's proxies do not send these headers within HBONE.
fn waypoint() -> Settings {
    let listener = json!({"traffic_direction": Direction::Inbound.name()});
    let parts = Parts { listener, manager: json!({}), route: json!({}), retry: Some(outbound_retry()) };
    settings(Direction::Inbound, parts)
}

/// The settings that differ between inbound sidecars, outbound sidecars and waypoints.
struct Parts {
    listener: Value,
    manager: Value,
    route: Value,
    /// The retry policy; `None` if Envoy retries no call.
    retry: Option<Value>,
}

fn settings(reporter: Direction, parts: Parts) -> Settings {
    let Parts { listener, mut manager, route, retry } = parts;
    if let (Value::Object(fields), Value::Object(shared)) = (&mut manager, shared_manager()) {
        fields.extend(shared);
        fields.insert("access_log".to_owned(), json!([istio_stats::logger(reporter)]));
        fields.insert("codec_type".to_owned(), "AUTO".into());
    }
    let mut action = json!({
        "timeout": "0s",
        "max_stream_duration": {"max_stream_duration": "0s", "grpc_timeout_header_max": "0s"},
    });
    if let Some(retry) = retry {
        action["retry_policy"] = retry;
    }
    Settings {
        bootstrap: istio_stats::bootstrap(),
        listener,
        manager,
        http_filters: vec![
            grpc_stats(json!({"emit_filter_state": true, "stats_for_all_methods": false})),
            named("envoy.filters.http.fault", "envoy.extensions.filters.http.fault.v3.HTTPFault", Value::Null),
            named("envoy.filters.http.cors", "envoy.extensions.filters.http.cors.v3.Cors", Value::Null),
        ],
        route,
        action,
        cluster: json!({
            "connect_timeout": "10s",
            "lb_policy": "LEAST_REQUEST",
            "circuit_breakers": {"thresholds": [thresholds()]},
        }),
        ..Settings::default()
    }
}

/// The circuit breakers.
fn thresholds() -> Value {
    json!({
        "max_connections": NO_LIMIT,
        "max_pending_requests": NO_LIMIT,
        "max_requests": NO_LIMIT,
        "max_retries": NO_LIMIT,
        "track_remaining": true,
    })
}

fn shared_manager() -> Value {
    let uuid = json!({
        "@type": "type.googleapis.com/envoy.extensions.request_id.uuid.v3.UuidRequestIdConfig",
        "use_request_id_for_trace_sampling": true,
    });
    json!({
        "server_name": "istio-envoy",
        "normalize_path": true,
        "use_remote_address": false,
        "stream_idle_timeout": "0s",
        "upgrade_configs": websocket(),
        "request_id_extension": {"typed_config": uuid},
    })
}

/// The retry policy of inbound calls. `None` for gRPC: istiod configures no inbound retries for gRPC ports.
fn inbound_retry(protocol: Protocol) -> Option<Value> {
    (protocol != Protocol::Grpc).then(|| json!({"num_retries": 2, "retry_on": "reset-before-request"}))
}

fn outbound_retry() -> Value {
    let predicate = named(
        "envoy.retry_host_predicates.previous_hosts",
        "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
        Value::Null,
    );
    json!({
        "num_retries": 2,
        "retry_on": "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes",
        "host_selection_retry_max_attempts": "5",
        "retry_host_predicate": [predicate],
    })
}

/// Sets [`PEER_HEADERS`] to values of about the same size as Istio's. In Istio, the filter `istio.metadata_exchange`
/// sets them, but stock Envoy lacks this filter.
fn peer_headers() -> Value {
    let values = ["sidecar~127.0.0.1~pod.lab~lab.svc.cluster.local".to_owned(), "Q".repeat(PEER_METADATA_BYTES)];
    let header = |(name, value): (&str, String)| json!({"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"});
    PEER_HEADERS.into_iter().zip(values).map(header).collect()
}

fn tls_inspector() -> Value {
    named(
        "envoy.filters.listener.tls_inspector",
        "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
        json!({"initial_read_buffer_size": 512}),
    )
}

#[cfg(test)]
#[path = "istio_tests.rs"]
mod tests;
