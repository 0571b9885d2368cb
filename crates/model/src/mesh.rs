//! A proxy's view of the mesh: its clusters, and the lookup of the cluster for a call.
//!
//! Invariants: clusters are sorted by key and unique; policies are sorted by namespace and name, and routes by cluster
//! and namespace. A cluster's endpoints are sorted by address and unique. Names are lower-case DNS labels.

mod controller;
mod draft;
mod pods;
mod sharing;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
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

/// Maximum number of a workload's HTTP ports that the control plane reports to the workload's proxy.
pub const HTTP_PORTS_MAX: usize = 256;

/// A proxy's view of the mesh at one moment. It is immutable and shared by `Arc`. A changed copy is cheap, because it
/// shares all unchanged parts with the original.
#[derive(Clone, Debug, Serialize)]
pub struct Mesh {
    default_namespace: Arc<str>,
    clusters: SortedList<Arc<Cluster>>,
    policies: Arc<Vec<Arc<AuthorizationPolicy>>>,
    /// The ports of the proxy's own workload that Services declare to be HTTP, as the control plane sent them. In
    /// ascending order.
    http_ports: Arc<[u16]>,
    /// Sorted by key and unique.
    routes: SortedList<AttachedRoutes>,
    /// The addresses that lead to a cluster, in ascending order and without duplicates.
    #[serde(skip)]
    addresses: SortedList<(SocketAddr, Arc<ClusterKey>)>,
    /// The endpoints that clients can call at the endpoints' own addresses, in ascending order of addresses. Several
    /// clusters may have an endpoint at the same address. In the mesh of a proxy with a control plane, the list has only
    /// the addresses that the control plane has answered, each with the cluster that the answer names
    /// ([`Draft::set_address`]).
    #[serde(skip)]
    endpoints: SortedList<EndpointPlace>,
    /// The Pods that clients can call at the Pods' own addresses, with or without a Service.
    #[serde(skip)]
    pods: Arc<MeshedPods>,
    /// The subjects that the control plane has answered, sorted. An answer may be that the subject does not exist.
    /// `None` if the mesh is complete without a control plane.
    #[serde(skip)]
    answered: Option<SortedList<Subject>>,
    /// The addresses that the proxy assumes to be outside of the mesh, because the control plane could not be reached to
    /// answer. In ascending order. No address here is answered, or leads to a cluster.
    #[serde(skip)]
    assumed_outside: SortedList<SocketAddr>,
}

/// All routes of one namespace that are attached to the same cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttachedRoutes {
    pub cluster: ClusterKey,
    /// The namespace of the routes.
    ///
    /// If it differs from the cluster's namespace, these are consumer routes: they apply to clients in the routes'
    /// namespace. If it is the cluster's namespace, these are producer routes: they apply to all clients without
    /// consumer routes.
    pub namespace: Box<str>,
    pub table: Arc<RouteTable>,
}

/// The address of an endpoint, and the key of its cluster. If several clusters have an endpoint at one address, a
/// lookup uses the first entry. Entries with a proxy come first: if any cluster has a proxy at an address, calls to
/// this address must be encrypted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EndpointPlace {
    address: SocketAddr,
    /// Whether the endpoint has no proxy.
    is_bare: bool,
    cluster: Arc<ClusterKey>,
}

/// Selects the endpoints that clients can call at the endpoints' own addresses. If the Service is headless, these
/// addresses may also lead to its cluster ([`Mesh::cluster_by_address`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialled {
    /// Every endpoint. For manifests in files, whose author may use every address in them.
    Any,
    /// Only endpoints that are Pods. For a Kubernetes cluster, in which any user may list any address in an
    /// EndpointSlice. An EndpointSlice must not redirect other clients' connections to an address that is not a Pod's.
    Pods,
}

/// One port of a Service, with the endpoints among which the balancer distributes the calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cluster {
    pub key: ClusterKey,
    pub balancer: balance::Policy,
    /// The protocol of the port. Of the following sources, the first that sets a protocol decides:
    ///
    /// 1. `leno.dev/opaque-ports` of the Service or of one of its Pods;
    /// 2. `appProtocol`;
    /// 3. the default for the Service's port, or for one of the endpoints' ports.
    pub protocol: Protocol,
    /// The settings of connections from clients to the cluster's endpoints.
    pub settings: Settings,
    /// The budget that limits the retries and the hedges of the cluster's calls; `None` for the default budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<Setting<BudgetSettings>>,
    /// The objectives for the cluster's calls; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objectives: Option<Arc<Objectives>>,
    /// The Service's virtual addresses.
    pub cluster_ips: Box<[IpAddr]>,
    /// The endpoints that get calls, sorted by address.
    pub endpoints: Vec<Endpoint>,
    /// The endpoints that are not ready, and the second addresses of Pods that have an IPv4 and an IPv6 address; sorted by
    /// address. Such an endpoint gets a call only if the client dials the endpoint's own address.
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

