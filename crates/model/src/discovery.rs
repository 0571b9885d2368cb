//! What a proxy asks a control plane about: with one, a proxy knows only what its workload uses.

use std::fmt;
use std::net::SocketAddr;

use crate::mesh::ClusterKey;

/// What a call is for, as far as that is known before the mesh has been asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The address that a connection was going to: a clusterIP, an endpoint's own, or one outside of the mesh.
    Address(SocketAddr),
    /// The Service and port that `:authority` names.
    Service(ClusterKey),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Service(key) => key.fmt(f),
        }
    }
}
