//! A mesh under change: what it becomes, and what is different in it since it was last taken, so that whoever follows looks
//! at that alone.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use super::{AttachedRoutes, Cluster, ClusterKey, Mesh, canonical, places};
use crate::discovery::Subject;
use crate::policy::AuthorizationPolicy;
use crate::route::RouteTable;
use crate::sorted::SortedList;

/// A mesh that answers questions one after another.
#[derive(Debug)]
pub struct Draft {
    mesh: Mesh,
    changes: Changes,
}

/// What is different in a mesh. It may name what is the same after all; it never leaves anything out.
#[derive(Debug, Default)]
pub struct Changes {
    /// Clusters that came, changed or went.
    pub clusters: BTreeSet<ClusterKey>,
    /// Clusters of which nothing is known any more, since nobody asks: they may well exist.
    pub forgotten_clusters: BTreeSet<ClusterKey>,
    /// Clusters whose routes came, changed or went, or whose routes lead to clusters that came or went.
    pub routes: BTreeSet<ClusterKey>,
    /// Questions that have an answer now and had none.
    pub answered: BTreeSet<Subject>,
    /// Questions that had an answer, and have another or none now.
    pub changed_answers: BTreeSet<Subject>,
    /// Those that have none since nobody asks any more.
    pub forgotten: BTreeSet<Subject>,
    /// Whether the policies are others.
    pub policies: bool,
}

impl Changes {
    /// Whether nothing is different.
    pub fn is_empty(&self) -> bool {
        let Self { clusters, forgotten_clusters, routes, answered, changed_answers, forgotten, policies } = self;
        let has_keys = [clusters, forgotten_clusters, routes].iter().any(|keys| !keys.is_empty());
        let has_subjects = [answered, changed_answers, forgotten].iter().any(|subjects| !subjects.is_empty());
        !has_keys && !has_subjects && !policies
    }
}

impl Draft {
    /// A mesh that knows nothing, in a namespace.
    pub fn new(default_namespace: &str) -> Self {
        let nothing = Mesh::new(default_namespace, Vec::new(), [], Vec::new(), Vec::new());
        Self { mesh: nothing.answering([]), changes: Changes::default() }
    }

    /// The mesh as it is now.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The mesh, and what is different since this was last called.
    pub fn take(&mut self) -> (Arc<Mesh>, Changes) {
        (Arc::new(self.mesh.clone()), std::mem::take(&mut self.changes))
    }

    /// Sets a cluster; `None` if there is none of that key. Costs as much as it has endpoints that came or went, and a look
    /// at the others.
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

    /// Takes a cluster out that nobody asks about any more.
    pub fn forget_cluster(&mut self, key: &ClusterKey) {
        if self.mesh.cluster(key).is_some() {
            self.set_cluster(key, None);
            self.changes.forgotten_clusters.insert(key.clone());
        }
    }

    /// Says which cluster an address leads to.
    pub fn set_address(&mut self, address: SocketAddr, key: Option<&ClusterKey>) {
        let address = canonical(address);
        let known = self.mesh.addresses.find(|(other, _)| other.cmp(&address)).map(|(_, key)| &**key);
        if known != key {
            let value = key.map(|key| (address, Arc::new(key.clone())));
            self.mesh.addresses.set(|(other, _)| other.cmp(&address), value);
            self.look_again(&Subject::Address(address));
        }
    }

    /// Attaches the routes of a namespace to a cluster.
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

    /// Says that clusters came or went that the routes of a cluster lead to.
    pub fn renew_routes(&mut self, key: &ClusterKey) {
        self.changes.routes.insert(key.clone());
    }

    /// Replaces the policies.
    pub fn set_policies(&mut self, mut policies: Vec<Arc<AuthorizationPolicy>>) {
        policies.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        if *self.mesh.policies != policies {
            self.mesh.policies = Arc::new(policies);
            self.changes.policies = true;
        }
    }

    /// Says whether a question has an answer.
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

    /// Forgets a question and its answer, since nobody asks any more.
    pub fn forget(&mut self, subject: &Subject) {
        if let Subject::Address(address) = subject {
            self.set_address(*address, None);
        }
        self.set_answered(subject, false);
        self.changes.forgotten.insert(subject.clone());
    }

    /// Says that the answer to a question is another one, if it had one.
    pub fn look_again(&mut self, subject: &Subject) {
        if self.mesh.answers(subject) {
            self.changes.changed_answers.insert(subject.clone());
        }
    }
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
