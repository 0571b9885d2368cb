//! The kinds of resources, in the order in which a client must have them: what is named comes before what names it.

use serde::{Serialize, Serializer};

/// A kind of xDS resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Cluster: how the endpoints of a Service's port are treated (CDS).
    Cluster,
    /// ClusterLoadAssignment: the endpoints themselves (EDS).
    Endpoints,
    /// Listener: what an address or a name leads to (LDS).
    Listener,
    /// RouteConfiguration: which cluster a request is for (RDS).
    Route,
}

impl Kind {
    /// Every kind, in order.
    pub const ALL: [Self; 4] = [Self::Cluster, Self::Endpoints, Self::Listener, Self::Route];

    /// What names the kind in xDS.
    pub const fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    /// The kind that a type URL names.
    pub fn from_type_url(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == text)
    }

    /// The name that people and metrics have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Endpoints => "endpoints",
            Self::Listener => "listener",
            Self::Route => "route",
        }
    }

    /// Its place in [`Kind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether a client may ask for all resources of this kind without naming them.
    pub const fn has_wildcard(self) -> bool {
        matches!(self, Self::Cluster | Self::Listener)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
