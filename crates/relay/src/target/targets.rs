//! The targets of a worker's calls: the mesh, our own identity in it, and the state of each cluster that has received
//! calls.

use std::sync::Arc;

use leno_model::mesh::{ClusterKey, EndpointProxy, Mesh};
use leno_model::route::RouteTable;
use leno_model::spiffe::SpiffeId;
use rustc_hash::FxHashMap;

use crate::slots::Slots;
use crate::target::cluster::{ClusterId, ClusterState, TargetKey};
use crate::target::routes::Routes;

/// Invariants:
///
/// - `by_key` has only ids of clusters that exist, each under its target.
/// - `local` is the number of clusters whose target is [`TargetKey::Local`].
#[derive(Debug)]
pub(crate) struct Targets {
    mesh: Arc<Mesh>,
    version: u64,
    own: Option<SpiffeId>,
    clusters: Slots<ClusterState>,
    by_key: FxHashMap<TargetKey, ClusterId>,
    local: usize,
}

/// The mesh, and our own identity in it.
impl Targets {
    pub(crate) fn new(mesh: Arc<Mesh>, own: Option<SpiffeId>) -> Self {
        Self { mesh, version: 0, own, clusters: Slots::default(), by_key: FxHashMap::default(), local: 0 }
    }

    #[inline]
    pub(crate) fn mesh(&self) -> &Arc<Mesh> {
        &self.mesh
    }

    /// Replaces the mesh, and returns the former mesh. The caller updates the clusters.
    pub(crate) fn replace_mesh(&mut self, mesh: &Arc<Mesh>) -> Arc<Mesh> {
        std::mem::replace(&mut self.mesh, mesh.clone())
    }

    /// Returns the version of all lookups. It increases each time that all clients must look up the targets of their
    /// calls again.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Makes all clients look up the targets of their calls again.
    pub(crate) fn outdate(&mut self) {
        self.version += 1;
    }

    /// Returns our own identity; `None` without mutual TLS.
    pub(crate) fn own(&self) -> Option<&SpiffeId> {
        self.own.as_ref()
    }

    pub(crate) fn set_own(&mut self, own: &SpiffeId) {
        self.own = Some(own.clone());
        self.renew_routes();
    }

    /// Returns the namespace of our own application.
    pub(crate) fn namespace(&self) -> &str {
        match &self.own {
            Some(own) => &own.workload.namespace,
            None => self.mesh.default_namespace(),
        }
    }

    /// Returns the identity that a proxy must prove. The proxy is in the trust domain of our own identity, so this
    /// returns `None` if we have no identity.
    pub(crate) fn id_of(&self, proxy: &EndpointProxy) -> Option<SpiffeId> {
        let trust_domain = self.own.as_ref()?.trust_domain.clone();
        Some(SpiffeId { trust_domain, workload: proxy.identity.clone() })
    }
}

/// Clusters.
impl Targets {
    #[inline]
    pub(crate) fn get(&self, id: impl Into<Option<ClusterId>>) -> Option<&ClusterState> {
        self.clusters.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: impl Into<Option<ClusterId>>) -> Option<&mut ClusterState> {
        self.clusters.get_mut(id)
    }

    /// Returns the cluster of a target, unless it is hidden.
    pub(crate) fn find(&self, target: &TargetKey) -> Option<ClusterId> {
        self.by_key.get(target).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClusterId, &ClusterState)> {
        self.clusters.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (ClusterId, &mut ClusterState)> {
        self.clusters.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.clusters.len()
    }

    /// Returns the number of clusters that stand for ports of our application. Callers choose these ports, so the
    /// number is limited.
    pub(crate) fn local(&self) -> usize {
        self.local
    }

    /// Adds the state of a target, and attaches its routes.
    pub(crate) fn insert(&mut self, mut state: ClusterState) -> ClusterId {
        let target = state.target.clone();
        self.local += usize::from(matches!(target, TargetKey::Local(_)));
        state.routes = self.routes_to(&target);
        let id = self.clusters.insert(state);
        self.by_key.insert(target, id);
        id
    }

    /// Hides a cluster from new calls to its target.
    pub(crate) fn hide(&mut self, id: ClusterId) {
        let Some(state) = self.clusters.get(id) else { return };
        // Do not remove the entry of a newer cluster of the same target.
        if self.by_key.get(&state.target) == Some(&id) {
            self.by_key.remove(&state.target);
        }
    }

    pub(crate) fn remove(&mut self, id: ClusterId) -> Option<ClusterState> {
        self.hide(id);
        let state = self.clusters.remove(id)?;
        self.local -= usize::from(matches!(state.target, TargetKey::Local(_)));
        Some(state)
    }
}

/// Routes.
impl Targets {
    /// Attaches the current routes to the cluster of a target.
    pub(crate) fn renew_routes_to(&mut self, target: &TargetKey) {
        if let Some(id) = self.find(target) {
            self.renew_routes_of(id);
        }
    }

    /// Attaches the current routes to all clusters, after a change of the mesh or of our identity.
    pub(crate) fn renew_routes(&mut self) {
        for id in self.clusters.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.renew_routes_of(id);
        }
    }

    fn renew_routes_of(&mut self, id: ClusterId) {
        let routes = self.clusters.get(id).and_then(|state| self.routes_to(&state.target));
        if let Some(state) = self.clusters.get_mut(id) {
            state.routes = routes;
        }
    }

    /// Returns the routes for our own application's calls to a target.
    fn routes_to(&self, target: &TargetKey) -> Option<Box<Routes>> {
        let (key, table) = self.route_table(target)?;
        Some(Box::new(Routes::new(key.clone(), table.clone())))
    }

    /// Returns the rules for our own application's calls to a target, and the Service's port that has them.
    pub(crate) fn route_table<'a>(&'a self, target: &'a TargetKey) -> Option<(&'a ClusterKey, &'a Arc<RouteTable>)> {
        let TargetKey::Service(key) = target else { return None };
        Some((key, self.mesh.routes(key, self.namespace())?))
    }
}

#[cfg(test)]
#[path = "targets_tests.rs"]
mod tests;
