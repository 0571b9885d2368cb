//! Translates objects into a mesh: joins Services with their EndpointSlices, attaches routes, and collects the
//! policies.
//!
//! A pure function of the objects; their order does not matter. If two objects claim the same name or address, the
//! first in order of file and line wins. Objects that are in no file are ordered by age and name.

mod memo;
mod overlaps;
mod references;
mod routes;
mod traffic;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use memo::Memo;

use crate::mesh::{Cluster, ClusterKey, Controller, Dialled, Endpoint, EndpointProxy, Mesh};
use crate::object::annotations::Headless;
use crate::object::service::PORTS_MAX;
use crate::object::{
    Address, AuthorizationPolicy, EndpointSlice, Identity, Object, Readiness, ReferenceGrant, Route, Service,
    ServicePort, TrafficPolicy, authorization_policy,
};
use crate::policy::Mode;
use crate::problem::{Mark, Notice, Place, Problem, listed, quoted};
use crate::protocol::Protocol;
use crate::route::status::ParentStatus;
use crate::traffic::status::TargetStatus;
use overlaps::Enforced;
use references::Known;
use traffic::Policies;

/// A mesh, and the findings about its objects.
#[derive(Debug)]
pub struct Translation {
    /// The mesh. If objects are in conflict, the first of them wins.
    pub mesh: Mesh,
    /// Mistakes that were found while the objects were joined, such as objects that contradict each other.
    pub problems: Vec<Problem>,
    /// Remarks that are not mistakes.
    pub notices: Vec<Notice>,
    /// The status of each route at each of its Services, in order of file and line.
    pub routes: Vec<ParentStatus>,
    /// The status of each policy for traffic at each of its targets, in order of file and line.
    pub traffic: Vec<TargetStatus>,
}

/// Translates objects. Names without a namespace are looked up in `default_namespace`.
pub fn translate<'a>(objects: impl IntoIterator<Item = &'a Object>, default_namespace: &str) -> Translation {
    translate_again(objects, default_namespace, Dialled::Any, &mut Memo::default())
}

/// Like [`translate`], but reuses the results in `memo` for objects that have not changed since the last translation.
pub fn translate_again<'a>(
    objects: impl IntoIterator<Item = &'a Object>,
    default_namespace: &str,
    dialled: Dialled,
    memo: &mut Memo,
) -> Translation {
    let mut objects: Vec<&Object> = objects.into_iter().collect();
    objects.sort_by_key(|object| {
        let Identity { file, mark, created_s, namespace, name } = object.identity();
        // Objects from a Kubernetes API have no file: all have an empty path and position, so age and name order them.
        (file, *mark, *created_s, object.kind(), namespace, name)
    });
    let mut join = Join::new(dialled);
    let Unique { services, mut slices, policies, traffic, routes, grants } = join.unique(&objects);
    for service in &services {
        let (namespace, name) = name_of(&service.identity);
        let slices = slices.remove(&(namespace, name)).unwrap_or_default();
        join.service(service, &memo.join(service, &slices));
    }
    for slice in slices.values().flatten() {
        let what = format!("there is no Service {} in its namespace", quoted(&slice.service));
        join.notice(&slice.identity, "EndpointSlice", what);
    }
    join.overlaps(&policies);
    let known = Known::new(&services, &grants, &join.clusters, &routes);
    let mut traffic = Policies::new(&traffic, &routes, &known);
    let mut attached = routes::attach(&routes, &traffic, &known);
    traffic.report_idle(&attached.tables, &known);
    attached.tables.extend(traffic.tables(&join.clusters, &attached.tables, &known));
    let clusters = join.clusters.iter().map(|cluster| traffic.of_all_calls(cluster, &known, memo)).collect();
    memo.forget_unused();
    join.problems.extend(attached.problems.into_iter().chain(traffic.problems));
    join.notices.extend(attached.notices);
    let policies = policies.iter().map(|policy| Arc::clone(&policy.policy)).collect();
    // Put clusterIPs before the addresses of endpoints: if an address occurs twice, the mesh uses the first.
    let named = join.named;
    let is_balanced = |found: &HeadlessAddress| found.unless_named.as_ref().is_none_or(|pod| !named.contains(pod));
    let headless = join.headless.into_iter().filter(is_balanced).map(|found| (found.address, found.key));
    let addresses = join.cluster_ips.into_iter().chain(headless);
    Translation {
        mesh: Mesh::dialling(dialled, default_namespace, clusters, addresses, policies, attached.tables),
        problems: join.problems,
        notices: join.notices,
        routes: attached.statuses,
        traffic: traffic.statuses,
    }
}

