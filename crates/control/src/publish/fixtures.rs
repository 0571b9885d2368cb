//! A control plane in one thread: meshes from manifests, and clients that tests drive step by step.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::rpc::Status;
use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::{Cluster, Endpoint, EndpointProxy, Mesh, MeshedPod};
use leno_model::proxy;
use leno_model::spiffe::Workload;
use leno_model::translate::translate;
use leno_xds::limits::RESOURCE_MAX_BYTES;
use leno_xds::{Dialect, Kind};

use super::accounts::Holder;
use super::catalog::Audience;
use super::clients::lock;
use super::limits::Capacity;
use super::session::{Answer, Batch, Context, Refusal, Session};
use super::state::State;
use super::subscribers::{ClientId, Mailbox};
use super::variant::Exchange;

/// The Service `name` with endpoints at these addresses, in the namespace `default`.
pub(crate) fn service(name: &str, endpoints: &[&str]) -> String {
    let list: String = endpoints.iter().map(|address| format!("- addresses: [{address}]\n")).collect();
    let list = if list.is_empty() { "[]\n".to_owned() } else { format!("\n{list}") };
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec:\n  ports: [{{port: 80}}]\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {{name: {name}-1, labels: {{kubernetes.io/service-name: {name}}}}}\n\
         addressType: IPv4\nports: [{{port: 8080}}]\nendpoints: {list}---\n"
    )
}

/// The mesh of valid manifests.
pub(crate) fn mesh(text: &str) -> Arc<Mesh> {
    let file = SourceFile { path: "mesh.yaml".to_owned(), text: text.to_owned() };
    let objects = parse_file(&file, "default").expect("manifests without mistakes").objects;
    Arc::new(translate(&objects, "default").mesh)
}

/// With this number of endpoints, [`with_endpoints`] makes a resource that is too large to be sent.
pub(crate) const TOO_MANY: u16 = (RESOURCE_MAX_BYTES / POD_BYTES) as u16;
/// Length of the names of Pods in [`with_endpoints`].
const POD_BYTES: usize = 1_000;

/// A mesh with one cluster, `echo.default:80`. The resource of its endpoints grows with their number. For a client with
/// a certificate, the resource of the cluster itself grows, too.
pub(crate) fn with_endpoints(count: u16) -> Arc<Mesh> {
    let endpoint = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let address = (std::net::Ipv4Addr::new(10, 0, high, low), 80).into();
        let service_account = format!("{}{number}", "a".repeat(400));
        let proxy = EndpointProxy {
            identity: Workload { namespace: "shop".into(), service_account: service_account.into() },
            inbound_port: None,
            tunnel_port: proxy::TUNNEL_PORT,
        };
        let pod = Some("p".repeat(POD_BYTES).into());
        Endpoint { address, zone: None, hostname: None, pod, controller: None, proxy: Some(proxy) }
    };
    let one = Cluster::clone(&mesh(&service("echo", &[])).clusters()[0]);
    let cluster = Arc::new(Cluster { endpoints: (0..count).map(endpoint).collect(), ..one });
    Arc::new(Mesh::new("default", vec![cluster], Vec::new(), Vec::new(), Vec::new()))
}

/// A Pod with a proxy, in the namespace `shop`.
pub(crate) fn pod(service_account: &str) -> MeshedPod {
    MeshedPod {
        namespace: "shop".into(),
        name: "cart-0".into(),
        controller: None,
        other_ip: None,
        proxy: EndpointProxy {
            identity: format!("ns/shop/sa/{service_account}").parse().expect("a workload"),
            inbound_port: None,
            tunnel_port: proxy::TUNNEL_PORT,
        },
        skipped_ports: Default::default(),
        opaque_ports: Default::default(),
    }
}

/// A mesh that contains only a Pod at this address.
pub(crate) fn with_pod(ip: &str, pod: MeshedPod) -> Arc<Mesh> {
    let pods = [(ip.parse().expect("an address"), pod)].into();
    Arc::new(Mesh::empty().with_pods(Arc::new(pods)))
}

