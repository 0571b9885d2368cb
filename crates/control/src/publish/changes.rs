//! Compares two meshes, and finds the subjects that changed for each kind of resource.
//!
//! The comparison never misses a changed subject. The result may contain a subject whose resource is unchanged. This
//! does no harm, because the sender compares versions.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use leno_model::mesh::{Cluster, ClusterKey, Endpoint, Mesh};
use leno_model::policy::AuthorizationPolicy;
use leno_model::protocol::Protocol;
use leno_xds::{Kind, cluster};

use super::changed_pods::ChangedPods;
use super::subject::Subject;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The subjects whose resources may have changed, by kind.
    subjects: [BTreeSet<Subject>; 4],
    pods: ChangedPods,
}

impl Changes {
    /// Compares `new` with `old`. The cost grows with the sizes of the two meshes.
    pub(crate) fn between(old: &Mesh, new: &Mesh) -> Self {
        let mut changes = Self::default();
        let mut olds = old.clusters().iter().peekable();
        let mut news = new.clusters().iter().peekable();
        loop {
            let order = match (olds.peek(), news.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(before), Some(after)) => before.key.cmp(&after.key),
            };
            let before = olds.next_if(|_| order.is_le());
            let after = news.next_if(|_| order.is_ge());
            match (before, after) {
                (Some(before), Some(after)) if Arc::ptr_eq(before, after) => {}
                (Some(before), Some(after)) => changes.cluster(before, after),
                (only, None) | (None, only) => only.into_iter().for_each(|cluster| changes.whole_cluster(cluster)),
            }
        }
        changes.addresses(old, new);
        changes.routes(old, new);
        changes.policies(old, new);
        changes.pods = ChangedPods::between(old.pods(), new.pods());
        changes.ports_of_both_families(old, new);
        changes
    }

    pub(crate) fn of(&self, kind: Kind) -> &BTreeSet<Subject> {
        &self.subjects[kind.index()]
    }

    pub(crate) fn pods(&self) -> &ChangedPods {
        &self.pods
    }

    fn add(&mut self, kind: Kind, subject: Subject) {
        self.subjects[kind.index()].insert(subject);
    }

    /// Adds a cluster that was created or removed.
    fn whole_cluster(&mut self, cluster: &Cluster) {
        for kind in Kind::ALL {
            self.add(kind, Subject::Cluster(cluster.key.clone()));
        }
        self.addresses_of_service(cluster);
        self.add(Kind::Route, Subject::Mesh);
        for endpoint in cluster.all_endpoints() {
            self.endpoint(cluster, endpoint.address);
        }
    }

    fn cluster(&mut self, old: &Cluster, new: &Cluster) {
        let has_same_ips = old.cluster_ips == new.cluster_ips;
        let is_same = old.balancer == new.balancer
            && old.protocol == new.protocol
            && old.settings == new.settings
            && old.retry_budget == new.retry_budget
            && old.objectives == new.objectives
            && has_same_ips
            && cluster::has_same_peers(old, new);
        if !is_same {
            self.add(Kind::Cluster, Subject::Cluster(new.key.clone()));
        }
        if old.protocol != new.protocol {
            // The Service's endpoints depend on its protocol, which decides whether calls to a proxy use mutual TLS at
            // the endpoints' own ports.
            self.add(Kind::Endpoints, Subject::Cluster(new.key.clone()));
        }
        if old.protocol != new.protocol || !has_same_ips {
            self.addresses_of_service(old);
            self.addresses_of_service(new);
            self.add(Kind::Route, Subject::Mesh);
            // The Service's protocol and cluster IPs also decide whether calls to an endpoint's own address are treated
            // as calls to the Service.
            old.all_endpoints().for_each(|endpoint| self.endpoint(old, endpoint.address));
            new.all_endpoints().for_each(|endpoint| self.endpoint(new, endpoint.address));
        }
        if old.endpoints != new.endpoints || old.unready_endpoints != new.unready_endpoints {
            self.add(Kind::Endpoints, Subject::Cluster(new.key.clone()));
            self.addresses_of_endpoints(old, new);
        }
    }

    fn addresses_of_endpoints(&mut self, old: &Cluster, new: &Cluster) {
        // Compare whether endpoints have a proxy, too. If several clusters have an endpoint at one address, the address
        // leads to a cluster that knows the endpoint's proxy, so a proxy that comes or goes may change the cluster.
        let named = |endpoint: &Endpoint| {
            let (is_pod, has_proxy) = (endpoint.pod.is_some(), endpoint.proxy.is_some());
            (endpoint.address, endpoint.hostname.clone(), is_pod, has_proxy)
        };
        let [before, after] = [old, new].map(|cluster| cluster.all_endpoints().map(named).collect::<BTreeSet<_>>());
        for (address, ..) in before.symmetric_difference(&after) {
            self.endpoint(new, *address);
        }
    }

    fn addresses_of_service(&mut self, cluster: &Cluster) {
        for ip in &cluster.cluster_ips {
            self.address(SocketAddr::new(*ip, cluster.key.port));
        }
    }

    /// Adds the address of an endpoint. If the Service declares a protocol, also adds the ports of the endpoint's Pod,
    /// since the control plane sends the declared protocols of a Pod's ports to the Pod's proxy.
    fn endpoint(&mut self, cluster: &Cluster, address: SocketAddr) {
        self.address(address);
        if cluster.protocol != Protocol::Detect {
            self.add(Kind::Listener, Subject::Ports(address.ip().to_canonical()));
        }
    }

    /// Adds the ports at both addresses of a Pod, IPv4 and IPv6, if the ports at one address or the pair of addresses
    /// has changed. A Pod's proxy connects from only one of its addresses, but gets the declared protocols of the ports
    /// at both.
    fn ports_of_both_families(&mut self, old: &Mesh, new: &Mesh) {
        let other = |mesh: &Mesh, ip: &IpAddr| mesh.pods().get(ip).and_then(|pod| pod.other_ip);
        let ports = self.of(Kind::Listener).iter();
        let changed = ports.filter_map(|subject| if let Subject::Ports(ip) = subject { Some(ip) } else { None });
        let others = changed.flat_map(|ip| [old, new].map(|mesh| other(mesh, ip))).flatten();
        let moved = self.pods.ips().iter().filter(|ip| other(old, ip) != other(new, ip)).copied();
        for ip in others.chain(moved).collect::<Vec<_>>() {
            self.add(Kind::Listener, Subject::Ports(ip));
        }
    }

    fn address(&mut self, address: SocketAddr) {
        self.add(Kind::Listener, Subject::Address(SocketAddr::new(address.ip().to_canonical(), address.port())));
    }

    /// Adds the addresses that belong to another cluster than before: addresses of Services, and of endpoints of
    /// headless Services. Also adds the routes of the whole mesh, whose domains are these addresses.
    fn addresses(&mut self, old: &Mesh, new: &Mesh) {
        let [mut olds, mut news] =
            [old, new].map(|mesh| mesh.addresses().map(|(address, cluster)| (address, &cluster.key)).peekable());
        loop {
            let address = match (olds.peek(), news.peek()) {
                (None, None) => break,
                (Some(before), Some(after)) => before.0.min(after.0),
                (Some((only, _)), None) | (None, Some((only, _))) => *only,
            };
            let before = olds.next_if(|(found, _)| *found == address);
            let after = news.next_if(|(found, _)| *found == address);
            if before != after {
                self.address(address);
                self.add(Kind::Route, Subject::Mesh);
            }
        }
    }

    fn routes(&mut self, old: &Mesh, new: &Mesh) {
        let of = |mesh: &Mesh| -> Vec<(ClusterKey, Box<str>)> {
            mesh.attached_routes().iter().map(|routes| (routes.cluster.clone(), routes.namespace.clone())).collect()
        };
        let names: BTreeSet<_> = of(old).into_iter().chain(of(new)).collect();
        for (key, namespace) in names {
            let tables = [old, new].map(|mesh| mesh.routes(&key, &namespace));
            if tables[0] == tables[1] {
                continue;
            }
            if tables.iter().flatten().any(|table| !table.kind().is_of_requests()) {
                // TCPRoutes and TLSRoutes are part of the Listeners of their Service's addresses.
                [old, new]
                    .into_iter()
                    .filter_map(|mesh| mesh.cluster(&key))
                    .for_each(|it| self.addresses_of_service(it));
            }
            self.add(Kind::Route, Subject::Cluster(key));
            self.add(Kind::Route, Subject::Mesh);
        }
    }

    /// Adds the namespaces with changed policies: a policy selects workloads of its own namespace only.
    fn policies(&mut self, old: &Mesh, new: &Mesh) {
        let gone = old.policies().iter().filter(|policy| !has(new, policy));
        let come = new.policies().iter().filter(|policy| !has(old, policy));
        for policy in gone.chain(come) {
            self.add(Kind::Listener, Subject::Inbound(policy.namespace.clone()));
        }
    }
}

/// Whether the mesh has an equal policy of this name.
fn has(mesh: &Mesh, policy: &Arc<AuthorizationPolicy>) -> bool {
    mesh.policy(&policy.namespace, &policy.name).is_some_and(|same| Arc::ptr_eq(same, policy) || same == policy)
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
