//! What a proxy asks a control plane about: with one, a proxy knows only what its workload uses.

use std::fmt;
use std::net::SocketAddr;

use crate::mesh::ClusterKey;

/// What must be known of a call before it goes on, as far as it can be said before the mesh has been asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The address that a connection was going to: a clusterIP, an endpoint's own, or one outside of the mesh.
    Address(SocketAddr),
    /// The Service and port that `:authority` names.
    Service(ClusterKey),
    /// The workload itself, as others call it: the policies that select it.
    Inbound,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Service(key) => key.fmt(f),
            Self::Inbound => f.write_str("inbound"),
        }
    }
}
