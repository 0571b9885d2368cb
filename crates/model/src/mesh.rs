//! The mesh as a proxy knows it: the clusters, and the cluster for each call.
//!
//! Invariants: clusters are sorted by key and unique; policies are sorted by namespace and name, and routes by cluster
//! and namespace. A cluster's endpoints are sorted by address and unique. Names are lower-case DNS labels.

mod controller;
mod draft;
mod pods;
mod sharing;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::authority::{self, Authority, Host};
pub use crate::authority::{KnownPorts, Unroutable};
use crate::balance::{self, BudgetSettings};
use crate::discovery::Subject;
use crate::policy::{AuthorizationPolicy, DefaultInboundPolicy, PortPolicy};
use crate::protocol::Protocol;
use crate::route::RouteTable;
use crate::settings::Settings;
use crate::sorted::SortedList;
use crate::spiffe::{SpiffeId, Workload};
use crate::traffic::{Objectives, Setting};

pub use controller::{Controller, ControllerKind, NotAController, deployment_of};
pub use draft::{Changes, Draft};
pub use pods::{MeshedPod, MeshedPods};

/// Limit on the number of HTTP ports of one workload that the control plane reports to its proxy.
pub const HTTP_PORTS_MAX: usize = 256;

/// The mesh as a proxy knows it at one moment; immutable, shared by `Arc`. Copies are cheap: they share all equal
/// parts.
#[derive(Clone, Debug, Serialize)]
pub struct Mesh {
    default_namespace: Arc<str>,
    clusters: SortedList<Arc<Cluster>>,
    policies: Arc<Vec<Arc<AuthorizationPolicy>>>,
    /// The ports of the proxy's own workload that a Service declares to be HTTP, sorted, as the control plane sent
    /// them.
    http_ports: Arc<[u16]>,
    /// Sorted by key and unique.
    routes: SortedList<AttachedRoutes>,
    /// Decides which endpoints are in `endpoints`.
    #[serde(skip)]
    dialled: Dialled,
    /// The addresses that lead to a cluster, sorted and unique.
    #[serde(skip)]
    addresses: SortedList<(SocketAddr, Arc<ClusterKey>)>,
    /// The position of each endpoint, sorted by address. Several clusters may have an endpoint at one address.
    #[serde(skip)]
    endpoints: SortedList<EndpointPlace>,
    /// Pods that can be called at their own addresses, with or without a Service.
    #[serde(skip)]
    pods: Arc<MeshedPods>,
    /// The subjects for which the control plane's answer is known, sorted. The answer may be that the subject does not
    /// exist. `None` if everything is known.
    #[serde(skip)]
    answered: Option<SortedList<Subject>>,
}

/// The routes of one namespace that are attached to one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttachedRoutes {
    pub cluster: ClusterKey,
    /// The routes' namespace. Consumer routes are in another namespace than the cluster and apply to the clients in
    /// that namespace. Producer routes are in the cluster's namespace and apply to all other clients.
    pub namespace: Box<str>,
    pub table: Arc<RouteTable>,
}

/// The position of an endpoint in a [`Mesh`]. If several endpoints have the same address, lookups use the first of
/// their positions. Endpoints with a proxy come first: if one cluster knows a proxy for an address, calls to that
/// address must be encrypted, even if another cluster knows no proxy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EndpointPlace {
    address: SocketAddr,
    /// Whether the endpoint has no proxy.
    is_bare: bool,
    cluster: Arc<ClusterKey>,
}

/// Selects the endpoints that can be called at their own addresses. If the Service is headless, these addresses also
/// lead to the Service's cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialled {
    /// Every endpoint: the author of the manifests may use every address in the manifests.
    Any,
    /// Only endpoints that are Pods. In a Kubernetes cluster, users may list any address in an EndpointSlice. If an
    /// address does not belong to a Pod, the EndpointSlice must not redirect the connections that other clients open to
    /// the address.
    Pods,
}

