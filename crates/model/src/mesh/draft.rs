//! A mesh that changes. It records its changes since the last [`Draft::take`], so that the caller needs to examine only
//! these changes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use super::{AttachedRoutes, Cluster, ClusterKey, Mesh, canonical, places};
use crate::discovery::Subject;
use crate::policy::AuthorizationPolicy;
use crate::route::RouteTable;
use crate::sorted::SortedList;

/// A mesh that is built up from a control plane's answers.
#[derive(Debug)]
pub struct Draft {
    mesh: Mesh,
    changes: Changes,
}

/// The changes of a mesh. They may include unchanged items, but never omit a changed item.
#[derive(Debug, Default)]
pub struct Changes {
    /// Clusters that were added, changed or removed.
    pub clusters: BTreeSet<ClusterKey>,
    /// Clusters that are no longer known because no call needs them; they may still exist.
    pub forgotten_clusters: BTreeSet<ClusterKey>,
    /// Clusters whose routes were added, changed or removed, and clusters whose routes lead to a cluster that was added
    /// or removed.
    pub routes: BTreeSet<ClusterKey>,
    /// Subjects whose answer has become known.
    pub answered: BTreeSet<Subject>,
    /// Subjects whose answer has changed or is no longer known.
    pub changed_answers: BTreeSet<Subject>,
    /// Subjects that were forgotten because no call needs them.
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
    /// Creates a mesh without clusters, policies and routes, in which no answer is known. `default_namespace` is the
    /// namespace of names without a namespace, and of clients without an identity.
    pub fn new(default_namespace: &str) -> Self {
        let nothing = Mesh::new(default_namespace, Vec::new(), [], Vec::new(), Vec::new());
        Self { mesh: nothing.answering([]), changes: Changes::default() }
    }

    /// The mesh as it is now.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the mesh, and its changes since the last call of this function.
    pub fn take(&mut self) -> (Arc<Mesh>, Changes) {
        (Arc::new(self.mesh.clone()), std::mem::take(&mut self.changes))
    }

    /// Sets a cluster, or removes it with `None`. The cost is proportional to the endpoints that were added or removed,
    /// plus one comparison for each other endpoint.
    pub fn set_cluster(&mut self, key: &ClusterKey, cluster: Option<Arc<Cluster>>) {
        self.changes.forgotten_clusters.remove(key);
        let before = self.mesh.cluster(key);
        if before == cluster.as_ref() {
            return;
        }
        let shared = Arc::new(key.clone());
        let of = |cluster: Option<&Arc<Cluster>>| -> BTreeSet<_> {
            cluster.into_iter().flat_map(|cluster| places(self.mesh.dialled, cluster, &shared)).collect()
        };
        let (old, new) = (of(before), of(cluster.as_ref()));
        for gone in old.difference(&new) {
            self.mesh.endpoints.set(|place| place.cmp(gone), None);
        }
        for come in new.difference(&old) {
            self.mesh.endpoints.set(|place| place.cmp(come), Some(come.clone()));
        }
        self.mesh.clusters.set(|other| other.key.cmp(key), cluster);
        self.changes.clusters.insert(key.clone());
    }

    /// Removes a cluster that no call needs any more.
    pub fn forget_cluster(&mut self, key: &ClusterKey) {
        if self.mesh.cluster(key).is_some() {
            self.set_cluster(key, None);
            self.changes.forgotten_clusters.insert(key.clone());
        }
    }

    /// Sets the cluster to which an address leads; `None` if it leads to no cluster.
    pub fn set_address(&mut self, address: SocketAddr, key: Option<&ClusterKey>) {
        let address = canonical(address);
        let known = self.mesh.addresses.find(|(other, _)| other.cmp(&address)).map(|(_, key)| &**key);
        if known != key {
            let value = key.map(|key| (address, Arc::new(key.clone())));
            self.mesh.addresses.set(|(other, _)| other.cmp(&address), value);
            self.look_again(&Subject::Address(address));
        }
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

    /// Records that the routes of the cluster `key` must be examined again, because a cluster to which they lead was
    /// added or removed.
    pub fn renew_routes(&mut self, key: &ClusterKey) {
        self.changes.routes.insert(key.clone());
    }

    /// Replaces the list of ports of the proxy's own workload that Services declare to be HTTP.
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

    /// Sets whether the answer to a subject is known.
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

    /// Forgets a subject that no call needs any more.
    pub fn forget(&mut self, subject: &Subject) {
        if let Subject::Address(address) = subject {
            self.set_address(*address, None);
        }
        self.set_answered(subject, false);
        self.changes.forgotten.insert(subject.clone());
    }

    /// Records that a subject's answer, if known, has changed.
    pub fn look_again(&mut self, subject: &Subject) {
        if self.mesh.answers(subject) {
            self.changes.changed_answers.insert(subject.clone());
        }
    }
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
