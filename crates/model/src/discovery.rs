//! The subjects of a proxy's requests to its control plane. Instead of the whole mesh, a proxy requests only the
//! subjects that its workload uses.

use std::fmt;
use std::net::SocketAddr;

use crate::mesh::ClusterKey;

/// A subject of a request to the control plane: a destination, or the policies of the proxy's own workload. A call that
/// needs the subject waits for the answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The address to which a client opened a connection: a clusterIP, an endpoint's own address, or an address outside
    /// the mesh.
    Address(SocketAddr),
    /// The Service and port that `:authority` names.
    Service(ClusterKey),
    /// The policies that apply to calls to the requesting proxy's own workload.
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
