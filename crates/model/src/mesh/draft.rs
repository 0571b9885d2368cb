//! A mesh under construction. It records its changes since the last [`Draft::take`], so that a caller can update only
//! the parts that depend on these changes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use super::{AttachedRoutes, Cluster, ClusterKey, EndpointPlace, Mesh, canonical};
use crate::discovery::Subject;
use crate::policy::AuthorizationPolicy;
use crate::route::RouteTable;
use crate::sorted::SortedList;

/// A mesh that is built and updated from the answers of a control plane.
#[derive(Debug)]
pub struct Draft {
    mesh: Mesh,
    changes: Changes,
}

/// The changes of a mesh. Contains every changed item, and may also contain items that have not changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// Clusters that were added, changed or removed.
    pub clusters: BTreeSet<ClusterKey>,
    /// Clusters that the mesh has removed because no call needs them. The Services may still exist in Kubernetes.
    pub forgotten_clusters: BTreeSet<ClusterKey>,
    /// Clusters whose routes may have changed. Either a route was added, changed or removed, or a cluster to which a
    /// route leads was added or removed.
    pub routes: BTreeSet<ClusterKey>,
    /// Subjects that had no valid answer, and now have one. Also addresses that the proxy now assumes to be outside of
    /// the mesh: the connections that wait for their answer can continue.
    pub answered: BTreeSet<Subject>,
    /// Subjects whose answer has changed, or is no longer valid. Also addresses about which an assumption has ended.
    pub changed_answers: BTreeSet<Subject>,
    /// Subjects that the mesh has removed because no call needs them.
    pub forgotten: BTreeSet<Subject>,
    /// Whether the policies, or the HTTP ports of the proxy's own workload, changed.
    pub policies: bool,
}

impl Changes {
    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        let Self { clusters, forgotten_clusters, routes, answered, changed_answers, forgotten, policies } = self;
        let has_keys = [clusters, forgotten_clusters, routes].iter().any(|keys| !keys.is_empty());
        let has_subjects = [answered, changed_answers, forgotten].iter().any(|subjects| !subjects.is_empty());
        !has_keys && !has_subjects && !policies
    }
}

impl Draft {
    /// Creates a mesh without clusters, policies, routes and answers. `default_namespace` applies to names without a
    /// namespace, and to clients without an identity.
    pub fn new(default_namespace: &str) -> Self {
        let nothing = Mesh::new(default_namespace, Vec::new(), [], Vec::new(), Vec::new());
        Self { mesh: nothing.answering([]), changes: Changes::default() }
    }

    /// The mesh in its present state.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the mesh, and its changes since the last call of this function.
    pub fn take(&mut self) -> (Arc<Mesh>, Changes) {
        (Arc::new(self.mesh.clone()), std::mem::take(&mut self.changes))
    }

    /// Adds or replaces a cluster; `None` removes it. The cost is one comparison for each endpoint.
    pub fn set_cluster(&mut self, key: &ClusterKey, cluster: Option<Arc<Cluster>>) {
        self.changes.forgotten_clusters.remove(key);
        if self.mesh.cluster(key) == cluster.as_ref() {
            return;
        }
        self.mesh.clusters.set(|other| other.key.cmp(key), cluster);
        self.changes.clusters.insert(key.clone());
    }

    /// Removes a cluster because no call needs it any more.
    pub fn forget_cluster(&mut self, key: &ClusterKey) {
        if self.mesh.cluster(key).is_some() {
            self.set_cluster(key, None);
            self.changes.forgotten_clusters.insert(key.clone());
        }
    }

    /// Sets the cluster that the control plane's answer about an address names; `None` if it names none. If
    /// `is_balanced`, calls to the address are balanced over the cluster. If not, the address is an endpoint's own.
    ///
    /// [`Mesh::endpoint_by_address`] finds an endpoint at the address only in this cluster. An EndpointSlice may list
    /// any address. If the endpoints of every known cluster counted, a user who may write EndpointSlices in one
    /// namespace could redirect the connections that clients open to addresses outside of it.
    pub fn set_address(&mut self, address: SocketAddr, key: Option<&ClusterKey>, is_balanced: bool) {
        let address = canonical(address);
        let balanced = self.mesh.addresses.find(|(other, _)| other.cmp(&address)).map(|(_, key)| &**key);
        let named = self.mesh.endpoints.find(|place| place.address.cmp(&address)).map(|place| &*place.cluster);
        if (balanced, named) == (key.filter(|_| is_balanced), key) {
            return;
        }
        let key = key.map(|key| Arc::new(key.clone()));
        let balanced = key.clone().filter(|_| is_balanced).map(|key| (address, key));
        self.mesh.addresses.set(|(other, _)| other.cmp(&address), balanced);
        // `is_bare` only orders the entries of one address, and here an address has a single entry.
        let place = key.map(|cluster| EndpointPlace { address, is_bare: false, cluster });
        self.mesh.endpoints.set(|other| other.address.cmp(&address), place);
        self.look_again(&Subject::Address(address));
    }

