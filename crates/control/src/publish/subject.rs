//! The subject of a resource: what the resource describes. Several resource names may have the same subject, and a
//! subject may have no resource yet.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use leno_model::discovery::Subject as Asked;
use leno_model::mesh::ClusterKey;
use leno_xds::Kind;
use leno_xds::name::{INBOUND, NOWHERE, RouteName, cluster_key, listener_subject_in};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Subject {
    /// A port of a Service.
    Cluster(ClusterKey),
    /// The IP address and port of a Service or of an endpoint.
    Address(SocketAddr),
    Mesh,
    /// The policies for calls to the workloads of a namespace. Each workload gets the policies that select it.
    Inbound(Box<str>),
    /// The ports of one Pod that Services declare to speak HTTP. These ports are part of the Pod's `inbound` resource.
    Ports(IpAddr),
    /// The cluster that a route names instead of a backend that does not exist.
    Nowhere,
}

impl Subject {
    /// The subject of a resource's name, for a client in `namespace`, in a cluster with this DNS domain; `None` if no
    /// resource can have this name.
    pub(crate) fn of(kind: Kind, name: &str, namespace: &str, cluster_domain: &str) -> Option<Self> {
        match kind {
            Kind::Cluster | Kind::Endpoints if name == NOWHERE => Some(Self::Nowhere),
            Kind::Cluster | Kind::Endpoints => cluster_key(name).map(Self::Cluster),
            Kind::Listener => match listener_subject_in(name, namespace, cluster_domain)? {
                Asked::Address(address) => is_plain_address(name).then_some(Self::Address(address)),
                Asked::Service(key) => Some(Self::Cluster(key)),
                Asked::Inbound => Some(Self::Inbound(namespace.into())),
            },
            Kind::Route => RouteName::parse(name).map(|name| match name {
                RouteName::Cluster(key) => Self::Cluster(key),
                RouteName::Mesh => Self::Mesh,
            }),
        }
    }
}

impl Subject {
    /// Returns the IP address in this subject, if any. If a Pod has this address, a change of the Pod may change the
    /// subject.
    pub(crate) fn host(&self) -> Option<IpAddr> {
        let address = match self {
            Self::Address(address) => *address,
            Self::Cluster(key) => key.pod_address()?,
            Self::Mesh | Self::Inbound(_) | Self::Ports(_) | Self::Nowhere => return None,
        };
        Some(address.ip())
    }
}

/// Returns whether an address has its canonical spelling. A client could send many other spellings, for example with
/// zeros before the port. We would then encode the address's Listener, which may be large, once for each spelling.
fn is_plain_address(name: &str) -> bool {
    name.parse::<SocketAddr>().is_ok_and(|address| address.to_string() == name)
}

impl fmt::Display for Subject {
    /// Writes the canonical name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(key) => key.fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::Mesh => RouteName::Mesh.fmt(f),
            Self::Inbound(_) | Self::Ports(_) => f.write_str(INBOUND),
            Self::Nowhere => f.write_str(NOWHERE),
        }
    }
}
