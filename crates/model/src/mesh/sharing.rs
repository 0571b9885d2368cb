//! Lets a new mesh share the memory of its unchanged parts with the previous mesh.

use std::sync::Arc;

use super::Mesh;

impl Mesh {
    /// Returns this mesh, in which each cluster, policy or table of routes that equals one of `previous` is replaced by
    /// a pointer to it. A comparison of pointers is then enough to find the changes.
    #[must_use]
    pub fn sharing(mut self, previous: &Self) -> Self {
        for cluster in self.clusters.iter_mut() {
            if let Some(same) = previous.clusters.find(|other| other.key.cmp(&cluster.key))
                && same == cluster
            {
                *cluster = Arc::clone(same);
            }
        }
        for policy in Arc::make_mut(&mut self.policies) {
            if let Some(same) = previous.policy(&policy.namespace, &policy.name)
                && same == policy
            {
                *policy = Arc::clone(same);
            }
        }
        for routes in self.routes.iter_mut() {
            if let Some(same) = previous.routes.find(|other| other.key().cmp(&routes.key()))
                && same == routes
            {
                routes.table = Arc::clone(&same.table);
            }
        }
        self
    }
}