/// The EndpointSlices of each Service; the key is the Service's namespace and name.
type Slices<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a Arc<EndpointSlice>>>;

/// The objects of each kind. All objects except the slices are in order of file and line. Names are unique within a
/// kind.
#[derive(Default)]
struct Unique<'a> {
    services: Vec<&'a Arc<Service>>,
    slices: Slices<'a>,
    policies: Vec<&'a AuthorizationPolicy>,
    traffic: Vec<&'a Arc<TrafficPolicy>>,
    routes: Vec<&'a Route>,
    grants: Vec<&'a ReferenceGrant>,
}

/// The intermediate result of a translation.
struct Join {
    dialled: Dialled,
    clusters: Vec<Arc<Cluster>>,
    /// The cluster for each clusterIP and port.
    cluster_ips: HashMap<SocketAddr, ClusterKey>,
    /// Addresses of headless Services' endpoints. Calls to such an address are balanced over the whole Service.
    headless: Vec<HeadlessAddress>,
    /// The Pods with a hostname. Only one Service gives a Pod its hostname, but other Services may have the Pod as an
    /// endpoint too. A client that dials the address of such a Pod has selected this Pod.
    named: HashSet<PodName>,
    problems: Vec<Problem>,
    notices: Vec<Notice>,
}

/// The own address of an endpoint of a headless Service.
struct HeadlessAddress {
    address: SocketAddr,
    key: ClusterKey,
    /// Calls to the address are not balanced if this Pod has a hostname.
    unless_named: Option<PodName>,
}

/// A Pod: its namespace and its name or, if an EndpointSlice does not name its Pod, its address. Pods on the network of
/// one node have the same address.
#[derive(PartialEq, Eq, Hash)]
struct PodName(Box<str>, Result<Box<str>, IpAddr>);

impl PodName {
    fn of(namespace: &str, endpoint: &Endpoint) -> Self {
        Self(namespace.into(), endpoint.pod.clone().ok_or_else(|| endpoint.address.ip().to_canonical()))
    }
}

