//! Facts: entries in a resource's metadata that only Leno reads, under one key.
//!
//! The metadata is in `typed_filter_metadata` as a Struct of texts. We encode this Struct in a fixed order, so that
//! equal resources have equal bytes. A map inside a message would be written in any order.

use std::collections::BTreeMap;

use prost::{Message, Name};

use crate::pb::{Any, Struct, Value, core::Metadata, value};

/// The key of the metadata.
pub const KEY: &str = "leno.dev";

/// In a Cluster: the balancer, as a value of the annotation `leno.dev/balancer`.
pub const BALANCER: &str = "balancer";
/// In a Cluster: the protocol, in the form of [`leno_model::protocol::Protocol::name`].
pub const PROTOCOL: &str = "protocol";
/// In a Cluster: the Service's virtual addresses, separated by commas.
pub const CLUSTER_IPS: &str = "cluster-ips";
/// In an endpoint: the Pod's name.
pub const POD: &str = "pod";
/// In an endpoint: the controller of its Pod, for example `deployment/cart`.
pub const CONTROLLER: &str = "controller";
/// In an endpoint: its hostname within the Service's domain.
pub const HOSTNAME: &str = "hostname";
/// In an endpoint: the workload of its proxy, for example `ns/shop/sa/cart`.
pub const IDENTITY: &str = "identity";
/// In an endpoint: its proxy's port, if connections to the endpoint's own port are not redirected to the proxy.
pub const INBOUND_PORT: &str = "inbound-port";
/// In an endpoint: its proxy's port for opaque connections.
pub const TUNNEL_PORT: &str = "tunnel-port";
/// In an endpoint: the application's own port, if the endpoint's address contains the port of its proxy instead.
pub const TARGET_PORT: &str = "target-port";
/// In a Listener: the key of the cluster that gets the Listener's connections or calls.
pub const CLUSTER: &str = "cluster";
/// In a Listener: `endpoint` if the Listener's address is the address of one endpoint. The proxy must send connections
/// to this endpoint, without balancing.
pub const LEADS_TO: &str = "leads-to";

/// In the Listener `inbound`: the trust domain of identities that name no trust domain.
pub const TRUST_DOMAIN: &str = "trust-domain";
/// Prefix of a key in the Listener `inbound`. The policy's name follows the prefix; the value is the service account
/// that the policy selects, or `*`.
pub const TARGET: &str = "target-";
/// Prefix of a key in the Listener `inbound`. The policy's name follows the prefix. The key is present if the policy is
/// invalid, and so allows no caller.
pub const UNREADABLE: &str = "unreadable-";

/// In the Listener `inbound`: the ports of the client's workload that Services declare to be HTTP, separated by commas.
pub const HTTP_PORTS: &str = "http-ports";

/// In a Route: the route object that contains the rule, for example `HTTPRoute shop/echo`.
pub const ROUTE: &str = "route";
/// In a Route: the name of the rule.
pub const RULE: &str = "rule";