/// One port of one Service, with the endpoints over which the balancer distributes the calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cluster {
    pub key: ClusterKey,
    pub balancer: balance::Policy,
    /// The protocol. The first source that sets it decides: `leno.dev/opaque-ports` of the Service or of one of its
    /// Pods, then `appProtocol`, then the default for the port or for one of the endpoints' ports.
    pub protocol: Protocol,
    /// The settings of the connections to the cluster's endpoints.
    pub settings: Settings,
    /// The budget for retries and for further attempts of the cluster's calls; `None` for the default budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<Setting<BudgetSettings>>,
    /// The objectives for the cluster's calls; `None` without an objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objectives: Option<Arc<Objectives>>,
    /// The Service's virtual addresses.
    pub cluster_ips: Box<[IpAddr]>,
    /// The endpoints that get calls, sorted by address.
    pub endpoints: Vec<Endpoint>,
    /// Endpoints that get calls only at their own addresses, sorted by address.
    pub unready_endpoints: Vec<Endpoint>,
}

/// The name of a [`Cluster`]; its text is `service.namespace:port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// The Service's namespace.
    pub namespace: Box<str>,
    /// The Service's name.
    pub service: Box<str>,
    /// The Service's port.
    pub port: u16,
}

/// One instance of a [`Cluster`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// The endpoint's zone, if known.
    pub zone: Option<Box<str>>,
    /// The endpoint's own DNS name within the Service's domain, if it has one.
    pub hostname: Option<Box<str>>,
    /// The name of the endpoint's Pod, if the endpoint is a Pod.
    pub pod: Option<Box<str>>,
    /// The controller of the endpoint's Pod, if known. Only metrics name the controller.
    pub controller: Option<Controller>,
    /// The endpoint's Leno proxy, if it has one. Clients call an endpoint with a proxy over mutual TLS only.
    pub proxy: Option<EndpointProxy>,
}

/// The Leno proxy of an [`Endpoint`], at the same IP address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointProxy {
    /// The identity that the proxy's certificate must have (annotation `leno.dev/identity`).
    pub identity: Workload,
    /// The proxy's port, if connections to the endpoint's own port are not redirected to the proxy; `None` if they are
    /// redirected (annotation `leno.dev/inbound-port`).
    pub inbound_port: Option<u16>,
    /// The port for opaque connections, which are carried in HTTP/2 CONNECT streams (annotation
    /// `leno.dev/tunnel-port`).
    pub tunnel_port: u16,
}

impl Dialled {
    /// Returns whether this endpoint can be called at its own address.
    pub(crate) fn means(self, endpoint: &Endpoint) -> bool {
        self == Self::Any || endpoint.pod.is_some()
    }
}

impl Mesh {
    /// Creates a mesh without clusters, policies and routes.
    pub fn empty() -> Self {
        Self::new("default", Vec::new(), Vec::new(), Vec::new(), Vec::new())
    }

    /// Creates a mesh of clusters, policies and routes. `addresses` are the addresses that lead to a cluster. If the
    /// keys of two clusters or routes are equal, or two addresses are equal, the first wins.
    pub fn new(
        default_namespace: &str,
        clusters: Vec<Arc<Cluster>>,
        addresses: impl IntoIterator<Item = (SocketAddr, ClusterKey)>,
        policies: Vec<Arc<AuthorizationPolicy>>,
        routes: Vec<AttachedRoutes>,
    ) -> Self {
        Self::dialling(Dialled::Any, default_namespace, clusters, addresses, policies, routes)
    }

