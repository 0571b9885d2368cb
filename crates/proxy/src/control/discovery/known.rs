//! The control plane's answers about one xDS cluster, and the references to the cluster. The proxy keeps a cluster as
//! long as a [`Subject`] or a route leads to it. A `Subject` that leads to a cluster is a destination of outbound
//! calls, about which a worker has asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use leno_model::discovery::Subject;
use leno_model::mesh::{Cluster, ClusterKey};
use leno_model::route::RouteTable;
use leno_xds::endpoints::Endpoints;

/// A cluster to which subjects or routes lead.
#[derive(Debug, Default)]
pub(super) struct KnownCluster {
    /// The subjects whose calls are balanced over the cluster, and therefore follow its routes.
    pub(super) balanced: BTreeSet<Subject>,
    /// The subjects that lead to a single endpoint of the cluster.
    pub(super) dialled: BTreeSet<Subject>,
    /// The clusters whose routes lead to this cluster.
    pub(super) parents: BTreeSet<ClusterKey>,
    /// Outer `None`: the control plane has not answered yet. Inner `None`: the cluster does not exist.
    pub(super) cluster: Option<Option<Cluster>>,
    /// Outer `None`: the control plane has not answered yet. Inner `None`: the control plane has no endpoints for the
    /// cluster.
    pub(super) endpoints: Option<Option<Endpoints>>,
    pub(super) routes: Routes,
    /// Whether the mesh has dropped the cluster, which the control plane has removed, although routes in force still
    /// lead to it ([`Knowledge::drop_overdue`]).
    ///
    /// [`Knowledge::drop_overdue`]: super::knowledge::Knowledge::drop_overdue
    pub(super) is_overdue: bool,
}

/// The control plane's answers about a cluster's routes.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// The routes in force. Inner `None`: the cluster has no routes.
    pub(super) current: Option<Option<Arc<RouteTable>>>,
    /// Newer routes, not in force yet, because the control plane has not answered about some of their backends.
    pub(super) next: Option<Arc<RouteTable>>,
}

impl KnownCluster {
    /// Whether no subject and no route leads to the cluster any more. We unsubscribe from such a cluster. Since we then
    /// get no more updates of the cluster, we forget it.
    pub(super) fn is_unwanted(&self) -> bool {
        self.balanced.is_empty() && self.dialled.is_empty() && self.parents.is_empty()
    }

    /// Returns the subjects that lead to the cluster.
    pub(super) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.balanced.iter().chain(&self.dialled)
    }

    /// Whether the cluster's endpoints are known, or the cluster is known not to exist.
    pub(super) fn is_known(&self) -> bool {
        match &self.cluster {
            None => false,
            Some(None) => true,
            Some(Some(_)) => self.endpoints.is_some(),
        }
    }

    /// Whether the control plane has removed the cluster, or its endpoints: both are removed together.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.cluster, Some(None)) || matches!(self.endpoints, Some(None))
    }

    /// Whether the cluster's routes are known, or the cluster is known to have no routes.
    pub(super) fn has_routes(&self) -> bool {
        self.routes.current.is_some()
    }

    /// The cluster with its known endpoints; `None` if the cluster is unknown or does not exist.
    pub(super) fn joined(&self) -> Option<Arc<Cluster>> {
        let mut cluster = self.cluster.clone()??;
        if let Some(Some(known)) = &self.endpoints {
            cluster.endpoints = known.ready.clone();
            cluster.unready_endpoints = known.unready.clone();
        }
        Some(Arc::new(cluster))
    }
}

impl Routes {
    /// Whether the current routes lead to the cluster `key`, and newer routes wait to replace them.
    pub(super) fn is_waiting_with(&self, key: &ClusterKey) -> bool {
        let mut current = self.current.iter().flatten().filter(|_| self.next.is_some());
        current.any(|table| table.destinations().any(|destination| destination == key))
    }

    /// Returns every cluster to which the current or next routes lead.
    pub(super) fn destinations(&self) -> BTreeSet<ClusterKey> {
        let tables = self.current.iter().flatten().chain(&self.next);
        tables.flat_map(|table| table.destinations()).cloned().collect()
    }
}
