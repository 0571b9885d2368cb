//! The mesh and the limits of a world.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::Mesh;
use leno_model::translate::translate;
use leno_relay::limits::Limits;

use crate::net::Net;
use crate::parts::Part;

/// The limits and the memory budget of a relay.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) limits: Arc<Limits>,
    pub(crate) memory_budget_bytes: usize,
    /// Whether no well-behaved client reaches a limit.
    pub(crate) are_wide: bool,
}

impl Bounds {
    /// Returns random bounds: usual limits that no well-behaved client reaches, or small limits that a world is likely
    /// to reach.
    pub(crate) fn new(net: &mut Net) -> Self {
        let random = &mut net.random;
        let mut limits = Limits::default();
        // Some simulated servers refuse calls. Allow enough attempts for each call to reach a server that accepts it,
        // unless the relay has a fault.
        limits.relay.max_attempts = 20;
        let has_small_limits = random.u8(..3) == 0 && net.parts.has(Part::SmallLimits);
        if has_small_limits {
            let relay = &mut limits.relay;
            relay.max_calls = random.u32(5..60);
            relay.max_waiting_calls_per_endpoint = random.u32(1..20);
            relay.max_wait_ms = random.u32(10..2_000);
            relay.max_attempts = random.u32(1..4);
            relay.max_replay_bytes_per_call = random.u32(1_000..100_000);
            relay.max_replay_bytes = random.u32(1_000..200_000);
            relay.max_buffered_bytes_per_client = random.u32(70_000..300_000);
            relay.max_cancelled_calls_per_client = random.u32(1..20);
        }
        let has_small_budget = random.u8(..4) == 0 && net.parts.has(Part::SmallBudgets);
        let memory_budget_bytes = if has_small_budget { random.usize(200_000..2_000_000) } else { 512 << 20 };
        Self { limits: Arc::new(limits), memory_budget_bytes, are_wide: !has_small_limits && !has_small_budget }
    }
}

/// The features of a Service that may send a call more than once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Repeats {
    pub(crate) retries: Option<Retries>,
    pub(crate) hedges: Option<Hedges>,
}

impl Repeats {
    /// Returns the maximum number of times that a call may be sent again. `name` is the path of a gRPC call, and the
    /// method of any other call.
    pub(crate) fn of(&self, name: &[u8]) -> u32 {
        let hedges = self.hedges.filter(|_| HEDGED.iter().any(|hedged| hedged.as_bytes() == name));
        self.retries.map_or(0, |retries| retries.attempts) + hedges.map_or(0, |hedges| hedges.attempts)
    }

    pub(crate) fn are_none(&self) -> bool {
        self.retries.is_none() && self.hedges.is_none()
    }
}

/// The calls that a policy with hedging allows to send again, named as in [`Repeats::of`]. The clients also make calls
/// that this list does not name: `/sim.Echo/M2`, and HTTP/1 requests with other methods.
const HEDGED: [&str; 3] = ["/sim.Echo/M0", "/sim.Echo/M1", "GET"];

/// The hedging of a Service's TrafficPolicy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hedges {
    /// Maximum number of hedges of a call: attempts after the first attempt.
    attempts: u32,
    /// Delay before a hedge, in milliseconds; `None` for the median latency of the calls to the same method.
    delay_ms: Option<u32>,
}

impl Hedges {
    pub(crate) fn new(net: &mut Net) -> Self {
        let delay_ms = (net.random.u8(..3) != 0).then(|| net.random.u32(1..50));
        Self { attempts: net.random.u32(1..4), delay_ms }
    }

    /// Returns a policy with this hedging.
    fn policy(&self) -> String {
        let Self { attempts, delay_ms } = self;
        let methods = HEDGED.map(|name| name.trim_start_matches('/')).join(", ");
        let delay = delay_ms.map_or("p50".to_owned(), |ms| format!("{ms}ms"));
        format!(
            "---\napiVersion: leno.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: echo}}\n\
             spec: {{targetRefs: [{{kind: Service, name: echo}}], \
             hedge: {{delay: {delay}, attempts: {attempts}, methods: [{methods}]}}}}\n"
        )
    }
}

/// The retries of a Service's route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retries {
    /// Maximum number of retries of a call.
    pub(crate) attempts: u32,
    backoff_ms: u32,
    /// Timeout of each attempt, in milliseconds.
    pub(crate) attempt_ms: Option<u32>,
}

impl Retries {
    pub(crate) fn new(net: &mut Net) -> Self {
        let attempt_ms = net.random.bool().then(|| net.random.u32(1..100));
        Self { attempts: net.random.u32(1..4), backoff_ms: net.random.u32(0..100), attempt_ms }
    }

    /// Returns these retries as fields of a route's rule.
    fn fields(&self) -> String {
        let Self { attempts, backoff_ms, attempt_ms } = self;
        let timeouts = attempt_ms.map_or(String::new(), |ms| format!("timeouts: {{backendRequest: {ms}ms}}, "));
        format!("{timeouts}retry: {{codes: [503], attempts: {attempts}, backoff: {backoff_ms}ms}}, ")
    }
}

/// A Service that gets copies of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mirror {
    /// Percentage of the requests that are copied.
    percent: u8,
    endpoint: Endpoint,
}

impl Mirror {
    pub(crate) fn new(endpoint: Endpoint, net: &mut Net) -> Self {
        Self { percent: if net.random.bool() { 100 } else { net.random.u8(1..100) }, endpoint }
    }

