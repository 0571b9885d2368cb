//! State shared by all streams.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use leno_model::authority::CLUSTER_DOMAIN;
use leno_model::mesh::Mesh;
use leno_model::spiffe::TrustDomain;

use super::accounts::Accounts;
use super::catalog::Catalog;
use super::clients::Clients;
use super::limits::{Capacity, REFUSED_WARNING_PAUSE};
use super::metrics::Metrics;
use super::subscribers::{ClientId, Subscribers};

#[derive(Debug)]
pub(crate) struct State {
    catalog: RwLock<Arc<Catalog>>,
    clients_so_far: AtomicU64,
    /// The cluster's DNS domain.
    pub(crate) cluster_domain: Arc<str>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) subscribers: Subscribers,
    pub(crate) clients: Clients,
    pub(crate) metrics: Arc<Metrics>,
    refused_names_warnings: Mutex<Warnings>,
    displaced_warnings: Mutex<Warnings>,
}

/// Limits warnings that clients can cause to one per [`REFUSED_WARNING_PAUSE`], so that clients cannot flood the log.
#[derive(Debug, Default)]
struct Warnings {
    last: Option<Instant>,
    /// Number of events since the last warning.
    events: u64,
}

impl Warnings {
    /// Counts an event. Returns the number of events since the last warning if a warning may be logged now.
    fn event(&mut self, now: Instant) -> Option<u64> {
        self.events += 1;
        let may_warn = self.last.is_none_or(|at| now.saturating_duration_since(at) >= REFUSED_WARNING_PAUSE);
        if !may_warn {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.events))
    }
}

impl State {
    /// Creates the state. The catalog keeps at most `kept_max_bytes` of encoded resources.
    pub(crate) fn new(mesh: Arc<Mesh>, trust_domain: TrustDomain, capacity: Capacity, kept_max_bytes: usize) -> Self {
        let metrics = Arc::<Metrics>::default();
        let catalog = Catalog::new(mesh, trust_domain, kept_max_bytes, metrics.clone());
        Self {
            catalog: RwLock::new(Arc::new(catalog)),
            clients_so_far: AtomicU64::new(0),
            cluster_domain: CLUSTER_DOMAIN.into(),
            accounts: Accounts::new(capacity),
            subscribers: Subscribers::default(),
            clients: Clients::default(),
            metrics,
            refused_names_warnings: Mutex::default(),
            displaced_warnings: Mutex::default(),
        }
    }

    /// Sets the DNS domain of the cluster.
    pub(crate) fn in_cluster(self, domain: &str) -> Self {
        Self { cluster_domain: domain.into(), ..self }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the mesh and notifies the clients that subscribe to a changed subject.
    pub(crate) fn set_mesh(&self, mesh: Arc<Mesh>) {
        let (next, changes) = self.catalog().next(mesh);
        // Replace the catalog before the announcement, so that a notified client finds the change.
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.metrics.mesh();
        self.subscribers.announce(&changes);
    }

    /// Whether a warning about refused names may be logged at `now`.
    pub(crate) fn may_warn_of_refused_names(&self, now: Instant) -> bool {
        self.refused_names_warnings.lock().unwrap_or_else(PoisonError::into_inner).event(now).is_some()
    }

    /// Counts a displaced stream. Returns the number of displaced streams since the last warning about them if a warning
    /// may be logged at `now`.
    pub(crate) fn displaced_to_warn_of(&self, now: Instant) -> Option<u64> {
        self.displaced_warnings.lock().unwrap_or_else(PoisonError::into_inner).event(now)
    }

    /// Returns the id for a new stream, which no other stream of this process has had.
    pub(crate) fn next_client(&self) -> ClientId {
        ClientId(self.clients_so_far.fetch_add(1, Ordering::Relaxed))
    }
}