/// One server of a [`Cluster`], at one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// The endpoint's zone, if known.
    pub zone: Option<Box<str>>,
    /// The endpoint's hostname, the first label of its own DNS name. A StatefulSet's Pods have hostnames; `None` for an
    /// endpoint without one.
    pub hostname: Option<Box<str>>,
    /// The name of the endpoint's Pod, if the endpoint is a Pod.
    pub pod: Option<Box<str>>,
    /// The controller of the endpoint's Pod, if known. It is used only in metrics.
    pub controller: Option<Controller>,
    /// The endpoint's Leno proxy, if it has one. Clients call an endpoint with a proxy over mutual TLS only.
    pub proxy: Option<EndpointProxy>,
}

/// The Leno proxy of an [`Endpoint`], at the same IP address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointProxy {
    /// The identity that the proxy's certificate must have (annotation `leno.dev/identity`).
    pub identity: Workload,
    /// The port on which the proxy accepts calls to the endpoint (annotation `leno.dev/inbound-port`). `None` if
    /// clients call the endpoint's own port, whose connections netfilter redirects to the proxy.
    pub inbound_port: Option<u16>,
    /// The port on which the proxy accepts opaque connections, as HTTP/2 CONNECT streams (annotation
    /// `leno.dev/tunnel-port`).
    pub tunnel_port: u16,
}

impl Dialled {
    /// Returns whether clients can call this endpoint at its own address.
    pub(crate) fn means(self, endpoint: &Endpoint) -> bool {
        self == Self::Any || endpoint.pod.is_some()
    }
}

impl Mesh {
    /// Creates a mesh without clusters, policies and routes.
    pub fn empty() -> Self {
        Self::new("default", Vec::new(), Vec::new(), Vec::new(), Vec::new())
    }

    /// Creates a mesh from clusters, policies and routes. `addresses` contains addresses, each with the key of the
    /// cluster to which it leads. If several clusters, routes or addresses have equal keys, the mesh keeps only the
    /// first.
    pub fn new(
        default_namespace: &str,
        clusters: Vec<Arc<Cluster>>,
        addresses: impl IntoIterator<Item = (SocketAddr, ClusterKey)>,
        policies: Vec<Arc<AuthorizationPolicy>>,
        routes: Vec<AttachedRoutes>,
    ) -> Self {
        Self::dialling(Dialled::Any, default_namespace, clusters, addresses, policies, routes)
    }