    /// Like [`Mesh::new`], but only the endpoints that `dialled` selects can be called at their own addresses.
    pub fn dialling(
        dialled: Dialled,
        default_namespace: &str,
        mut clusters: Vec<Arc<Cluster>>,
        addresses: impl IntoIterator<Item = (SocketAddr, ClusterKey)>,
        mut policies: Vec<Arc<AuthorizationPolicy>>,
        mut routes: Vec<AttachedRoutes>,
    ) -> Self {
        routes.sort_by(|a, b| a.key().cmp(&b.key()));
        routes.dedup_by(|later, first| later.key() == first.key());
        policies.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        clusters.sort_by(|a, b| a.key.cmp(&b.key));
        clusters.dedup_by(|later, first| later.key == first.key);
        let keys: Vec<Arc<ClusterKey>> = clusters.iter().map(|cluster| Arc::new(cluster.key.clone())).collect();
        let place = |key: &ClusterKey| keys.binary_search_by(|known| (**known).cmp(key)).ok();
        let known = |key: &ClusterKey| place(key).and_then(|place| keys.get(place)).cloned();
        let mut addresses: Vec<(SocketAddr, Arc<ClusterKey>)> =
            addresses.into_iter().filter_map(|(address, key)| Some((canonical(address), known(&key)?))).collect();
        addresses.sort_by_key(|(address, _)| *address);
        addresses.dedup_by_key(|(address, _)| *address);
        let mut endpoints: Vec<EndpointPlace> =
            clusters.iter().zip(&keys).flat_map(|(cluster, key)| places(dialled, cluster, key)).collect();
        endpoints.sort();
        endpoints.dedup();
        Self {
            default_namespace: default_namespace.into(),
            clusters: SortedList::of_sorted(clusters),
            policies: Arc::new(policies),
            http_ports: Arc::default(),
            routes: SortedList::of_sorted(routes),
            dialled,
            addresses: SortedList::of_sorted(addresses),
            endpoints: SortedList::of_sorted(endpoints),
            pods: Arc::default(),
            answered: None,
        }
    }

    /// Returns the namespace for names without a namespace, and for clients without an identity.
    pub fn default_namespace(&self) -> &str {
        &self.default_namespace
    }

    /// Returns the same mesh, in which only the answers to `subjects` are known.
    pub fn answering(mut self, subjects: impl IntoIterator<Item = Subject>) -> Self {
        let mut subjects: Vec<Subject> = subjects.into_iter().collect();
        subjects.sort();
        subjects.dedup();
        self.answered = Some(SortedList::of_sorted(subjects));
        self
    }

    /// Returns the subject to request if the destination of a connection to `address` is not known yet.
    pub fn unanswered_address(&self, address: SocketAddr) -> Option<Subject> {
        self.answered.as_ref()?;
        let subject = Subject::Address(canonical(address));
        (!self.answers(&subject)).then_some(subject)
    }

    /// Returns the subject to request if the destination of a call with this `:authority` is not known yet. `None` also
    /// for an invalid authority.
    pub fn unanswered_authority(&self, authority: &[u8]) -> Option<Subject> {
        self.answered.as_ref()?;
        self.subject(authority).filter(|subject| !self.answers(subject))
    }

    /// Returns the key under which a proxy asks the control plane for the destination of a call with this `:authority`.
    /// `None` for an invalid authority.
    pub fn subject(&self, authority: &[u8]) -> Option<Subject> {
        let Authority { host, port } = authority::parse(authority).ok()?;
        let (name, namespace) = match host {
            Host::Address(ip) => return Some(Subject::Address(canonical(SocketAddr::new(ip, port)))),
            Host::Service { name, namespace } => (name, namespace.unwrap_or(&self.default_namespace)),
        };
        let (service, namespace) = (name.to_ascii_lowercase().into(), namespace.to_ascii_lowercase().into());
        Some(Subject::Service(ClusterKey { namespace, service, port }))
    }

    /// Returns the subject to request if the policies in force are not known yet.
    pub fn unanswered_inbound(&self) -> Option<Subject> {
        (!self.answers(&Subject::Inbound)).then_some(Subject::Inbound)
    }

