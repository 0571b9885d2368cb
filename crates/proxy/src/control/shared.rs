//! What the tasks of the control thread share. They are all on one thread, hence no locks.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::directory::{Configuration, Directory};
use super::logging::LogLevels;
use crate::limits::Limits;
use crate::metrics::{ConfigMetrics, ProcessMetrics, Scrape, WorkerMetrics};
use crate::worker::WorkerHandle;

/// Where the process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Workers take calls.
    Serving,
    /// Calls in flight finish; there are no new ones.
    Draining,
}

/// The control thread's state.
pub(super) struct Shared {
    pub(super) phase: Cell<Phase>,
    pub(super) configuration: RefCell<Configuration>,
    pub(super) config_metrics: Cell<ConfigMetrics>,
    pub(super) log: LogLevels,
    pub(super) limits: Arc<Limits>,
    pub(super) workers: Vec<WorkerHandle>,
    /// One for each worker.
    pub(super) worker_metrics: Vec<Arc<WorkerMetrics>>,
    pub(super) started: SystemTime,
}

impl Shared {
    /// Everything there is to export now.
    pub(super) fn scrape(&self) -> Scrape {
        let process = ProcessMetrics::read(self.started);
        Scrape::new(&self.worker_metrics, self.config_metrics.get(), process, Instant::now())
    }

    /// Reads the directory again, and if anything changed gives it to the workers.
    pub(super) fn reload(&self, directory: &mut Directory) {
        if !directory.refresh() {
            return;
        }
        let configuration = directory.configuration();
        log_configuration(&configuration, Some(&self.configuration.borrow()));
        self.config_metrics.set(self.config_metrics.get().after_read(configuration.problems.len(), SystemTime::now()));
        for worker in &self.workers {
            worker.set_mesh(configuration.mesh.clone());
        }
        self.configuration.replace(configuration);
    }
}

/// Says what was read: a line for each problem and notice that is news, and one for the whole.
pub(super) fn log_configuration(now: &Configuration, before: Option<&Configuration>) {
    for problem in &now.problems {
        if before.is_none_or(|before| !before.problems.contains(problem)) {
            tracing::error!("{problem}");
        }
    }
    for notice in &now.notices {
        if before.is_none_or(|before| !before.notices.contains(notice)) {
            tracing::info!("{notice}");
        }
    }
    let clusters = now.mesh.clusters();
    let endpoints: usize = clusters.iter().map(|cluster| cluster.endpoints.len()).sum();
    let problems = now.problems.len();
    tracing::info!(clusters = clusters.len(), endpoints, problems, "configuration read");
}
