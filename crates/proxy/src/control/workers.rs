//! Starts the worker threads.

use std::net::SocketAddr;
use std::sync::Arc;

use leno_identity::TlsIdentity;
use leno_model::discovery::Subject;
use leno_model::mesh::Mesh;
use leno_relay::access_log::{AccessLog, Format, Queries};
use leno_relay::limits::Limits;
use leno_relay::metrics::WorkerMetrics;
use leno_relay::spent_chains::SpentChains;
use leno_relay::trace::Tracing;
use leno_relay::{Door, Settings};
use tokio::sync::mpsc;

use super::ControlError;
use crate::access_log::{Destination, Writer};
use crate::args::Args;
use crate::worker::{Bound, SpawnError, Standing, WorkerConfig, WorkerHandle};

/// The common parameters of all workers.
pub(super) struct WorkerTemplate<'a> {
    pub(super) identity: Option<Arc<TlsIdentity>>,
    /// Channel for questions to the control plane about unknown subjects; `None` without a control plane.
    pub(super) discovery: Option<mpsc::Sender<Subject>>,
    pub(super) settings: Settings,
    pub(super) access_log: Option<&'a AccessLogOptions>,
    pub(super) tracing: Option<Tracing>,
    pub(super) limits: &'a Arc<Limits>,
    pub(super) mesh: &'a Arc<Mesh>,
}

impl WorkerTemplate<'_> {
    pub(super) fn spawn(
        &self,
        sockets: Vec<Vec<Bound>>,
        metrics: &[Arc<WorkerMetrics>],
    ) -> Result<Vec<WorkerHandle>, SpawnError> {
        let mut workers = Vec::with_capacity(metrics.len());
        let memory_budget_bytes = self.limits.relay.memory_budget_kib as usize * 1_024 / metrics.len().max(1);
        let standing = Arc::new(Standing::default());
        let spent_chains = Arc::new(SpentChains::default());
        let count = u32::try_from(metrics.len()).unwrap_or(u32::MAX);
        for (index, (metrics, listen)) in metrics.iter().zip(sockets).enumerate() {
            let config = WorkerConfig {
                index,
                workers: count,
                listen,
                identity: self.identity.clone(),
                standing: standing.clone(),
                discovery: self.discovery.clone(),
                settings: self.settings.clone(),
                access_log: self.access_log.map_or_else(AccessLog::off, |log| log.of_worker(metrics)),
                tracing: self.tracing.clone(),
                spent_chains: spent_chains.clone(),
                outlet: self.access_log.map(|log| log.writer.outlet()).unwrap_or_default(),
                limits: self.limits.clone(),
                memory_budget_bytes,
                metrics: metrics.clone(),
                seed: fastrand::u64(..),
            };
            workers.push(WorkerHandle::spawn(config, self.mesh.clone())?);
        }
        Ok(workers)
    }
}

/// The requested access log.
pub(super) struct AccessLogOptions {
    pub(super) writer: Writer,
    pub(super) format: Format,
    pub(super) queries: Queries,
}

impl AccessLogOptions {
    fn of_worker(&self, metrics: &Arc<WorkerMetrics>) -> AccessLog {
        AccessLog::on(self.format, self.queries, metrics.clone())
    }
}

pub(super) fn start_access_log(args: &Args) -> Result<Option<AccessLogOptions>, ControlError> {
    let Some(format) = args.access_log else { return Ok(None) };
    let destination = args.access_log_file.clone().map_or(Destination::Stdout, Destination::File);
    let writer = Writer::start(&destination).map_err(|source| match &args.access_log_file {
        Some(path) => ControlError::AccessLog { path: path.clone(), source },
        None => ControlError::Start(source),
    })?;
    let queries = if args.access_log_queries { Queries::Keep } else { Queries::Drop };
    Ok(Some(AccessLogOptions { writer, format, queries }))
}

/// Logs the proxy's addresses.
pub(super) fn log_serving(workers: &[WorkerHandle], admin: SocketAddr) {
    let at = |door: Door| {
        let listening = workers.first().map(WorkerHandle::listening).unwrap_or_default().iter();
        let addresses: Vec<String> =
            listening.filter(|(of, _)| *of == door).map(|(_, address)| address.to_string()).collect();
        (!addresses.is_empty()).then(|| addresses.join(","))
    };
    let [outbound, inbound, tunnel] = [Door::Outbound, Door::Inbound, Door::Tunnel].map(at);
    tracing::info!(outbound, inbound, tunnel, %admin, workers = workers.len(), "serving");
}
