//! Istio's telemetry, as far as stock Envoy can provide it.
//!
//! Istio's own filter `istio.stats` counts requests, durations and sizes with Istio's standard labels. Stock Envoy
//! counts the same figures with the access logger `envoy.access_loggers.stats`.

use serde_json::{Value, json};

use super::filters::named;
use super::settings::Direction;

/// Labels whose value differs between calls or connections, each with Envoy's format command for the value.
const VARIABLE: [(&str, &str); 7] = [
    ("source_principal", "%DOWNSTREAM_PEER_URI_SAN%"),
    ("destination_principal", "%UPSTREAM_PEER_URI_SAN%"),
    ("destination_service", "%REQ(:AUTHORITY)%"),
    ("request_protocol", "%PROTOCOL%"),
    ("response_code", "%RESPONSE_CODE%"),
    ("grpc_response_status", "%GRPC_STATUS_NUMBER%"),
    ("response_flags", "%RESPONSE_FLAGS%"),
];
/// Labels that describe the workloads. Istio takes their values from the peer's metadata; the lab uses constants.
const CONSTANT: [(&str, &str); 18] = [
    ("source_workload", "client"),
    ("source_workload_namespace", "lab"),
    ("source_canonical_service", "client"),
    ("source_canonical_revision", "latest"),
    ("source_app", "client"),
    ("source_version", "latest"),
    ("source_cluster", "Kubernetes"),
    ("destination_workload", "server"),
    ("destination_workload_namespace", "lab"),
    ("destination_canonical_service", "server"),
    ("destination_canonical_revision", "latest"),
    ("destination_app", "server"),
    ("destination_version", "latest"),
    ("destination_service_name", "backend"),
    ("destination_service_namespace", "lab"),
    ("destination_cluster", "Kubernetes"),
    ("source_locality", "unknown"),
    ("connection_security_policy", "mutual_tls"),
];

/// The access logger that counts each call in `istio_requests_total` and three histograms. The scope adds the prefix
/// `istio` to their names.
pub(super) fn logger(direction: Direction) -> Value {
    let reporter = match direction {
        Direction::Outbound => "source",
        Direction::Inbound => "destination",
    };
    let labels = [("reporter", reporter)].into_iter().chain(VARIABLE).chain(CONSTANT);
    let tags: Vec<Value> = labels.map(|(name, format)| json!({"name": name, "value_format": format})).collect();
    let stat = |name: &str| json!({"name": name, "tags": tags});
    let histogram =
        |name: &str, unit: &str, format: &str| json!({"stat": stat(name), "unit": unit, "value_format": format});
    named(
        "envoy.access_loggers.stats",
        "envoy.extensions.access_loggers.stats.v3.Config",
        json!({
            "stats_scope": {"prefix": "istio"},
            "counters": [{"stat": stat("requests_total"), "value_fixed": 1}],
            "histograms": [
                histogram("request_duration_milliseconds", "Milliseconds", "%DURATION%"),
                histogram("request_bytes", "Bytes", "%BYTES_RECEIVED%"),
                histogram("response_bytes", "Bytes", "%BYTES_SENT%"),
            ],
        }),
    )
}

/// The statistics that Envoy keeps according to Istio's bootstrap, and the tags that Envoy extracts from their names.
pub(super) fn bootstrap() -> Value {
    let prefixes = ["reporter=", "cluster_manager", "listener_manager", "server", "cluster.xds-grpc", "wasm", "istio"];
    let suffixes = ["rbac.allowed", "rbac.denied", "shadow_allowed", "shadow_denied"];
    let patterns: Vec<Value> = prefixes
        .into_iter()
        .map(|prefix| json!({"prefix": prefix}))
        .chain(suffixes.into_iter().map(|suffix| json!({"suffix": suffix})))
        .collect();
    json!({
        "stats_config": {
            "use_all_default_tags": false,
            "stats_tags": [
                {"tag_name": "response_code", "regex": "_rq(_(\\d{3}))$"},
                {"tag_name": "response_code_class", "regex": "_rq(_(\\dxx))$"},
                {"tag_name": "tcp_prefix", "regex": "^tcp\\.((.*?)\\.)\\w+?$"},
            ],
            "stats_matcher": {"inclusion_list": {"patterns": patterns}},
        },
    })
}