impl Join {
    fn new(dialled: Dialled) -> Self {
        Self {
            dialled,
            clusters: Vec::new(),
            cluster_ips: HashMap::new(),
            headless: Vec::new(),
            named: HashSet::new(),
            problems: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Groups the objects by kind. Reports and drops each object whose name an earlier object of the same kind has.
    fn unique<'a>(&mut self, objects: &[&'a Object]) -> Unique<'a> {
        let mut defined: HashMap<_, &Identity> = HashMap::new();
        let mut unique = Unique::default();
        for object in objects {
            let identity = object.identity();
            if let Some(first) = defined.get(&(object.kind(), name_of(identity))) {
                let Identity { file, mark, .. } = first;
                let what = format!("already defined in {file}:{}; that definition is used", mark.line);
                let place = place(identity, object.kind(), "metadata.name", identity.mark);
                let fix = "remove or rename one of them".to_owned();
                self.problems.push(Problem { place, what, fix });
                continue;
            }
            defined.insert((object.kind(), name_of(identity)), identity);
            match object {
                Object::Service(service) => unique.services.push(service),
                Object::AuthorizationPolicy(policy) => unique.policies.push(policy),
                Object::TrafficPolicy(policy) => unique.traffic.push(policy),
                Object::Route(route) => unique.routes.push(route),
                Object::ReferenceGrant(grant) => unique.grants.push(grant),
                Object::EndpointSlice(slice) => {
                    let service = (&*identity.namespace, &*slice.service);
                    unique.slices.entry(service).or_default().push(slice);
                }
            }
        }
        unique
    }

    /// Adds the clusters of a Service.
    fn service(&mut self, service: &Service, joined: &JoinedService) {
        for (port, cluster) in service.ports.iter().zip(&joined.clusters) {
            self.claim_cluster_ips(service, port, &cluster.key);
            let pod = |endpoint: &Endpoint| PodName::of(&cluster.key.namespace, endpoint);
            let dialled = |endpoint: &&Endpoint| self.dialled.means(endpoint);
            let named = cluster.all_endpoints().filter(dialled).filter(|endpoint| endpoint.hostname.is_some());
            self.named.extend(named.map(pod));
            // If no endpoint is ready, the endpoint that the client dialled is as good as any other.
            let may_be_balanced = service.calls_to_endpoints != Some(Headless::Direct) && !cluster.endpoints.is_empty();
            if service.headless && may_be_balanced {
                let unless_named = |endpoint: &Endpoint| service.calls_to_endpoints.is_none().then(|| pod(endpoint));
                let address = |endpoint: &Endpoint| HeadlessAddress {
                    address: endpoint.address,
                    key: cluster.key.clone(),
                    unless_named: unless_named(endpoint),
                };
                self.headless.extend(cluster.all_endpoints().filter(dialled).map(address));
            }
        }
        self.clusters.extend(joined.clusters.iter().cloned());
        self.problems.extend(joined.problems.iter().cloned());
        self.notices.extend(joined.notices.iter().cloned());
    }

    fn claim_cluster_ips(&mut self, service: &Service, port: &ServicePort, key: &ClusterKey) {
        for ip in &service.cluster_ips {
            let address = SocketAddr::new(ip.to_canonical(), port.port);
            let owner = self.cluster_ips.entry(address).or_insert_with(|| key.clone());
            if owner == key {
                continue;
            }
            let what = format!("{address} already belongs to {owner}, which keeps it");
            let field = format!("spec.ports[{}]", port.index);
            let place = place(&service.identity, "Service", &field, port.mark);
            let fix = "use another clusterIP or port".to_owned();
            self.problems.push(Problem { place, what, fix });
        }
    }

    /// Adds notices about unreadable policies, and about policies in audit mode that overlap with an enforced policy.
    /// On the ports that both select, the policy in audit mode reports no calls.
    fn overlaps(&mut self, policies: &[&AuthorizationPolicy]) {
        let audited = || policies.iter().filter(|policy| policy.policy.mode == Mode::Audit);
        let namespaces: HashSet<&str> = audited().map(|policy| &*policy.identity.namespace).collect();
        let mut enforced: HashMap<&str, Enforced<'_>> = HashMap::new();
        for policy in policies.iter().filter(|policy| policy.policy.mode.is_enforced()) {
            let namespace = &*policy.identity.namespace;
            if namespaces.contains(namespace) {
                enforced.entry(namespace).or_default().add(policy);
            }
        }
        for unreadable in policies.iter().filter(|policy| policy.policy.mode == Mode::Unreadable) {
            let what =
                format!("it cannot be read: until it can, it allows no caller on {}", unreadable.policy.target());
            self.notice(&unreadable.identity, authorization_policy::KIND, what);
        }
        for audited in audited() {
            let others = enforced.get(&*audited.identity.namespace);
            if let Some(other) = others.and_then(|others| others.overlapping(audited)) {
                let Identity { namespace, name, .. } = &other.identity;
                let what = format!("nothing is audited where AuthorizationPolicy {namespace}/{name} is enforced");
                self.notice(&audited.identity, authorization_policy::KIND, what);
            }
        }
    }

    fn notice(&mut self, identity: &Identity, kind: &str, what: String) {
        self.notices.push(notice(identity, kind, what));
    }
}

/// A Service joined with its slices, independent of all other objects.
#[derive(Debug, Default)]
struct JoinedService {
    /// One cluster for each of the Service's ports.
    clusters: Vec<Arc<Cluster>>,
    problems: Vec<Problem>,
    notices: Vec<Notice>,
}

