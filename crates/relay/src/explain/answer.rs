//! The answer to a question about a call: what the relay would do with the call, and why.

use std::net::SocketAddr;

use leno_model::policy::PortExplanation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One proxy's answer to the question what it would do with a call. The answer depends on the state of one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallAnswer {
    pub outcome: Outcome,
    /// The identity of the proxy that answers; `None` without mutual TLS.
    #[serde(default)]
    pub own: Option<String>,
    /// Index of the worker that answers, from 0. Each worker has balancers of its own.
    #[serde(default)]
    pub worker: usize,
    /// Destination, rule and backends of a call that the proxy's own application makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbound: Option<Outbound>,
    /// The decision about a call to the proxy's application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbound: Option<Inbound>,
}

/// The proxy's decision about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The proxy sends the call to an endpoint.
    Sent,
    /// The proxy answers with a redirect.
    Redirected { status: u16, location: String },
    /// The proxy answers with an error.
    Failed(Failure),
    /// The control plane has not answered the question about this subject yet.
    Unknown { subject: String },
}

/// An error with which the proxy answers a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The error's name: the value of the response field `leno-proxy-error`.
    pub error: String,
    /// The error's text, which the proxy also sends to the client.
    pub why: String,
    /// The HTTP status for a call that is not gRPC.
    pub http_status: u16,
    /// The gRPC status code for a gRPC call.
    pub grpc_status: u8,
}

/// Destination, rule, limits and backends of an outbound call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outbound {
    /// The Service's port, in the form `cart.shop:80`, or an address that belongs to no Service.
    pub destination: String,
    /// Whether the destination is a Service.
    pub is_service: bool,
    /// If the client dials the own address of an endpoint: the endpoint's Service, in the form `cart.shop:80`. If
    /// `is_service` is false, the calls are not balanced over this Service.
    pub endpoint_of: Option<String>,
    /// Whether calls in HTTP/2 to the dialled endpoint are balanced over its Service.
    pub is_balanced_in_http2: bool,
    /// Whether the proxy relays the connection's bytes without parsing them. Rules that match requests then do not
    /// apply.
    pub is_opaque: bool,
    /// The rule that the call follows; `None` if no route and no TrafficPolicy applies.
    pub route: Option<RouteChoice>,
    /// The fields of the request that the rule changes, with their new values. If the rule has only one backend, the
    /// list includes the changes that this backend's filters make.
    pub changes: Vec<String>,
    /// Services that get copies of the call, each with the share of the rule's calls that are copied to it.
    pub mirrors: Vec<String>,
    /// The time limits, retries and hedges of the rule, as `/config` shows them: each with its mode and the object that
    /// sets it.
    pub calls: Value,
    /// Whether the rule hedges calls of this method.
    pub is_hedged: bool,
    /// The time until the proxy ends the call, in milliseconds; `None` without a limit.
    pub deadline_ms: Option<u64>,
    /// The object that sets the deadline, or `the client`.
    pub deadline_set_by: Option<String>,
    /// The backends that may get the call. If there are several, each gets a share of the rule's calls.
    pub backends: Vec<BackendChoice>,
    /// Number of calls in flight in the worker.
    pub calls_in_flight: u64,
    /// The limit `max_calls`.
    pub max_calls: u64,
}

/// The rule that a call follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteChoice {
    /// The kind of the routes of the call's destination, for example `HTTPRoute`; `Service` if only a TrafficPolicy
    /// applies.
    pub kind: String,
    /// The route, in the form `HTTPRoute shop/canary`; `None` if no rule matches.
    pub route: Option<String>,
    /// The rule's own name.
    #[serde(default)]
    pub rule: Option<String>,
    /// The conditions that the call fulfills, in words.
    pub matched: Option<String>,
    /// The rules that the relay tried before the matching rule, in their order, at most 16. None of them matches the
    /// call. If no rule matches, these are the first rules of the routes.
    #[serde(default)]
    pub passed_over: Vec<PassedOver>,
    /// Number of non-matching rules that `passed_over` omits.
    #[serde(default)]
    pub omitted: usize,
}

/// A rule that does not match a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    pub route: String,
    #[serde(default)]
    pub rule: Option<String>,
    /// The first condition that the call does not fulfill, and the call's own value.
    pub why: String,
}

/// A Service or an address that may get a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendChoice {
    /// The backend, in the form `cart-v2.shop:80`. For an invalid reference: why it is invalid.
    pub to: String,
    /// The share of the rule's calls that the backend gets, 0 to 1.
    pub share: f64,
    /// The error with which a call to the backend fails; `None` if the call is sent.
    pub failure: Option<Failure>,
    /// The balancer that chooses among the backend's endpoints, for example `latency`.
    pub balancer: String,
    /// The backend's budget for retries and hedges, as `/config` shows it; `null` for the default budget.
    pub retry_budget: Value,
    /// The current delay before a hedge at this backend. `None` if calls of the method are not hedged, or if the delay
    /// is not a percentile of the method's latencies.
    pub hedge_delay: Option<String>,
    /// The objective for calls of the method, for example `success 99.9 %, p99 50ms`. `objective_set_by` is the object
    /// that sets it.
    pub objective: Option<String>,
    pub objective_set_by: Option<String>,
    /// Maximum time to establish a connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Maximum number of calls that may wait for a connection to one endpoint (`max_waiting_calls_per_endpoint`). Each
    /// waiting call of a client lowers the limit for this client by one.
    pub max_waiting_per_endpoint: u64,
    /// The endpoint that the balancer would choose for the next call.
    pub choice: Option<EndpointChoice>,
    /// The backend's ready endpoints, ascending by address, at most 32.
    pub endpoints: Vec<EndpointState>,
    /// Number of ready endpoints that `endpoints` omits.
    pub omitted: usize,
    /// Number of endpoints that are not ready.
    pub unready: usize,
}

/// The endpoint that the balancer would choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointChoice {
    pub address: SocketAddr,
    pub why: String,
    /// The name of the endpoint's Pod, if the endpoint is a Pod.
    #[serde(default)]
    pub pod: Option<String>,
    /// The identity that the endpoint's proxy must prove; `None` if the endpoint has no proxy, so that calls to it do
    /// not use mutual TLS.
    #[serde(default)]
    pub server: Option<String>,
}

/// The state of one endpoint on the worker that answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointState {
    pub address: SocketAddr,
    /// The name of the endpoint's Pod, if the endpoint is a Pod.
    #[serde(default)]
    pub pod: Option<String>,
    /// `ready`, `warming`, `slow` or `failing`.
    pub state: String,
    /// The share of calls that the endpoint's state allows, relative to the share of a fully ready endpoint, 0 to 1.
    pub weight: f64,
    pub in_flight: u32,
    /// The reason for the endpoint's state, in words and numbers.
    pub reason: String,
    /// Number of calls that wait for a connection to the endpoint.
    pub waiting: usize,
    /// The error of the last attempt to connect to the endpoint; `None` if that attempt succeeded.
    #[serde(default)]
    pub last_connect_error: Option<String>,
    /// Whether the server has not answered a PING. If so, calls go to other endpoints while others are well.
    #[serde(default)]
    pub is_silent: bool,
}

/// The decision about an inbound call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbound {
    pub port: u16,
    /// The caller's identity, or its address and `without an identity`.
    pub caller: String,
    /// The decision of the port's policy. `None` if the proxy has no identity: it then enforces no policy.
    #[serde(default)]
    pub policy: Option<PortExplanation>,
}