    /// Returns whether the answer to `subject` is known.
    pub fn answers(&self, subject: &Subject) -> bool {
        self.answered.as_ref().is_none_or(|answered| answered.find(|other| other.cmp(subject)).is_some())
    }

    /// Every cluster, sorted by key.
    pub fn clusters(&self) -> &SortedList<Arc<Cluster>> {
        &self.clusters
    }

    /// Returns the cluster with this key.
    pub fn cluster(&self, key: &ClusterKey) -> Option<&Arc<Cluster>> {
        self.clusters.find(|cluster| cluster.key.cmp(key))
    }

    /// Returns every address that leads to a cluster, sorted, with the cluster that [`Mesh::cluster_by_address`]
    /// returns for it.
    pub fn addresses(&self) -> impl Iterator<Item = (SocketAddr, &Arc<Cluster>)> {
        self.addresses.iter().filter_map(|(address, key)| Some((*address, self.cluster(key)?)))
    }

    /// Returns the cluster that `:authority` names. The host is a name or an address. A name is `name`,
    /// `name.namespace`, `name.namespace.svc` or `name.namespace.svc.cluster.local`, in upper or lower case, with or
    /// without a trailing dot. An address is looked up as in [`Mesh::cluster_by_address`]. An optional port follows the
    /// host, 80 by default.
    ///
    /// A `name` alone is looked up in the mesh's default namespace. The argument may be any bytes. A successful lookup
    /// allocates nothing.
    ///
    /// # Errors
    /// [`Unroutable`]; its text shows the caller how to correct the authority.
    pub fn cluster_by_authority(&self, authority: &[u8]) -> Result<&Arc<Cluster>, Unroutable> {
        let Authority { host, port } = authority::parse(authority)?;
        match host {
            Host::Address(ip) => {
                self.cluster_by_address(SocketAddr::new(ip, port)).ok_or(Unroutable::UnknownAddress { ip, port })
            }
            Host::Service { name, namespace } => {
                self.cluster_by_name(namespace.unwrap_or(&self.default_namespace), name, port)
            }
        }
    }

    /// Returns the cluster for a connection to `address`: the cluster with this clusterIP and port.
    ///
    /// An endpoint's own address leads to its cluster only if the Service is headless and the endpoint has no hostname:
    /// the client then took any address from the Service's DNS record. For all other endpoints the result is `None`,
    /// because the client has selected this endpoint and the call must not be balanced.
    pub fn cluster_by_address(&self, address: SocketAddr) -> Option<&Arc<Cluster>> {
        let address = canonical(address);
        let (_, key) = self.addresses.find(|(other, _)| other.cmp(&address))?;
        self.cluster(key)
    }

    /// Returns the endpoint at `address`, ready or not, for a client that dialled this address. If several clusters
    /// have this endpoint, a cluster that knows the endpoint's proxy wins. Among equal clusters, the first by key wins.
    pub fn endpoint_by_address(&self, address: SocketAddr) -> Option<(&Arc<Cluster>, &Endpoint)> {
        let address = canonical(address);
        let place = self.endpoints.from(|place| place.address < address).next()?;
        let cluster = self.cluster(&place.cluster).filter(|_| place.address == address)?;
        Some((cluster, cluster.endpoint_at(address, place.is_bare)?))
    }

    /// Returns whether, according to the control plane, a Service declares this port of the proxy's own workload to be
    /// HTTP.
    pub fn is_own_http_port(&self, port: u16) -> bool {
        self.http_ports.binary_search(&port).is_ok()
    }

