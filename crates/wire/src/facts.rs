//! What only Leno knows of a resource: metadata under one key.
//!
//! It is in `typed_filter_metadata` as a Struct of texts. There its bytes are ours, so that equal resources are equal
//! bytes; the entries of a map in a message come in any order.

use std::collections::BTreeMap;

use prost::{Message, Name};

use crate::pb::{Any, Struct, Value, core::Metadata, value};

/// The key of the metadata.
pub const KEY: &str = "leno.dev";

/// Of a Cluster: how an endpoint is chosen, in the words of `leno.dev/balancer`.
pub const BALANCER: &str = "balancer";
/// Of a Cluster: what is spoken, as [`leno_model::protocol::Protocol::name`].
pub const PROTOCOL: &str = "protocol";
/// Of a Cluster: the Service's virtual addresses, with commas between.
pub const CLUSTER_IPS: &str = "cluster-ips";
/// Of an endpoint: the Pod's name.
pub const POD: &str = "pod";
/// Of an endpoint: its own name within the Service's domain.
pub const HOSTNAME: &str = "hostname";
/// Of an endpoint: who the proxy before it is, as `ns/shop/sa/cart`.
pub const IDENTITY: &str = "identity";
/// Of an endpoint: the port to connect to its proxy at, where nothing redirects.
pub const INBOUND_PORT: &str = "inbound-port";
/// Of an endpoint: its proxy's port for opaque connections.
pub const TUNNEL_PORT: &str = "tunnel-port";
/// Of an endpoint: the port that it listens on itself, where the address names its proxy's.
pub const TARGET_PORT: &str = "target-port";
/// Of a Listener: the cluster that it leads to.
pub const CLUSTER: &str = "cluster";
/// Of a Listener: `endpoint` if its address is that of one endpoint, which must not be balanced away.
pub const LEADS_TO: &str = "leads-to";

/// Of the Listener `inbound`: the trust domain of identities that name none.
pub const TRUST_DOMAIN: &str = "trust-domain";
/// Of the Listener `inbound`: whom the policy is about whose name follows: a service account, or `*`.
pub const TARGET: &str = "target-";
/// Of the Listener `inbound`: that the policy whose name follows cannot be read, and so allows no caller.
pub const UNREADABLE: &str = "unreadable-";

/// Of a Route: the route that it is of, as `HTTPRoute shop/echo`.
pub const ROUTE: &str = "route";
/// Of a Route: the name of its rule.
pub const RULE: &str = "rule";

/// Of a Route: the server that a TLS connection is for.
pub const SERVER_NAME: &str = "server-name";
/// Of a Route: that its path is that of a gRPC method.
pub const GRPC: &str = "grpc";
/// Of a Route: the gRPC service, after `=`, or a pattern of it, after `~`.
pub const GRPC_SERVICE: &str = "grpc-service";
/// Of a Route: the gRPC method, likewise.
pub const GRPC_METHOD: &str = "grpc-method";
/// Of a Route: how long a request may take, in milliseconds.
pub const REQUEST_TIMEOUT: &str = "request-timeout-ms";
/// Of a Route: how long one attempt may take, in milliseconds.
pub const BACKEND_TIMEOUT: &str = "backend-request-timeout-ms";
/// Of a Route: why the backend of the number that follows leads nowhere.
pub const INVALID: &str = "invalid-";
/// Of a Route: which share of requests the mirror of the number that follows gets, as `1/3`.
pub const MIRROR: &str = "mirror-";

/// Of a client's node, in its metadata below [`KEY`]: whether it has certificates of the mesh.
pub const MUTUAL_TLS: &str = "mutual-tls";
/// Of a client's node, in its metadata below [`KEY`]: the namespace that it is in.
pub const NAMESPACE: &str = "namespace";

/// The metadata of a client's node in that namespace.
pub fn node_metadata(namespace: &str) -> Struct {
    let one = |name: &str, kind| Struct { fields: [(name.to_owned(), Value { kind: Some(kind) })].into() };
    one(KEY, value::Kind::StructValue(one(NAMESPACE, value::Kind::StringValue(namespace.to_owned()))))
}

/// The facts of one resource, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts(BTreeMap<String, String>);

impl Facts {
    /// These facts and one more.
    pub(crate) fn with(mut self, name: impl Into<String>, value: &(impl ToString + ?Sized)) -> Self {
        self.0.insert(name.into(), value.to_string());
        self
    }

    /// These facts and, if there is a value, one more.
    pub(crate) fn with_some(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, &value),
            None => self,
        }
    }

    /// The fact of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The metadata to put into the resource; none if there is no fact.
    pub(crate) fn metadata(&self) -> Option<Metadata> {
        if self.0.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        for (name, value) in &self.0 {
            let value = Value { kind: Some(value::Kind::StringValue(value.clone())) };
            // Messages that follow each other are one, with the fields of all (Protobuf encoding, "Last One Wins").
            let one = Struct { fields: [(name.clone(), value)].into() };
            bytes.extend(one.encode_to_vec());
        }
        let any = Any { type_url: Struct::type_url(), value: bytes };
        Some(Metadata { typed_filter_metadata: [(KEY.to_owned(), any)].into(), ..Default::default() })
    }

    /// The facts in a resource's metadata; whatever is not one of ours is left out.
    pub(crate) fn from_metadata(metadata: Option<&Metadata>) -> Self {
        let any = metadata.and_then(|metadata| metadata.typed_filter_metadata.get(KEY));
        let Some(content) = any.and_then(crate::proto::from_any::<Struct>) else {
            return Self::default();
        };
        let text = |value: Value| match value.kind {
            Some(value::Kind::StringValue(text)) => Some(text),
            _ => None,
        };
        Self(content.fields.into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect())
    }
}
