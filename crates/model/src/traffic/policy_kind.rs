//! The kinds of policies for calls.

use serde::Serialize;

use crate::object::{backend_traffic_policy, traffic_policy};

/// A kind of policy. Both kinds become the same type, [`TrafficPolicy`](crate::object::TrafficPolicy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum PolicyKind {
    /// leno.dev/v1alpha1
    #[serde(rename = "TrafficPolicy")]
    Traffic,
    /// gateway.networking.x-k8s.io/v1alpha1, experimental (GEP-3388). It sets only the retry budget.
    #[serde(rename = "XBackendTrafficPolicy")]
    BackendTraffic,
}

impl PolicyKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Traffic => traffic_policy::KIND,
            Self::BackendTraffic => backend_traffic_policy::KIND,
        }
    }
}