impl JoinedService {
    fn new(service: &Service, slices: &[&EndpointSlice]) -> Self {
        let mut joined = Self::default();
        if slices.is_empty() && !service.ports.is_empty() {
            let what = "no EndpointSlice has its label, so calls to it have no endpoint".to_owned();
            joined.notices.push(notice(&service.identity, "Service", what));
        }
        if service.ports_left_out > 0 {
            let what = format!(
                "the mesh serves the first {PORTS_MAX} TCP ports of a Service: redirected connections to the further ports \
                 ({}) leave the mesh, without encryption and balancing; routes and policies find no such port",
                service.ports_left_out
            );
            let place = place(&service.identity, "Service", "spec.ports", service.identity.mark);
            let fix = "distribute the ports over several Services".to_owned();
            joined.problems.push(Problem { place, what, fix });
        }
        let by_name = by_port_name(slices);
        for port in &service.ports {
            let serving = by_name.get(&*port.name).map_or(&[][..], Vec::as_slice);
            joined.problems.extend(misnamed_port(service, port, slices, serving));
            let prefers_ipv4 = service.cluster_ips.first().is_none_or(IpAddr::is_ipv4);
            let (endpoints, unready_endpoints) = endpoints(serving, prefers_ipv4);
            joined.clusters.push(Arc::new(Cluster {
                key: ClusterKey {
                    namespace: service.identity.namespace.clone(),
                    service: service.identity.name.clone(),
                    port: port.port,
                },
                balancer: service.balancer,
                protocol: protocol(service, port, serving),
                settings: service.settings.clone(),
                retry_budget: None,
                objectives: service.objectives.clone(),
                cluster_ips: service.cluster_ips.clone(),
                endpoints,
                unready_endpoints,
            }));
        }
        joined
    }
}

/// A slice that serves a port of its Service, and the number on which its endpoints listen.
type Serving<'a> = (&'a EndpointSlice, u16);

/// Returns the slices that serve each port of their Service, by the port's name. A Service may have a thousand ports,
/// so each of them must not cost a search through all ports of the slices.
fn by_port_name<'a>(slices: &[&'a EndpointSlice]) -> HashMap<&'a str, Vec<Serving<'a>>> {
    let mut by_name: HashMap<&str, Vec<Serving<'_>>> = HashMap::new();
    for slice in slices {
        for port in &slice.ports {
            by_name.entry(&*port.name).or_default().push((*slice, port.port));
        }
    }
    by_name
}

