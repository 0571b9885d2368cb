//! The fields of Envoy's configuration that differ between the Envoy targets.

use serde_json::Value;

use super::super::hop::Hop;

/// The direction of a sidecar's calls, relative to its application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the application beside the sidecar.
    Outbound,
    /// To the application beside the sidecar.
    Inbound,
}

/// Fields that one kind of Envoy adds to the shared configuration. Each [`Value`] is an object, or null if there are no
/// fields to add. A field replaces a field of the same name in the shared configuration.
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
    /// Fields of the only route's action.
    pub(super) action: Value,
    /// Fields of the cluster.
    pub(super) cluster: Value,
    /// Fields of the cluster's `HttpProtocolOptions`.
    pub(super) upstream_http: Value,
    /// HTTP/2 options for the downstream and the upstream side.
    pub(super) http2: Value,
}

impl Direction {
    /// The direction of calls through a sidecar. Inbound if clients use TLS: only inbound sidecars terminate TLS.
    pub(super) fn of(hop: &Hop<'_>) -> Self {
        if hop.downstream.tls.is_some() { Self::Inbound } else { Self::Outbound }
    }

    /// The direction's value in the field `traffic_direction` of a listener.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Outbound => "OUTBOUND",
            Self::Inbound => "INBOUND",
        }
    }
}
