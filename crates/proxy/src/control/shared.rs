//! State that the tasks of the control thread share. The tasks run on one thread, so the state has no locks.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use leno_admin::logging::LogLevels;
use leno_config::{Configuration, Directory};
use leno_identity::TlsIdentity;
use leno_identity::upkeep::IdentityMetrics;
use leno_model::mesh::{Changes, Mesh};
use leno_relay::Door;
use leno_relay::limits::Limits;
use leno_relay::metrics::WorkerMetrics;
use leno_relay::trace::Outbox;
use tokio::sync::watch;

use super::tap::OpenTaps;
use crate::metrics::{ConfigMetrics, ProcessMetrics, Scrape};
use crate::worker::WorkerHandle;

/// The phase of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Workers accept calls.
    Serving,
    /// Calls in flight finish; new calls are not accepted.
    Draining,
}

/// The control thread's state.
pub(super) struct Shared {
    pub(super) phase: Cell<Phase>,
    /// Whether other workloads call the application through this proxy.
    pub(super) is_called: bool,
    pub(super) configuration: RefCell<Configuration>,
    pub(super) config_metrics: Cell<ConfigMetrics>,
    pub(super) log: LogLevels,
    pub(super) limits: Arc<Limits>,
    pub(super) workers: Vec<WorkerHandle>,
    /// The metrics of each worker.
    pub(super) worker_metrics: Vec<Arc<WorkerMetrics>>,
    /// `None` without an identity.
    pub(super) identity_metrics: Option<Rc<Cell<IdentityMetrics>>>,
    pub(super) taps: OpenTaps,
    /// Traced calls; `None` if calls are not traced.
    pub(super) traces: Option<Arc<Outbox>>,
    /// Whether taps may show the header fields of calls.
    pub(super) allows_tap_headers: bool,
    pub(super) started: SystemTime,
    /// Number of times that the supervisor has started a proxy again.
    pub(super) restarts: u64,
}

impl Shared {
    /// Whether the proxy still waits for its inbound policies.
    pub(super) fn lacks_policies(&self) -> bool {
        self.is_called && self.configuration.borrow().mesh.unanswered_inbound().is_some()
    }

    /// Reads the current values of all metrics.
    pub(super) fn scrape(&self) -> Scrape {
        let process = ProcessMetrics {
            restarts: self.restarts,
            memory_budget_bytes: Some(u64::from(self.limits.relay.memory_budget_kib) * 1_024),
            ..ProcessMetrics::read(self.started)
        };
        let identity = self.identity_metrics.as_ref().map(|metrics| metrics.get());
        let scrape = Scrape::new(&self.worker_metrics, self.config_metrics.get(), identity, process, Instant::now());
        scrape.with_traces(self.traces.clone())
    }

    /// The first address at which the proxy accepts connections that its own application opens.
    pub(super) fn outbound(&self) -> Option<SocketAddr> {
        let listening = self.workers.first()?.listening();
        listening.iter().find(|(door, _)| *door == Door::Outbound).map(|(_, address)| *address)
    }

    /// Reads the directory again. If its files have changed, gives the new mesh to the workers.
    pub(super) fn reload(&self, directory: &mut Directory) {
        if !directory.refresh() {
            return;
        }
        let configuration = directory.configuration();
        configuration.log(Some(&self.configuration.borrow()));
        self.config_metrics.set(self.config_metrics.get().after_read(configuration.problems.len(), SystemTime::now()));
        self.take(configuration);
    }

    /// Records that the control plane has answered.
    pub(super) fn note_answer(&self) {
        self.config_metrics.set(self.config_metrics.get().after_read(0, SystemTime::now()));
    }

    /// Gives the workers the mesh with these changes. Does nothing if there are no changes.
    pub(super) fn change_mesh(&self, mesh: Arc<Mesh>, changes: Changes) {
        if changes.is_empty() {
            return;
        }
        let changes = Arc::new(changes);
        for worker in &self.workers {
            worker.change_mesh(mesh.clone(), changes.clone());
        }
        self.configuration.replace(Configuration::of_mesh(mesh));
    }

    /// Records whether a stream to the control plane is open.
    pub(super) fn set_connected(&self, is_connected: bool) {
        self.config_metrics.set(self.config_metrics.get().with_connection(is_connected));
    }

    /// Records the number of names that the control plane refuses because of a limit.
    pub(super) fn set_refused_names(&self, names: usize) {
        self.config_metrics.set(self.config_metrics.get().with_refused_names(names));
    }

    fn take(&self, configuration: Configuration) {
        for worker in &self.workers {
            worker.set_mesh(configuration.mesh.clone());
        }
        self.configuration.replace(configuration);
    }
}

/// Gives the workers each new identity.
pub(super) async fn follow_identity(shared: Rc<Shared>, mut identity: watch::Receiver<Arc<TlsIdentity>>) {
    while identity.changed().await.is_ok() {
        let identity = identity.borrow_and_update().clone();
        for worker in &shared.workers {
            worker.set_identity(identity.clone());
        }
    }
}
