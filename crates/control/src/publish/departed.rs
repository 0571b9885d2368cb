//! The clusters that the mesh has lost lately.
//!
//! State-of-the-world xDS removes a cluster by leaving it out of a complete list. A list that adds another cluster must
//! go out before the routes that name the new cluster. It repeats the removed cluster, because the client may still
//! have routes that name the removed cluster.

use std::sync::Arc;

use leno_model::mesh::{Cluster, ClusterKey, Mesh};
use leno_xds::Kind;

use super::changes::Changes;
use super::subject::Subject;

/// Limits on the clusters that are kept, and on their endpoints in total. Above a limit, the clusters that were removed
/// first are dropped.
const CLUSTERS_MAX: usize = 256;
const ENDPOINTS_MAX: usize = 5_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Departed {
    /// As they were before their removal, in the order of their removal.
    clusters: Vec<Arc<Cluster>>,
}

impl Departed {
    /// Returns the departed clusters after the mesh has changed from `old` to `new`.
    pub(super) fn next(&self, changes: &Changes, old: &Mesh, new: &Mesh) -> Self {
        let changed = changes.of(Kind::Cluster).iter();
        let keys = changed.filter_map(|subject| if let Subject::Cluster(key) = subject { Some(key) } else { None });
        let lost = keys.filter_map(|key| old.cluster(key).cloned());
        let known = self.clusters.iter().cloned().chain(lost);
        let mut clusters: Vec<Arc<Cluster>> = known.filter(|cluster| new.cluster(&cluster.key).is_none()).collect();
        let mut endpoints = 0;
        let fits = |cluster: &&Arc<Cluster>| {
            endpoints += cluster.all_endpoints().count();
            endpoints <= ENDPOINTS_MAX
        };
        let kept = clusters.iter().rev().take(CLUSTERS_MAX).take_while(fits).count();
        clusters.drain(..clusters.len() - kept);
        Self { clusters }
    }

    pub(super) fn find(&self, key: &ClusterKey) -> Option<&Cluster> {
        self.clusters.iter().find(|cluster| cluster.key == *key).map(Arc::as_ref)
    }
}

#[cfg(test)]
#[path = "departed_tests.rs"]
mod tests;
