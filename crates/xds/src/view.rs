//! The client for which a resource is written.

use leno_model::spiffe::TrustDomain;

/// The `user_agent_name` of leno-proxy's node.
pub const PROXY_USER_AGENT: &str = "leno-proxy";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Envoy and leno-proxy. leno-proxy reads only the parts that it needs.
    Envoy,
    /// gRPC without a proxy. gRPC rejects a cluster with unknown fields.
    Grpc,
}

impl Dialect {
    /// Returns the dialect of a client, by the `user_agent_name` of its node.
    pub fn of_user_agent(name: &str) -> Self {
        // "gRPC Go", "gRPC C++", "grpc-java", "grpc-node" and the like.
        let is_grpc = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("grpc"));
        if is_grpc { Self::Grpc } else { Self::Envoy }
    }

    /// Returns the name in output for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::Grpc => "grpc",
        }
    }
}

/// The properties of a client on which a resource depends.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub dialect: Dialect,
    /// The trust domain, for a client with certificates of the mesh. Such a client reaches endpoints behind proxies by
    /// mutual TLS. `None` for other clients, and for leno-proxy, which needs no configuration for mutual TLS.
    pub mutual_tls: Option<&'a TrustDomain>,
}
