//! The kinds of resources, in the order in which a client must get them: clusters and their endpoints come before the
//! listeners and routes that name the clusters.

use serde::{Serialize, Serializer};

/// A kind of xDS resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Cluster: the balancer and the settings of a Service's port (CDS).
    Cluster,
    /// ClusterLoadAssignment: a cluster's endpoints (EDS).
    Endpoints,
    /// Listener: the destination of connections to an address, or of calls to a name (LDS).
    Listener,
    /// RouteConfiguration: the cluster of each request (RDS).
    Route,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Cluster, Self::Endpoints, Self::Listener, Self::Route];

    /// The kind's type URL in xDS.
    pub const fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    pub fn from_type_url(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == text)
    }

    /// Returns the name in metrics and in output for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Endpoints => "endpoints",
            Self::Listener => "listener",
            Self::Route => "route",
        }
    }

    /// Returns the kind's position in [`Kind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns whether a client may subscribe to all resources of this kind without naming them.
    pub const fn has_wildcard(self) -> bool {
        matches!(self, Self::Cluster | Self::Listener)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