/// In a Route: the server name (SNI) that the Route matches in TLS connections.
pub const SERVER_NAME: &str = "server-name";
/// In a Route: present if the Route matches gRPC methods.
pub const GRPC: &str = "grpc";
/// In a Route: the gRPC service after `=`, or a pattern for it after `~`.
pub const GRPC_SERVICE: &str = "grpc-service";
/// In a Route: the gRPC method, in the same form as the gRPC service.
pub const GRPC_METHOD: &str = "grpc-method";
/// In a Route: the timeout of a request, in milliseconds.
pub const REQUEST_TIMEOUT: &str = "request-timeout-ms";
/// In a Route: the timeout of one attempt, in milliseconds.
pub const BACKEND_TIMEOUT: &str = "backend-request-timeout-ms";
/// In a Route: the maximum time for which both sides of a call may be silent, in milliseconds.
pub const IDLE_TIMEOUT: &str = "stream-idle-timeout-ms";
/// In a Route: the maximum number of retries of one request.
pub const RETRIES: &str = "retries";
/// In a Route: the shortest pause before the first retry, in milliseconds.
pub const RETRY_BACKOFF: &str = "retry-backoff-ms";
/// In a Route: the HTTP statuses after which a request is sent again, separated by commas.
pub const RETRY_HTTP_CODES: &str = "retry-http-codes";
/// In a Route: the numbers of the gRPC statuses after which a call is sent again, separated by commas.
pub const RETRY_GRPC_CODES: &str = "retry-grpc-codes";
/// In a Route: the maximum number of hedges of one call. A hedge is a further attempt that starts while the first
/// attempt goes on.
pub const HEDGE: &str = "hedges";
/// In a Route: the delay before each hedge, in the form that a TrafficPolicy uses.
pub const HEDGE_DELAY: &str = "hedge-delay";
/// In a Route: the methods whose calls are hedged, separated by commas.
pub const HEDGE_METHODS: &str = "hedge-methods";
/// In a Cluster: the maximum number of retries per 100 calls.
pub const BUDGET: &str = "retry-budget-percent";
/// In a Cluster: the interval of the retry budget, in milliseconds. The budget counts the calls within this interval.
pub const BUDGET_INTERVAL: &str = "retry-budget-interval-ms";
/// In a Cluster: the number of retries per second that the budget always allows.
pub const BUDGET_MIN_PER_SECOND: &str = "retry-budget-min-per-second";
/// In a Cluster: the objectives for its calls, in the form of the annotation `leno.dev/objective`.
pub const OBJECTIVE: &str = "objective";
/// Suffix of a key. For example, the value of `retries-set-by` names the object that sets the part [`RETRIES`] of the
/// call policy.
pub const SET_BY: &str = "-set-by";
/// Suffix of a key. For example, the value of `retries-mode` is `Audit` if the proxy must not act on the part
/// [`RETRIES`] of the call policy.
pub const MODE: &str = "-mode";
/// Prefix of a key in a Route. A backend's number follows the prefix; the value is the reason why the backend is
/// invalid.
pub const INVALID: &str = "invalid-";
/// Prefix of a key in a Route. A mirror's number follows the prefix; the value is the share of requests that the mirror
/// gets, for example `1/3`.
pub const MIRROR: &str = "mirror-";
/// In a Route: the changes that the rule makes to the header fields of requests, as JSON. Present if a backend of the
/// rule changes these fields too. Each `ClusterWeight` then has the joint changes of the rule and of its backend.
pub const REQUEST_HEADERS: &str = "request-headers";
/// Prefix of a key in a Route with the key [`REQUEST_HEADERS`]. A backend's number follows the prefix; the value is the
/// changes that this backend itself makes, in the same form.
pub const BACKEND_REQUEST_HEADERS: &str = "backend-request-headers-";
/// Prefix of a key in a Route. A backend's number follows the prefix; the value is the path that replaces the whole
/// path of requests to the backend.
pub const BACKEND_PATH: &str = "backend-path-";
/// Prefix of a key in a Route. A backend's number follows the prefix; the value replaces the matched prefix of the path
/// of requests to the backend.
pub const BACKEND_PREFIX: &str = "backend-prefix-";
/// Prefix of a key in a Route. A backend's number, `-` and the number of one of its mirrors follow the prefix; the
/// value is the share of requests that the mirror gets and the mirror's cluster, for example `1/3 echo.shop:50051`.
pub const BACKEND_MIRROR: &str = "backend-mirror-";

/// In the metadata of a client's node, below [`KEY`]: whether the client has certificates of the mesh.
pub const MUTUAL_TLS: &str = "mutual-tls";
/// In the metadata of a client's node, below [`KEY`]: the client's namespace.
pub const NAMESPACE: &str = "namespace";

/// Returns the node metadata of a client in this namespace.
pub fn node_metadata(namespace: &str) -> Struct {
    let one = |name: &str, kind| Struct { fields: [(name.to_owned(), Value { kind: Some(kind) })].into() };
    one(KEY, value::Kind::StructValue(one(NAMESPACE, value::Kind::StringValue(namespace.to_owned()))))
}

/// The facts of one resource, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts(BTreeMap<String, String>);

impl Facts {
    pub(crate) fn with(mut self, name: impl Into<String>, value: &(impl ToString + ?Sized)) -> Self {
        self.0.insert(name.into(), value.to_string());
        self
    }

    /// Adds a fact if there is a value.
    pub(crate) fn with_some(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, &value),
            None => self,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the metadata to put into the resource; `None` without facts.
    pub(crate) fn metadata(&self) -> Option<Metadata> {
        if self.0.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        for (name, value) in &self.0 {
            let value = Value { kind: Some(value::Kind::StringValue(value.clone())) };
            // Encode each fact as a message of its own, to fix the order of the facts. A decoder reads concatenated
            // messages as one message with the fields of all of them (Protobuf encoding, "Last One Wins").
            let one = Struct { fields: [(name.clone(), value)].into() };
            bytes.extend(one.encode_to_vec());
        }
        let any = Any { type_url: Struct::type_url(), value: bytes };
        Some(Metadata { typed_filter_metadata: [(KEY.to_owned(), any)].into(), ..Default::default() })
    }

    /// Reads the facts in a resource's metadata. Ignores entries that are not text.
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
