//! Filters and extensions that several meshes use.

use serde_json::{Map, Value, json};

use super::super::hop::Tls;

/// An extension with its configuration: the fields of an object, or null for none.
pub(super) fn named(name: &str, message: &str, fields: Value) -> Value {
    let mut config = match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    config.insert("@type".to_owned(), type_url(message).into());
    json!({"name": name, "typed_config": config})
}

/// The URL of a protobuf message in configurations.
pub(super) fn type_url(message: &str) -> String {
    format!("type.googleapis.com/{message}")
}

/// Counts gRPC messages and statuses.
pub(super) fn grpc_stats(fields: Value) -> Value {
    named("envoy.filters.http.grpc_stats", "envoy.extensions.filters.http.grpc_stats.v3.FilterConfig", fields)
}

/// The upgrade to WebSocket, which the connection managers of all meshes allow.
pub(super) fn websocket() -> Value {
    json!([{"upgrade_type": "websocket"}])
}

/// The rules of an RBAC filter that allow only the peer of `tls`.
pub(super) fn only_peer(tls: Tls<'_>) -> Value {
    let principal = json!({"authenticated": {"principal_name": {"exact": tls.peer}}});
    json!({"action": "ALLOW", "policies": {"client": {"permissions": [{"any": true}], "principals": [principal]}}})
}