    /// Attaches the routes of a namespace to a cluster; `None` removes them.
    pub fn set_routes(&mut self, key: &ClusterKey, namespace: &str, table: Option<Arc<RouteTable>>) {
        let place = (key, namespace);
        let before = self.mesh.routes.find(|routes| routes.key().cmp(&place)).map(|routes| &routes.table);
        if before == table.as_ref() {
            return;
        }
        let routes = table.map(|table| AttachedRoutes { cluster: key.clone(), namespace: namespace.into(), table });
        self.mesh.routes.set(|other| other.key().cmp(&place), routes);
        self.renew_routes(key);
    }

    /// Records that the caller must examine the routes of the cluster `key` again, because a cluster to which they lead
    /// was added or removed.
    pub fn renew_routes(&mut self, key: &ClusterKey) {
        self.changes.routes.insert(key.clone());
    }

    /// Replaces the HTTP ports: the ports of the proxy's own workload that Services declare to be HTTP.
    pub fn set_http_ports(&mut self, mut ports: Vec<u16>) {
        ports.sort_unstable();
        ports.dedup();
        if *self.mesh.http_ports != *ports {
            self.mesh.http_ports = ports.into();
            self.changes.policies = true;
        }
    }

    /// Replaces the policies.
    pub fn set_policies(&mut self, mut policies: Vec<Arc<AuthorizationPolicy>>) {
        policies.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        if *self.mesh.policies != policies {
            self.mesh.policies = Arc::new(policies);
            self.changes.policies = true;
        }
    }

    /// Sets whether the control plane has answered a subject.
    pub fn set_answered(&mut self, subject: &Subject, is_answered: bool) {
        if self.mesh.answers(subject) == is_answered {
            return;
        }
        let value = is_answered.then(|| subject.clone());
        let answered = self.mesh.answered.get_or_insert_with(|| SortedList::of_sorted(Vec::new()));
        answered.set(|other| other.cmp(subject), value);
        if is_answered {
            self.changes.answered.insert(subject.clone());
            self.changes.forgotten.remove(subject);
        } else {
            self.changes.answered.remove(subject);
            self.changes.changed_answers.insert(subject.clone());
        }
    }

    /// Sets whether the proxy assumes that an address is outside of the mesh, because the control plane cannot be reached
    /// to answer. The caller must end the assumption before it calls [`Draft::set_address`] or [`Draft::set_answered`] for
    /// the address.
    pub fn set_assumed_outside(&mut self, address: SocketAddr, is_assumed: bool) {
        let address = canonical(address);
        let order = |other: &SocketAddr| other.cmp(&address);
        if self.mesh.assumed_outside.find(order).is_some() == is_assumed {
            return;
        }
        self.mesh.assumed_outside.set(order, is_assumed.then_some(address));
        let subject = Subject::Address(address);
        if is_assumed {
            self.changes.forgotten.remove(&subject);
            self.changes.answered.insert(subject);
        } else {
            self.changes.answered.remove(&subject);
            self.changes.changed_answers.insert(subject);
        }
    }

    /// Removes a subject and its answer because no call needs the subject any more.
    pub fn forget(&mut self, subject: &Subject) {
        if let Subject::Address(address) = subject {
            self.set_assumed_outside(*address, false);
            self.set_address(*address, None, false);
        }
        self.set_answered(subject, false);
        self.changes.forgotten.insert(subject.clone());
    }

    /// Records that the answer to a subject has changed. Has no effect if the subject has no answer yet.
    pub fn look_again(&mut self, subject: &Subject) {
        if self.mesh.answers(subject) {
            self.changes.changed_answers.insert(subject.clone());
        }
    }
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
