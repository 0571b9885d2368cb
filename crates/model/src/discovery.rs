//! The subjects about which a proxy asks its control plane. A proxy with a control plane knows only the parts of the
//! mesh that its workload uses.

use std::fmt;
use std::net::SocketAddr;

use crate::mesh::ClusterKey;

/// A subject about which a proxy asks the control plane. The proxy needs the answer before a call can continue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The original destination of a connection: a clusterIP, an endpoint's own address, or an address outside the
    /// mesh.
    Address(SocketAddr),
    /// The Service and port that `:authority` names.
    Service(ClusterKey),
    /// The client's own workload as a server: the policies that select this workload.
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
