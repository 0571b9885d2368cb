//! One mesh after another: what is equal in both is the same in memory.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Mesh;
use crate::policy::AuthorizationPolicy;

impl Mesh {
    /// The same mesh, which shares with `previous` the clusters, policies and tables of routes that are equal in both: who
    /// compares them by pointer sees what changed.
    #[must_use]
    pub fn sharing(mut self, previous: &Self) -> Self {
        for cluster in &mut self.clusters {
            if let Some(same) = find(&previous.clusters, |other| other.key.cmp(&cluster.key))
                && same == cluster
            {
                *cluster = Arc::clone(same);
            }
        }
        for policy in &mut self.policies {
            let order = |other: &Arc<_>| by_name(other).cmp(&by_name(policy));
            if let Some(same) = find(&previous.policies, order)
                && same == policy
            {
                *policy = Arc::clone(same);
            }
        }
        for routes in &mut self.routes {
            if let Some(same) = find(&previous.routes, |other| other.key().cmp(&routes.key()))
                && same == routes
            {
                routes.table = Arc::clone(&same.table);
            }
        }
        self
    }
}

fn by_name(policy: &AuthorizationPolicy) -> (&str, &str) {
    (&policy.namespace, &policy.name)
}

fn find<T>(sorted: &[T], order: impl FnMut(&T) -> Ordering) -> Option<&T> {
    sorted.binary_search_by(order).ok().and_then(|place| sorted.get(place))
}