/// Reports a Service's port that none of its slices with an endpoint serves: the Service's port would have no
/// endpoints.
fn misnamed_port(
    service: &Service,
    port: &ServicePort,
    slices: &[&EndpointSlice],
    serving: &[Serving<'_>],
) -> Option<Problem> {
    let first = slices.iter().find(|slice| !slice.addresses.is_empty())?;
    if serving.iter().any(|(slice, _)| !slice.addresses.is_empty()) {
        return None;
    }
    let names = first.ports.iter().map(|served| quoted(&served.name));
    let Identity { namespace, name, .. } = &service.identity;
    let what = format!(
        "none of the ports ({}) has the name {} of port {} of Service {namespace}/{name}",
        listed(names),
        quoted(&port.name),
        port.port
    );
    let place = place(&first.identity, "EndpointSlice", "ports", first.ports_mark);
    Some(Problem { place, what, fix: "give both the same name".to_owned() })
}

/// Returns the protocol of a Service's port; see [`Cluster::protocol`] for its sources.
fn protocol(service: &Service, port: &ServicePort, serving: &[Serving<'_>]) -> Protocol {
    let numbers = serving.iter().map(|(_, number)| *number).chain([port.port]);
    let is_opaque =
        |(slice, number): &Serving<'_>| slice.addresses.iter().any(|address| address.opaque_ports.contains(*number));
    if numbers.clone().any(|number| service.opaque_ports.contains(number)) || serving.iter().any(is_opaque) {
        return Protocol::Opaque;
    }
    let usual = || numbers.map(Protocol::of_port).find(|protocol| *protocol != Protocol::Detect);
    port.protocol.or_else(usual).unwrap_or_default()
}

/// Returns the endpoints that serve a port, and the endpoints that must not get calls.
///
/// As in kube-proxy, terminating endpoints that still serve are used only if no endpoint is ready.
///
/// A Pod of a dual-stack Service has an address in each family. Only one of them gets calls, so that each Pod is one
/// endpoint for the balancer: the IPv4 address if `prefers_ipv4`, else the IPv6 address.
fn endpoints(serving: &[Serving<'_>], prefers_ipv4: bool) -> (Vec<Endpoint>, Vec<Endpoint>) {
    let mut known: BTreeMap<SocketAddr, (&Address, Option<&EndpointProxy>, Option<&Controller>)> = BTreeMap::new();
    for (slice, port) in serving {
        for found in &slice.addresses {
            let before = match found.skipped_ports.contains(*port) {
                true => None,
                false => found.proxy.as_ref().or(slice.proxy.as_ref()),
            };
            let named = found.controller.as_ref().or(slice.controller.as_ref());
            let socket = SocketAddr::new(found.ip, *port);
            let (address, proxy, controller) = known.entry(socket).or_insert((found, before, named));
            // An endpoint that moves from one slice to another is briefly in both. Use the better readiness. Keep
            // the endpoint's proxy even if only one slice names it: without the proxy, calls would be unencrypted.
            if found.readiness < address.readiness {
                *address = found;
            }
            *proxy = proxy.or(before);
            *controller = controller.or(named);
        }
    }
    let is_preferred = |socket: &SocketAddr| socket.ip().to_canonical().is_ipv4() == prefers_ipv4;
    let with_preferred: BTreeSet<_> = known
        .iter()
        .filter(|(socket, _)| is_preferred(socket))
        .filter_map(|(_, (address, ..))| pod_of(address))
        .collect();
    let is_second = |socket: &SocketAddr, address: &Address| {
        !is_preferred(socket) && pod_of(address).is_some_and(|pod| with_preferred.contains(&pod))
    };
    let first = known.iter().filter(|(socket, (address, ..))| !is_second(socket, address));
    let best = first.map(|(_, (address, ..))| address.readiness).min();
    let usable = best.filter(|best| *best != Readiness::Unready);
    let (mut endpoints, mut unready) = (Vec::new(), Vec::new());
    for (socket, (address, proxy, controller)) in known {
        let is_usable = Some(address.readiness) == usable && !is_second(&socket, address);
        let list = if is_usable { &mut endpoints } else { &mut unready };
        list.push(Endpoint {
            address: socket,
            zone: address.zone.clone(),
            hostname: address.hostname.clone(),
            // Keep only a Pod of the slice's own namespace. Otherwise users of one namespace could redirect the
            // connections that clients open to Pods of another namespace.
            pod: address.pod.clone().filter(|_| address.pod_namespace.is_none()),
            controller: controller.cloned(),
            proxy: proxy.cloned(),
        });
    }
    (endpoints, unready)
}

/// Returns the namespace and name of an endpoint's Pod; the namespace is `None` if it is the slice's own.
fn pod_of(address: &Address) -> Option<(Option<&str>, &str)> {
    Some((address.pod_namespace.as_deref(), address.pod.as_deref()?))
}

fn name_of(identity: &Identity) -> (&str, &str) {
    (&identity.namespace, &identity.name)
}

fn notice(identity: &Identity, kind: &str, what: String) -> Notice {
    Notice { place: place(identity, kind, "", identity.mark), what }
}

fn place(identity: &Identity, kind: &str, field: &str, mark: Mark) -> Place {
    let Identity { namespace, name, file, .. } = identity;
    Place { file: file.clone(), mark, field: field.to_owned(), object: format!("{kind} {namespace}/{name}") }
}

#[cfg(test)]
mod tests;
