//! Whom a resource is written for.

use leno_model::spiffe::TrustDomain;

/// Which fields a client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Envoy, and leno-proxy, which reads what it needs of it.
    Envoy,
    /// gRPC without a proxy, which refuses a cluster with fields that it does not know.
    Grpc,
}

impl Dialect {
    /// The dialect of a client, by the `user_agent_name` of its node.
    pub fn of_user_agent(name: &str) -> Self {
        // "gRPC Go", "gRPC C++", "grpc-java", "grpc-node" and the like.
        let is_grpc = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("grpc"));
        if is_grpc { Self::Grpc } else { Self::Envoy }
    }

    /// The name that people read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::Grpc => "grpc",
        }
    }
}

/// Whom a resource is written for.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Which fields the client understands.
    pub dialect: Dialect,
    /// The trust domain, for clients that have certificates of the mesh and so can reach endpoints behind proxies by
    /// mutual TLS. `None` for those that have not, and for leno-proxy, which does that by itself.
    pub mutual_tls: Option<&'a TrustDomain>,
}
