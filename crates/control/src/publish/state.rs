//! What all streams share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use leno_model::mesh::Mesh;
use leno_model::spiffe::TrustDomain;

use super::accounts::Accounts;
use super::catalog::Catalog;
use super::clients::Clients;
use super::limits::Capacity;
use super::metrics::Metrics;
use super::subscribers::{ClientId, Subscribers};

/// What all streams share.
#[derive(Debug)]
pub(crate) struct State {
    catalog: RwLock<Arc<Catalog>>,
    clients_so_far: AtomicU64,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) subscribers: Subscribers,
    pub(crate) clients: Clients,
    pub(crate) metrics: Metrics,
}

impl State {
    pub(crate) fn new(mesh: Arc<Mesh>, trust_domain: TrustDomain, capacity: Capacity) -> Self {
        Self {
            catalog: RwLock::new(Arc::new(Catalog::new(mesh, trust_domain))),
            clients_so_far: AtomicU64::new(0),
            accounts: Accounts::new(capacity),
            subscribers: Subscribers::default(),
            clients: Clients::default(),
            metrics: Metrics::default(),
        }
    }

    /// The resources as they are now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes in the next mesh and tells whoever subscribed to what changed.
    pub(crate) fn set_mesh(&self, mesh: Arc<Mesh>) {
        let (next, changes) = self.catalog().next(mesh);
        // Replaced before it is announced: whoever hears of a change finds it.
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.metrics.mesh();
        self.subscribers.announce(&changes);
    }

    /// A number that no other stream has had.
    pub(crate) fn next_client(&self) -> ClientId {
        ClientId(self.clients_so_far.fetch_add(1, Ordering::Relaxed))
    }
}