    /// Returns the ports of a Pod that Services of its namespace declare to be HTTP (`appProtocol`), sorted, at most
    /// [`HTTP_PORTS_MAX`]. Leaves a port out if another Service of the namespace declares it opaque. Services of other
    /// namespaces have no effect: any user may list another workload's address in a Service of their own.
    ///
    /// `pod` may be any of the Pod's addresses: the Pod listens on its ports at all of its addresses.
    pub fn http_ports_of(&self, pod: IpAddr, namespace: &str) -> Vec<u16> {
        let other = self.pods.get(&pod.to_canonical()).and_then(|pod| pod.other_ip);
        let places = [Some(pod), other].into_iter().flatten().flat_map(|ip| {
            let first = canonical(SocketAddr::new(ip, 0));
            let from_first = self.endpoints.from(move |place| place.address < first);
            from_first.take_while(move |place| place.address.ip() == first.ip())
        });
        let own = places.filter(|place| *place.cluster.namespace == *namespace);
        let mut ports: BTreeMap<u16, bool> = BTreeMap::new();
        for place in own {
            let protocol = self.cluster(&place.cluster).map_or(Protocol::Detect, |cluster| cluster.protocol);
            if protocol != Protocol::Detect {
                *ports.entry(place.address.port()).or_insert(true) &= protocol.is_http();
            }
        }
        ports.into_iter().filter(|(_, is_http)| *is_http).map(|(port, _)| port).take(HTTP_PORTS_MAX).collect()
    }

    /// Every policy, sorted by namespace and name.
    pub fn policies(&self) -> &[Arc<AuthorizationPolicy>] {
        &self.policies
    }

    /// Returns whether three things are equal in both meshes: the policies, whether the policies are known, and the
    /// HTTP ports of the proxy's own workload. Cheap if the meshes share their policies.
    pub fn has_policies_of(&self, other: &Self) -> bool {
        let is_same = |(a, b): (&Arc<AuthorizationPolicy>, &Arc<AuthorizationPolicy>)| Arc::ptr_eq(a, b) || a == b;
        self.unanswered_inbound() == other.unanswered_inbound()
            && self.http_ports == other.http_ports
            && self.policies.len() == other.policies.len()
            && self.policies.iter().zip(other.policies.iter()).all(is_same)
    }

    /// Returns the policy with this name.
    pub fn policy(&self, namespace: &str, name: &str) -> Option<&Arc<AuthorizationPolicy>> {
        let order = |policy: &Arc<AuthorizationPolicy>| (&*policy.namespace, &*policy.name).cmp(&(namespace, name));
        self.policies.get(self.policies.binary_search_by(order).ok()?)
    }

    /// The policies of a namespace, sorted by name.
    pub fn policies_of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<AuthorizationPolicy>> {
        let first = self.policies.partition_point(|policy| *policy.namespace < *namespace);
        let from_first = self.policies.get(first..).unwrap_or_default();
        from_first.iter().take_while(move |policy| *policy.namespace == *namespace)
    }

    /// Returns the policy for calls to `port` of the workload `own`, where `port` is the port on which the workload
    /// itself listens. If no policy is enforced, `default` decides. Policies that are not known yet
    /// ([`Mesh::unanswered_inbound`]) are not included.
    pub fn inbound_policy(&self, own: &SpiffeId, port: u16, default: DefaultInboundPolicy) -> PortPolicy {
        PortPolicy::new(self.policies_of(&own.workload.namespace), own, port, default)
    }

    /// Returns the policy for a `port` at which the proxy of the workload `own` serves the proxy's own private data. No
    /// caller is allowed unless an enforced policy names the port and the caller's identity.
    pub fn private_policy(&self, own: &SpiffeId, port: u16) -> PortPolicy {
        PortPolicy::private(self.policies_of(&own.workload.namespace), own, port)
    }

    /// Returns the rules for calls to the cluster from clients in `client_namespace`: the consumer routes of this
    /// namespace or, if it has no consumer routes, the producer routes. `None` if there are neither consumer routes nor
    /// producer routes: calls then go to the cluster itself. If the table has no rule for a request, the request is
    /// rejected.
    pub fn routes(&self, key: &ClusterKey, client_namespace: &str) -> Option<&Arc<RouteTable>> {
        let of_namespace = |namespace: &str| {
            self.routes.find(|routes| routes.key().cmp(&(key, namespace))).map(|routes| &routes.table)
        };
        of_namespace(client_namespace).or_else(|| of_namespace(&key.namespace))
    }

