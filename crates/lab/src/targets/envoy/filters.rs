//! Envoy filters and extensions that several meshes use.

use serde_json::{Map, Value, json};

use super::super::hop::Tls;

/// Configures an Envoy extension. `fields` is an object with the configuration's fields, or null if there are none.
pub(super) fn named(name: &str, message: &str, fields: Value) -> Value {
    let mut config = match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    config.insert("@type".to_owned(), type_url(message).into());
    json!({"name": name, "typed_config": config})
}

/// The type URL with which configurations name a protobuf message.
pub(super) fn type_url(message: &str) -> String {
    format!("type.googleapis.com/{message}")
}

/// The filter that counts gRPC messages and statuses.
pub(super) fn grpc_stats(fields: Value) -> Value {
    named("envoy.filters.http.grpc_stats", "envoy.extensions.filters.http.grpc_stats.v3.FilterConfig", fields)
}

/// Permits upgrades to WebSocket, as the connection managers of all meshes do.
pub(super) fn websocket() -> Value {
    json!([{"upgrade_type": "websocket"}])
}

/// RBAC rules that allow only clients with the SPIFFE id `tls.peer`.
pub(super) fn only_peer(tls: Tls<'_>) -> Value {
    let principal = json!({"authenticated": {"principal_name": {"exact": tls.peer}}});
    json!({"action": "ALLOW", "policies": {"client": {"permissions": [{"any": true}], "principals": [principal]}}})
}
