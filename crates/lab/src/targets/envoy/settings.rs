//! The difference between the Envoys of several meshes.

use serde_json::Value;

use super::super::hop::Hop;

/// Direction of calls through a sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the application beside the sidecar.
    Outbound,
    /// To the application beside the sidecar.
    Inbound,
}

/// Fields that are added to the shared configuration. Each [`Value`] is an object, or null for no field. A field that
/// the shared configuration has too is replaced.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Fields of the bootstrap.
    pub(super) bootstrap: Value,
    /// Fields of the listener.
    pub(super) listener: Value,
    /// Network filters before the HTTP connection manager or the TCP proxy.
    pub(super) network_filters: Vec<Value>,
    /// Fields of the HTTP connection manager.
    pub(super) manager: Value,
    /// HTTP filters before the router.
    pub(super) http_filters: Vec<Value>,
    /// Fields of the only route.
    pub(super) route: Value,
    /// Fields of that route's action.
    pub(super) action: Value,
    /// Fields of the cluster.
    pub(super) cluster: Value,
    /// Fields of the cluster's `HttpProtocolOptions`.
    pub(super) upstream_http: Value,
    /// Options of HTTP/2 on both sides.
    pub(super) http2: Value,
}

impl Direction {
    /// The direction of calls through a sidecar. In a mesh, only inbound sidecars terminate TLS.
    pub(super) fn of(hop: &Hop<'_>) -> Self {
        if hop.downstream.tls.is_some() { Self::Inbound } else { Self::Outbound }
    }

    /// The name in a listener's `traffic_direction`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Outbound => "OUTBOUND",
            Self::Inbound => "INBOUND",
        }
    }
}