    /// Every attached route, sorted by cluster and namespace.
    pub fn attached_routes(&self) -> &SortedList<AttachedRoutes> {
        &self.routes
    }

    fn cluster_by_name(&self, namespace: &str, service: &str, port: u16) -> Result<&Arc<Cluster>, Unroutable> {
        let before = |cluster: &Arc<Cluster>| {
            compare(&cluster.key.namespace, namespace).then_with(|| compare(&cluster.key.service, service))
        };
        let of_service = || {
            let from_first = self.clusters.from(|cluster| before(cluster).is_lt());
            from_first.take_while(|cluster| before(cluster).is_eq())
        };
        if let Some(cluster) = of_service().find(|cluster| cluster.key.port == port) {
            return Ok(cluster);
        }
        let (service, namespace) = (service.to_ascii_lowercase().into(), namespace.to_ascii_lowercase().into());
        let ports: Vec<u16> = of_service().map(|cluster| cluster.key.port).collect();
        if ports.is_empty() {
            // With a control plane, the mesh has only the ports that the workload has called. So the Service may exist.
            return Err(match self.answered {
                Some(_) => Unroutable::UnknownServicePort { service, namespace, port },
                None => Unroutable::UnknownService { service, namespace },
            });
        }
        let known = KnownPorts { count: ports.len(), shown: ports.into_iter().take(KnownPorts::SHOWN_MAX).collect() };
        Err(Unroutable::UnknownPort { service, namespace, port, known })
    }
}

impl AttachedRoutes {
    fn key(&self) -> (&ClusterKey, &str) {
        (&self.cluster, &self.namespace)
    }
}

impl Cluster {
    /// Every endpoint; ready endpoints come first.
    pub fn all_endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter().chain(&self.unready_endpoints)
    }

    /// Returns the endpoint at a canonical `address`: an endpoint without a proxy if `is_bare`, otherwise an endpoint
    /// with a proxy.
    fn endpoint_at(&self, address: SocketAddr, is_bare: bool) -> Option<&Endpoint> {
        let is_meant =
            |endpoint: &&Endpoint| canonical(endpoint.address) == address && endpoint.proxy.is_none() == is_bare;
        let find = |endpoints: &'_ [Endpoint]| endpoints.binary_search_by_key(&address, |other| other.address).ok();
        let ready = find(&self.endpoints).and_then(|place| self.endpoints.get(place)).filter(is_meant);
        let unready = || find(&self.unready_endpoints).and_then(|place| self.unready_endpoints.get(place));
        // An IPv4 address mapped into IPv6 is not sorted where the lookup expects it, so fall back to a scan.
        ready.or_else(|| unready().filter(is_meant)).or_else(|| self.all_endpoints().find(is_meant))
    }
}

/// Returns the positions of a cluster's endpoints that can be called at their own addresses.
fn places(dialled: Dialled, cluster: &Cluster, key: &Arc<ClusterKey>) -> impl Iterator<Item = EndpointPlace> {
    cluster.all_endpoints().filter(move |endpoint| dialled.means(endpoint)).map(|endpoint| EndpointPlace {
        address: canonical(endpoint.address),
        is_bare: endpoint.proxy.is_none(),
        cluster: key.clone(),
    })
}

/// Compares a lower-case name with a name in any case.
fn compare(name: &str, asked: &str) -> Ordering {
    name.bytes().cmp(asked.bytes().map(|b| b.to_ascii_lowercase()))
}

/// Returns the canonical form of an address: IPv4 is not mapped into IPv6, and there is no scope or flow label.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}:{}", self.service, self.namespace, self.port)
    }
}

impl Serialize for ClusterKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
#[path = "mesh_tests.rs"]
mod tests;
