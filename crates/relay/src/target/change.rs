//! Change: applies a new mesh to a worker: to its clusters, its routes, and the calls that wait for an answer of the
//! control plane.
//!
//! A mesh that replaces another mesh as a whole is compared with all state of the worker. If a mesh comes with a list
//! of its changes, the cost depends only on this list, and not on the size of the mesh.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use leno_model::discovery::Subject;
use leno_model::mesh::{Changes, Cluster, ClusterKey, Mesh, canonical};
use rustc_hash::FxHashSet;

use crate::Relay;
use crate::call::retry::Failure;
use crate::certain::Certain;
use crate::pool::pools::PoolId;
use crate::target::cluster::{ClusterId, ClusterState, Standing, TargetKey};

impl Relay {
    /// Applies a new mesh. Clusters keep the state of the endpoints that remain. Calls in flight continue unless the
    /// new policies deny them.
    pub fn set_mesh(&mut self, mesh: &Arc<Mesh>) {
        self.targets.outdate();
        self.burst = true;
        let is_known = |state: &ClusterState| state.standing() == Standing::Known;
        let known: Vec<_> = self.targets.iter().filter(|(_, state)| is_known(state)).collect();
        let known: Vec<_> = known.into_iter().map(|(id, state)| (id, state.target.clone())).collect();
        let has_new_policies = !mesh.has_policies_of(self.targets.mesh());
        self.targets.replace_mesh(mesh);
        for (id, target) in known {
            match &target {
                TargetKey::Service(key) => match mesh.cluster(key) {
                    Some(cluster) => self.update_cluster(id, cluster.clone()),
                    None => self.lose_cluster(id, Standing::Removed),
                },
                TargetKey::Address(address) => self.change_addresses(std::iter::once(*address)),
                TargetKey::Local(_) => {}
            }
        }
        self.targets.renew_routes();
        if has_new_policies {
            self.review_calls();
        }
        self.take_answers();
    }

    /// Applies a mesh that differs from the former mesh only in `changes`.
    pub fn change_mesh(&mut self, mesh: &Arc<Mesh>, changes: &Changes) {
        self.burst |= !changes.forgotten.is_empty();
        if changes.policies {
            // Make every client look up its route again, because another policy may apply to its calls now.
            self.targets.outdate();
        }
        let before = self.targets.replace_mesh(mesh);
        let mut lost = FxHashSet::default();
        for address in changes.forgotten.iter().filter_map(address_of) {
            lost.extend(self.lose_target_of(&TargetKey::Address(address), Standing::Forgotten));
        }
        for key in &changes.clusters {
            lost.extend(self.change_cluster(key, changes.forgotten_clusters.contains(key)));
            let clusters = [&before, mesh].into_iter().filter_map(|mesh| mesh.cluster(key));
            let endpoints = clusters.flat_map(|cluster| cluster.all_endpoints());
            self.change_addresses(endpoints.map(|endpoint| canonical(endpoint.address)));
        }
        // The answer about an address names the cluster whose endpoint is at the address.
        self.change_addresses(changes.answered.iter().chain(&changes.changed_answers).filter_map(address_of));
        for key in &changes.routes {
            self.targets.renew_routes_to(&TargetKey::Service(key.clone()));
        }
        self.forget_latest_targets(&lost, &changes.changed_answers);
        if changes.policies {
            self.review_calls();
        }
        self.take_changed_answers(changes);
    }

    /// Updates a Service's cluster. Returns the cluster's id if the mesh no longer has the Service.
    fn change_cluster(&mut self, key: &ClusterKey, is_forgotten: bool) -> Option<ClusterId> {
        let target = TargetKey::Service(key.clone());
        if let Some(cluster) = self.targets.mesh().cluster(key).cloned() {
            let id = self.targets.find(&target)?;
            self.update_cluster(id, cluster);
            return None;
        }
        let standing = if is_forgotten { Standing::Forgotten } else { Standing::Removed };
        self.lose_target_of(&target, standing)
    }