/// A control plane that serves a mesh.
pub(crate) fn state(text: &str) -> State {
    state_with(text, Capacity { streams_max: 1_000, names_max: 1_000_000, bytes_max: 64 << 20 })
}

/// A control plane that serves a mesh, with this capacity.
pub(crate) fn state_with(text: &str, capacity: Capacity) -> State {
    State::new(mesh(text), "cluster.local".parse().expect("a trust domain"), capacity, 64 << 20)
}

/// A control plane that serves a mesh, and keeps at most `kept_max_bytes` of encoded resources.
pub(crate) fn state_keeping(text: &str, kept_max_bytes: usize) -> State {
    let capacity = Capacity { streams_max: 1_000, names_max: 1_000_000, bytes_max: 64 << 20 };
    State::new(mesh(text), "cluster.local".parse().expect("a trust domain"), capacity, kept_max_bytes)
}

/// A client that a test drives step by step.
pub(crate) struct Client<'a> {
    state: &'a State,
    session: std::sync::Mutex<Session>,
    mailbox: Arc<Mailbox>,
}

impl<'a> Client<'a> {
    /// A client of the xDS variant `E` in the namespace `default`, without a certificate.
    pub(crate) fn new<E: Exchange>(state: &'a State, dialect: Dialect) -> Self {
        Self::of::<E>(state, dialect, "default", None)
    }

    /// Envoy with the xDS variant `E` in the namespace `default`, without a certificate.
    pub(crate) fn envoy<E: Exchange>(state: &'a State) -> Self {
        let client = Self::new::<E>(state, Dialect::Envoy);
        client.with_session(|session| session.warms_clusters = true);
        client
    }

    /// A client of the xDS variant `E` in a namespace. It has a certificate if `service_account` is given.
    pub(crate) fn of<E: Exchange>(
        state: &'a State,
        dialect: Dialect,
        namespace: &str,
        service_account: Option<&str>,
    ) -> Self {
        let id: ClientId = state.next_client();
        let service_account = service_account.map(Arc::from);
        let audience = Audience {
            dialect,
            mutual_tls: false,
            namespace: namespace.into(),
            cluster_domain: state.cluster_domain.clone(),
            service_account,
            pod: None,
        };
        Self::join::<E>(state, id, audience, Holder::Address([127, 0, 0, 1].into()))
    }

    /// A client of the xDS variant `E` with a certificate of this service account in the namespace `shop`.
    pub(crate) fn held_by<E: Exchange>(state: &'a State, service_account: &str) -> Self {
        let identity = format!("spiffe://cluster.local/ns/shop/sa/{service_account}").parse().expect("a SPIFFE id");
        Self::certified::<E>(state, "shop", service_account, None, Holder::Identity(identity))
    }

    /// A client of the xDS variant `E` with a certificate of a namespace. It connects from the Pod's address `pod`.
    pub(crate) fn at<E: Exchange>(state: &'a State, namespace: &str, pod: IpAddr) -> Self {
        Self::certified::<E>(state, namespace, "echo", Some(pod), Holder::Address(pod))
    }

    fn certified<E: Exchange>(
        state: &'a State,
        namespace: &str,
        service_account: &str,
        pod: Option<IpAddr>,
        holder: Holder,
    ) -> Self {
        let audience = Audience {
            dialect: Dialect::Envoy,
            mutual_tls: true,
            namespace: namespace.into(),
            cluster_domain: state.cluster_domain.clone(),
            service_account: Some(service_account.into()),
            pod,
        };
        Self::join::<E>(state, state.next_client(), audience, holder)
    }

    fn join<E: Exchange>(state: &'a State, id: ClientId, audience: Audience, holder: Holder) -> Self {
        let mailbox = state.subscribers.join(id);
        let account = state.accounts.open(holder, [127, 0, 0, 1].into(), Instant::now());
        let session = Session::new(id, E::VARIANT, audience, account.expect("there is room"));
        Self { state, session: session.into(), mailbox }
    }