    /// Like [`Mesh::new`], but `dialled` selects the endpoints that clients can call at the endpoints' own addresses.
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
            addresses: SortedList::of_sorted(addresses),
            endpoints: SortedList::of_sorted(endpoints),
            pods: Arc::default(),
            answered: None,
            assumed_outside: SortedList::of_sorted(Vec::new()),
        }
    }

    /// Returns the default namespace. It applies to names without a namespace, and to clients without an identity.
    pub fn default_namespace(&self) -> &str {
        &self.default_namespace
    }

    /// Returns this mesh, marked as incomplete: the control plane has answered only requests for these `subjects`. The
    /// proxy must still request every other subject.
    pub fn answering(mut self, subjects: impl IntoIterator<Item = Subject>) -> Self {
        let mut subjects: Vec<Subject> = subjects.into_iter().collect();
        subjects.sort();
        subjects.dedup();
        self.answered = Some(SortedList::of_sorted(subjects));
        self
    }

    /// Returns whether the mesh is complete without a control plane.
    pub fn is_complete(&self) -> bool {
        self.answered.is_none()
    }

    /// Returns the subject that the proxy must request before it can look up the destination of a connection to
    /// `address`. `None` if the control plane has already answered it, if there is no control plane, or if the proxy
    /// assumes that the address is outside of the mesh ([`Draft::set_assumed_outside`]).
    pub fn unanswered_address(&self, address: SocketAddr) -> Option<Subject> {
        self.answered.as_ref()?;
        let address = canonical(address);
        let subject = Subject::Address(address);
        let is_assumed = || self.assumed_outside.find(|other| other.cmp(&address)).is_some();
        (!self.answers(&subject) && !is_assumed()).then_some(subject)
    }

    /// Returns the subject that the proxy must request before it can look up the destination of a call with this
    /// `:authority`. `None` if the control plane has already answered it, if there is no control plane, or if the
    /// authority is invalid.
    ///
    /// An assumption about an address does not count here: a call by authority never leads outside of the mesh.
    pub fn unanswered_authority(&self, authority: &[u8]) -> Option<Subject> {
        self.answered.as_ref()?;
        self.subject(authority).filter(|subject| !self.answers(subject))
    }

    /// Returns the subject that a proxy requests to find the destination of a call with this `:authority`. `None` if
    /// the authority is invalid.
    pub fn subject(&self, authority: &[u8]) -> Option<Subject> {
        let Authority { host, port } = authority::parse(authority).ok()?;
        let (name, namespace) = match host {
            Host::Address(ip) => return Some(Subject::Address(canonical(SocketAddr::new(ip, port)))),
            Host::Service { name, namespace } => (name, namespace.unwrap_or(&self.default_namespace)),
        };
        let (service, namespace) = (name.to_ascii_lowercase().into(), namespace.to_ascii_lowercase().into());
        Some(Subject::Service(ClusterKey { namespace, service, port }))
    }

    /// Returns the subject that the proxy must request before it can enforce policies. `None` if the control plane has
    /// already answered it, or if there is no control plane.
    pub fn unanswered_inbound(&self) -> Option<Subject> {
        (!self.answers(&Subject::Inbound)).then_some(Subject::Inbound)
    }

    /// Returns whether the mesh contains the answer to `subject`. Always true without a control plane.
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

    /// Returns every address that leads to a cluster, in ascending order, each with the result of
    /// [`Mesh::cluster_by_address`].
    pub fn addresses(&self) -> impl Iterator<Item = (SocketAddr, &Arc<Cluster>)> {
        self.addresses.iter().filter_map(|(address, key)| Some((*address, self.cluster(key)?)))
    }

    /// Returns the cluster that `:authority` names. The host is the name or an address of a Service, followed by an
    /// optional port (default: 80).
    ///
    /// - A name is `name`, `name.namespace`, `name.namespace.svc` or `name.namespace.svc.cluster.local`, in upper or
    ///   lower case, with or without a trailing dot. Without a namespace, the mesh's default namespace applies.
    /// - An address is looked up as in [`Mesh::cluster_by_address`].
    ///
    /// The argument may be any bytes. A successful lookup allocates nothing.
    ///
    /// # Errors
    /// [`Unroutable`]. Its text tells the caller how to correct the authority.
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

    /// Returns the cluster among whose endpoints connections to `address` are balanced. Normally, `address` is a
    /// clusterIP with a port of its Service.
    ///
    /// The own address of an endpoint leads to a cluster only if all these conditions are met. The client then took a
    /// random address from the Service's DNS record:
    ///
    /// - The Service is headless, and has no annotation `leno.dev/headless: direct`.
    /// - The endpoint's Pod has no hostname in any Service, or the Service has the annotation `leno.dev/headless:
    ///   balanced`.
    /// - At least one endpoint of the Service is ready.
    ///
    /// For any other endpoint, returns `None`: the client has selected this endpoint, so its calls must not be
    /// balanced. Connections in other protocols than HTTP/2 are not balanced either ([`Cluster::has_cluster_ip`] tells
    /// whether `address` is an endpoint's own).
    pub fn cluster_by_address(&self, address: SocketAddr) -> Option<&Arc<Cluster>> {
        let address = canonical(address);
        let (_, key) = self.addresses.find(|(other, _)| other.cmp(&address))?;
        self.cluster(key)
    }

    /// Returns the endpoint at `address`, ready or not, and its cluster. Used for a client that dialled the endpoint's
    /// own address.
    ///
    /// If several clusters have an endpoint at this address, an endpoint with a proxy takes precedence. Among several
    /// such endpoints, the one in the first cluster by key does. In the mesh of a proxy with a control plane, only the
    /// cluster that the control plane's answer about this address names has an endpoint here.
    pub fn endpoint_by_address(&self, address: SocketAddr) -> Option<(&Arc<Cluster>, &Endpoint)> {
        let address = canonical(address);
        let place = self.endpoints.from(|place| place.address < address).next()?;
        let cluster = self.cluster(&place.cluster).filter(|_| place.address == address)?;
        Some((cluster, cluster.endpoint_at(address)?))
    }

    /// Returns whether a Service declares this port of the proxy's own workload to be HTTP, according to the control
    /// plane.
    pub fn is_own_http_port(&self, port: u16) -> bool {
        self.http_ports.binary_search(&port).is_ok()
    }

    /// Returns the ports of a Pod that Services of its namespace declare to be HTTP (`appProtocol`), in ascending
    /// order. Returns at most [`HTTP_PORTS_MAX`].
    ///
    /// A port is omitted if another Service of the namespace declares it opaque. Services of other namespaces have no
    /// effect, because any user may list another workload's address in a Service.
    ///
    /// `pod` may be either of the Pod's addresses, because the Pod has the same ports at both.
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

    /// Returns whether this mesh and `other` imply the same inbound policies. They must have the same policies, and the
    /// same HTTP ports of the proxy's own workload. The control plane must have answered about policies in both or in
    /// neither. Cheap if the meshes share their policies.
    pub fn has_policies_of(&self, other: &Self) -> bool {
        let is_same = |(a, b): (&Arc<AuthorizationPolicy>, &Arc<AuthorizationPolicy>)| Arc::ptr_eq(a, b) || a == b;
        self.unanswered_inbound() == other.unanswered_inbound()
            && self.http_ports == other.http_ports
            && self.policies.len() == other.policies.len()
            && self.policies.iter().zip(other.policies.iter()).all(is_same)
    }

    /// Returns the policy with this namespace and name.
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

    /// Returns the policy for calls to `port`, on which the workload `own` listens. If no enforced policy selects the
    /// port, `default` applies. Policies that the control plane has not sent yet have no effect
    /// ([`Mesh::unanswered_inbound`]).
    pub fn inbound_policy(&self, own: &SpiffeId, port: u16, default: DefaultInboundPolicy) -> PortPolicy {
        PortPolicy::new(self.policies_of(&own.workload.namespace), own, port, default)
    }

    /// Returns the policy for a `port` on which the proxy itself, the proxy of the workload `own`, serves private data.
    /// It denies every caller, unless an enforced policy names both the port and the caller's identity.
    pub fn private_policy(&self, own: &SpiffeId, port: u16) -> PortPolicy {
        PortPolicy::private(self.policies_of(&own.workload.namespace), own, port)
    }

    /// Returns the routing rules for calls to the cluster from clients in `client_namespace`. These are the consumer
    /// routes of this namespace. If there are none, they are the producer routes.
    ///
    /// `None` if there are no routes of either kind; calls then go to the cluster itself. If the returned table has no
    /// rule for a request, the request must be rejected.
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
            // With a control plane, the mesh contains only the ports that the workload has called, so the Service may
            // exist with other ports.
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

    /// Returns whether `ip` is a virtual address of the cluster's Service.
    pub fn has_cluster_ip(&self, ip: IpAddr) -> bool {
        self.cluster_ips.iter().any(|own| own.to_canonical() == ip.to_canonical())
    }

    /// Returns whether `ip` is a virtual address of the cluster's Service, or an address of an endpoint.
    pub fn has_ip(&self, ip: IpAddr) -> bool {
        let is_at = |endpoint: &Endpoint| endpoint.address.ip().to_canonical() == ip.to_canonical();
        self.has_cluster_ip(ip) || self.all_endpoints().any(is_at)
    }

    /// Returns the second addresses of Pods that have an IPv4 and an IPv6 address. Each of these Pods is also in
    /// [`Self::endpoints`], with its first address.
    pub fn second_addresses(&self) -> impl Iterator<Item = &Endpoint> {
        let is_ipv4 = |endpoint: &Endpoint| canonical(endpoint.address).is_ipv4();
        let first = self.endpoints.iter().filter_map(|first| Some((first.pod.as_deref()?, is_ipv4(first))));
        let first: BTreeSet<(&str, bool)> = first.collect();
        let is_second = move |endpoint: &&Endpoint| {
            endpoint.pod.as_deref().is_some_and(|pod| first.contains(&(pod, !is_ipv4(endpoint))))
        };
        self.unready_endpoints.iter().filter(is_second)
    }

    /// Returns the endpoint at `address`, which must be canonical. A cluster may contain an IPv4 address twice: as IPv4,
    /// and mapped into IPv6. An endpoint with a proxy takes precedence, because calls to it must be encrypted.
    fn endpoint_at(&self, address: SocketAddr) -> Option<&Endpoint> {
        let mapped = match address {
            SocketAddr::V4(v4) => Some(SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())),
            SocketAddr::V6(_) => None,
        };
        let lists = [&self.endpoints, &self.unready_endpoints];
        let at = move |form: SocketAddr| {
            lists.into_iter().filter_map(move |list| {
                let place = list.binary_search_by_key(&form, |endpoint| endpoint.address).ok()?;
                list.get(place)
            })
        };
        [Some(address), mapped].into_iter().flatten().flat_map(at).min_by_key(|endpoint| endpoint.proxy.is_none())
    }
}

/// Returns an entry for each endpoint of a cluster that clients can call at the endpoint's own address.
fn places(dialled: Dialled, cluster: &Cluster, key: &Arc<ClusterKey>) -> impl Iterator<Item = EndpointPlace> {
    cluster.all_endpoints().filter(move |endpoint| dialled.means(endpoint)).map(|endpoint| EndpointPlace {
        address: canonical(endpoint.address),
        is_bare: endpoint.proxy.is_none(),
        cluster: key.clone(),
    })
}

/// Compares `name`, which must be in lower case, with `asked`, which may be in upper or lower case.
fn compare(name: &str, asked: &str) -> Ordering {
    name.bytes().cmp(asked.bytes().map(|b| b.to_ascii_lowercase()))
}

/// Returns the canonical form of an address: IPv4 mapped into IPv6 becomes IPv4, and the scope and the flow label are
/// removed.
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