    /// Updates the clusters of those `addresses` that our application calls directly ([`TargetKey::Address`]). The
    /// addresses must be canonical.
    ///
    /// Skips an address without a complete answer. The new answer may name a cluster whose endpoints have not arrived
    /// yet. An update would replace the endpoint by an endpoint without a proxy, and the calls that wait for a
    /// connection would go in clear. When the answer is complete, [`Changes::answered`] has the address.
    fn change_addresses(&mut self, addresses: impl Iterator<Item = SocketAddr>) {
        for address in addresses {
            if self.targets.mesh().unanswered_address(address).is_some() {
                continue;
            }
            if let Some(id) = self.targets.find(&TargetKey::Address(address)) {
                let cluster = self.cluster_of_address(self.targets.mesh(), address);
                self.update_cluster(id, cluster);
            }
        }
    }

    fn update_cluster(&mut self, id: ClusterId, cluster: Arc<Cluster>) {
        let now = self.now;
        let gone = self.targets.get_mut(id).map(|state| state.update(now, cluster));
        self.pools_gone(gone.unwrap_or_default());
    }

    /// Hides a target's cluster from new calls. Returns the cluster's id, if the target has a cluster.
    fn lose_target_of(&mut self, target: &TargetKey, standing: Standing) -> Option<ClusterId> {
        let id = self.targets.find(target)?;
        self.lose_cluster(id, standing);
        Some(id)
    }

    /// Hides a cluster that the mesh no longer has from new calls. Drops the cluster's state when its last call has
    /// ended.
    fn lose_cluster(&mut self, id: ClusterId, standing: Standing) {
        let Some(state) = self.targets.get_mut(id).certain() else { return };
        let pools = state.lose(self.now, standing);
        self.targets.hide(id);
        self.pools_gone(pools);
        self.drop_cluster_if_unused(id);
    }

    /// Handles the removal of endpoints; `pools` are their pools. Calls in flight at these endpoints finish. Calls that
    /// wait for a connection to them are sent to other endpoints.
    pub(crate) fn pools_gone(&mut self, pools: Vec<PoolId>) {
        for pool in pools {
            self.pool_gone(pool);
        }
    }

    fn pool_gone(&mut self, id: PoolId) {
        let Some(mut pool) = self.pools.remove(id) else { return };
        for connection in pool.connections().iter() {
            match self.pools.upstream_mut(connection) {
                Some(upstream) if upstream.ready => upstream.retired = true,
                _ => self.close_upstream(connection, "its endpoint has left"),
            }
        }
        for id in pool.take_waiting() {
            self.attempt_failed(id, &Failure::NotSent);
        }
    }

    pub(crate) fn call_left_cluster(&mut self, id: ClusterId) {
        let Some(cluster) = self.targets.get_mut(id).certain() else { return };
        cluster.call_left();
        if cluster.standing() != Standing::Known {
            self.drop_cluster_if_unused(id);
        }
    }

    fn drop_cluster_if_unused(&mut self, id: ClusterId) {
        let is_over = |state: &ClusterState| state.standing() != Standing::Known && state.calls() == 0;
        if !self.targets.get(id).is_some_and(is_over) {
            return;
        }
        let pools = self.targets.get_mut(id).map(|state| state.clear(self.now));
        self.pools_gone(pools.unwrap_or_default());
        self.targets.remove(id);
    }

    /// Makes clients look up their routes again after `clusters` and `answers` have changed. This applies to each
    /// client whose route leads to one of `clusters`, or depends on one of `answers`.
    pub(crate) fn forget_latest_targets(&mut self, clusters: &FxHashSet<ClusterId>, answers: &BTreeSet<Subject>) {
        if clusters.is_empty() && answers.is_empty() {
            return;
        }
        let mesh = self.targets.mesh().clone();
        for client in self.downstreams.iter_mut() {
            let Some(latest) = &client.latest_target else { continue };
            let has_changed = || client.subject(&mesh).is_some_and(|subject| answers.contains(&subject));
            if clusters.contains(&latest.cluster) || (!answers.is_empty() && has_changed()) {
                client.latest_target = None;
            }
        }
    }

    /// Continues the calls whose answer from the control plane has arrived.
    fn take_changed_answers(&mut self, changes: &Changes) {
        let mut calls = Vec::new();
        for subject in &changes.answered {
            if let Some(question) = self.questions.take(subject) {
                calls.extend(question.calls);
            }
        }
        for id in calls {
            self.enter(id);
        }
    }
}

fn address_of(subject: &Subject) -> Option<SocketAddr> {
    match subject {
        Subject::Address(address) => Some(*address),
        Subject::Service(_) | Subject::Inbound => None,
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