    pub(crate) fn send<E: Exchange>(&self, request: &E::Request) -> Result<Answer, Refusal> {
        self.send_while::<E>(request, || {})
    }

    /// Sends a request. While the session handles the request, `change` runs each time after the session has read the
    /// catalog.
    pub(crate) fn send_while<E: Exchange>(&self, request: &E::Request, change: impl Fn()) -> Result<Answer, Refusal> {
        let catalog = || {
            let catalog = self.state.catalog();
            change();
            catalog
        };
        let context = Context { catalog: &catalog, subscribers: &self.state.subscribers };
        let taken = E::take(&mut lock(&self.session), request, context)?;
        Ok(taken.map_or(Answer::None, |(_, answer)| answer))
    }

    /// The client's next response, if one is due.
    pub(crate) fn next<E: Exchange>(&self) -> Option<E::Response> {
        lock(&self.session).look_again(self.mailbox.now());
        lock(&self.session).next(&self.state.catalog()).map(E::respond)
    }

    /// Returns until when the client's routes of the whole mesh wait; `None` if they do not wait.
    pub(crate) fn pace_routes(&self, now: Instant) -> Option<Instant> {
        lock(&self.session).look_again(self.mailbox.now());
        lock(&self.session).pace_routes(&self.state.catalog(), now)
    }

    /// The response that refuses names of the client's last request; `None` if the client may subscribe to all of them.
    pub(crate) fn refusal<E: Exchange>(&self) -> Option<E::Response> {
        let (refused, nonce) = lock(&self.session).take_refused()?;
        E::refuse(&refused, nonce)
    }

    /// The client's next response before it is encoded, if one is due.
    pub(crate) fn next_batch(&self) -> Option<Batch> {
        lock(&self.session).look_again(self.mailbox.now());
        lock(&self.session).next(&self.state.catalog())
    }

    pub(crate) fn with_session<T>(&self, act: impl FnOnce(&mut Session) -> T) -> T {
        act(&mut lock(&self.session))
    }

    pub(crate) fn close(&self) {
        let catalog = || self.state.catalog();
        lock(&self.session).close(Context { catalog: &catalog, subscribers: &self.state.subscribers });
    }
}

/// A request of incremental xDS that subscribes.
pub(crate) fn subscribe(kind: Kind, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        resource_names_subscribe: names.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

/// A request of incremental xDS that unsubscribes.
pub(crate) fn unsubscribe(kind: Kind, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        resource_names_unsubscribe: names.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

/// A request that accepts a response.
pub(crate) fn ack(response: &DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: response.type_url.clone(),
        response_nonce: response.nonce.clone(),
        ..Default::default()
    }
}

/// A request that rejects a response.
pub(crate) fn nack(response: &DeltaDiscoveryResponse, why: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { error_detail: Some(error(why)), ..ack(response) }
}

/// A request of state-of-the-world xDS for these names; it acknowledges the last response if there was one.
pub(crate) fn want(kind: Kind, names: &[&str], last: Option<&DiscoveryResponse>) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        resource_names: names.iter().map(ToString::to_string).collect(),
        response_nonce: last.map(|response| response.nonce.clone()).unwrap_or_default(),
        version_info: last.map(|response| response.version_info.clone()).unwrap_or_default(),
        ..Default::default()
    }
}

pub(crate) fn error(why: &str) -> Status {
    Status { code: 3, message: why.to_owned(), ..Default::default() }
}

/// The names in a response, with a minus sign before the names of removed resources.
pub(crate) fn names(response: &DeltaDiscoveryResponse) -> Vec<String> {
    let resources = response.resources.iter().map(|resource| resource.name.clone());
    resources.chain(response.removed_resources.iter().map(|name| format!("-{name}"))).collect()
}