    /// Returns the RequestMirror filter, as a field of a route's rule.
    fn field(&self) -> String {
        let percent = self.percent;
        format!(
            "filters: [{{type: RequestMirror, \
             requestMirror: {{percent: {percent}, backendRef: {{name: copy, port: 80}}}}}}], "
        )
    }

    /// Returns the mirror's Service and EndpointSlice, as a manifest.
    fn service(&self) -> String {
        let port = format!("{{port: {HTTP_PORT}}}");
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: copy}}\n\
             spec: {{clusterIP: {COPY}, ports: [{{port: 80, targetPort: {HTTP_PORT}}}]}}\n{}",
            slice("copy", 0, &port, &self.endpoint)
        )
    }
}

/// Returns the HTTPRoute of the HTTP servers' Service; empty without retries and without a mirror.
fn route(retries: Option<&Retries>, mirror: Option<&Mirror>) -> String {
    if retries.is_none() && mirror.is_none() {
        return String::new();
    }
    let retries = retries.map_or(String::new(), Retries::fields);
    let mirror = mirror.map_or(String::new(), Mirror::field);
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: echo}}\n\
         spec: {{parentRefs: [{{group: '', kind: Service, name: echo}}], rules: [{{{retries}{mirror}\
         backendRefs: [{{name: echo, port: 80}}]}}]}}\n"
    )
}

/// The port of all servers that speak HTTP.
pub(crate) const HTTP_PORT: u16 = 8080;
/// The port that the opaque servers' Service declares to be opaque.
pub(crate) const DECLARED_PORT: u16 = 9000;
/// The ports of the opaque servers: [`DECLARED_PORT`], and a port whose protocol the relay must detect.
pub(crate) const OPAQUE_PORTS: [u16; 2] = [DECLARED_PORT, 9001];
/// The address of the Service of the HTTP servers. Its port is 80.
pub(crate) const ECHO: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The address of the Service of the opaque servers. Its ports are [`OPAQUE_PORTS`].
pub(crate) const TALK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 2);
/// The address of the Service that gets copies of requests. Its port is 80.
const COPY: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 3);

/// The workload of the clients.
pub(crate) const CLIENT: &str = "ns/default/sa/client";
/// The workload of the servers.
pub(crate) const SERVER: &str = "ns/default/sa/server";

/// The callers that the policies of a server's proxy allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// There is no policy.
    Everyone,
    /// The policies allow only the clients' workload.
    Clients,
    Nobody,
}

impl Access {
    /// Returns the AuthorizationPolicy of the servers' workload, as a manifest; empty if every caller is allowed.
    fn policy(self) -> String {
        let allow = match self {
            Self::Everyone => return String::new(),
            Self::Clients => format!("{{identities: [{CLIENT}]}}"),
            Self::Nobody => String::new(),
        };
        format!(
            "---\napiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {{name: server}}\n\
             spec: {{targetRef: {{kind: ServiceAccount, name: server}}, allow: [{allow}]}}\n"
        )
    }
}

/// A Pod's endpoint, which the Services of HTTP servers and of opaque servers share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) ip: IpAddr,
    /// Whether the proxy of the endpoint has an identity.
    pub(crate) has_identity: bool,
}

/// Returns a mesh with two Services, one of HTTP servers and one of opaque servers. Both Services have all `endpoints`.
/// `mirror` gets copies of the requests to the HTTP servers.
pub(crate) fn mesh_of(endpoints: &[Endpoint], repeats: &Repeats, mirror: Option<&Mirror>) -> Arc<Mesh> {
    let [declared, detected] = OPAQUE_PORTS;
    let mut text = format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: echo}}\n\
         spec: {{clusterIP: {ECHO}, ports: [{{port: 80, targetPort: {HTTP_PORT}}}]}}\n\
         ---\napiVersion: v1\nkind: Service\nmetadata: {{name: talk}}\n\
         spec: {{clusterIP: {TALK}, ports: [{{name: a, port: {declared}, appProtocol: tcp}}, \
         {{name: b, port: {detected}}}]}}\n"
    );
    for (index, endpoint) in endpoints.iter().enumerate() {
        text += &slice("echo", index, &format!("{{port: {HTTP_PORT}}}"), endpoint);
        let ports = format!("{{name: a, port: {declared}}}, {{name: b, port: {detected}}}");
        text += &slice("talk", index, &ports, endpoint);
    }
    text += &route(repeats.retries.as_ref(), mirror);
    text += &mirror.map_or(String::new(), Mirror::service);
    text += &repeats.hedges.as_ref().map_or(String::new(), Hedges::policy);
    parse(text)
}

/// Returns the mesh for a server's proxy. It contains only the policy of the servers' workload.
pub(crate) fn mesh_of_server(access: Access) -> Arc<Mesh> {
    parse(access.policy())
}

fn parse(text: String) -> Arc<Mesh> {
    let file = SourceFile { path: "mesh.yaml".to_owned(), text };
    let objects = parse_file(&file, "default").expect("a manifest without mistakes").objects;
    Arc::new(translate(&objects, "default").mesh)
}

fn slice(service: &str, index: usize, ports: &str, &Endpoint { ip, has_identity }: &Endpoint) -> String {
    let identity = if has_identity { format!("leno.dev/identity: {SERVER}") } else { String::new() };
    format!(
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
         metadata: {{name: {service}-{index}, labels: {{kubernetes.io/service-name: {service}}}, \
         annotations: {{{identity}}}}}\n\
         ports: [{ports}]\nendpoints: [{{addresses: [{ip}]}}]\n"
    )
}
