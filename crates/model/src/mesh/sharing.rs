//! Lets successive meshes share their equal parts in memory.

use std::sync::Arc;

use super::Mesh;

impl Mesh {
    /// Returns the same mesh, which shares equal clusters, policies and tables of routes with `previous`. Changes can
    /// then be found by comparing pointers.
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
