//! The control thread: configuration, the admin endpoint, signals. It never handles a call.

mod certify;
mod connect;
mod discovery;
mod explain;
#[cfg(test)]
mod fixtures;
mod pages;
mod retry;
mod shared;
mod source;
mod tap;
mod tcp_probes;
mod traces;
mod workers;

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leno_admin::logging;
use leno_identity::issuer::LocalIssuer;
use leno_identity::upkeep::{Upkeep, UpkeepError};
use leno_model::protocol::PortRanges;
use leno_model::spiffe::Workload;
use leno_relay::limits::Limits;
use leno_relay::metrics::WorkerMetrics;
use leno_relay::{Door, Settings};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use crate::args::Args;
use crate::identity_args::IssuerPlace;
use crate::metrics::ConfigMetrics;
use crate::runtime;
use crate::supervise::{self, Handover, HandoverError, REFUSE_AFTER};
use crate::worker::{BindError, SpawnError, WorkerHandle, bind_workers};
pub(crate) use certify::IdentityService;
use connect::{ControlPlane, Security};
use discovery::{Discovery, QUESTIONS_MAX};
use shared::{Phase, Shared};
use source::Source;
use tap::OpenTaps;
use tcp_probes::TcpProbes;
use traces::Exporter;
use workers::{WorkerTemplate, log_serving, start_access_log};

/// Interval between checks whether worker threads have ended unexpectedly.
const WORKER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between checks whether worker threads have ended, while they drain.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Longest time to write the last lines of the access log.
const ACCESS_LOG_PATIENCE: Duration = Duration::from_secs(1);
/// Time to export the last spans.
const TRACES_PATIENCE: Duration = Duration::from_secs(1);
/// Time for workers to close the remaining connections after the grace period.
const DRAIN_SLACK: Duration = Duration::from_millis(500);

/// Why the proxy failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error("--config {}: {source}; name a directory of Kubernetes manifests", path.display())]
    Config { path: PathBuf, source: io::Error },
    #[error("--config {}: it cannot be watched: {source}; raise fs.inotify.max_user_instances", path.display())]
    Watch { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Listen(#[from] BindError),
    #[error("--supervised: {0}; only `leno-proxy supervise` may add this option")]
    Handover(#[from] HandoverError),
    #[error("--{option} {address}: {source}; choose an address of this machine that is free")]
    Pages { option: &'static str, address: SocketAddr, source: io::Error },
    #[error("--issuer {}: {source}", path.display())]
    Identity { path: PathBuf, source: Box<UpkeepError> },
    #[error("--access-log-file {}: {source}; name a file that can be written", path.display())]
    AccessLog { path: PathBuf, source: io::Error },
    #[error(
        "--trace-collector names a Service, and this proxy has no --outbound address to call it through; give the \
         collector's IP address"
    )]
    Collector,
    #[error("the control thread could not start: {0}")]
    Start(#[from] io::Error),
    #[error("the log could not start: {0}")]
    Log(#[from] logging::StartError),
    #[error("a worker thread ended, so calls would fail; the log says why")]
    WorkerEnded,
    #[error("a second signal came: calls in flight were cut")]
    SecondSignal,
}

/// Runs the proxy until a signal ends it.
pub(crate) fn run(args: Args, limits: Limits) -> Result<(), ControlError> {
    runtime::run(start(args, limits))
}

/// Starts the proxy. To find mistakes early, first opens files, then binds addresses, and then starts threads.
async fn start(args: Args, limits: Limits) -> Result<(), ControlError> {
    let started = SystemTime::now();
    let Handover { sockets, restarts } = if args.supervised { supervise::take_over()? } else { Handover::default() };
    let (doors, own) = (args.listen(), args.identity.place());
    let is_called = doors.iter().any(|(door, _)| matches!(door, Door::Inbound | Door::Tunnel));
    let access_log = start_access_log(&args)?;
    let traces = Exporter::new(args.traces, own.as_ref().map(|(workload, _)| workload));
    let calls_collector_by_name = traces.as_ref().is_some_and(Exporter::needs_outbound);
    if calls_collector_by_name && !doors.iter().any(|(door, _)| *door == Door::Outbound) {
        return Err(ControlError::Collector);
    }
    let log = logging::start(args.log, args.log_format)?;
    let mut signals = Signals::new()?;
    let mut limits = limits;
    if let Some(files) = raise_open_files_limit() {
        limits.fit_open_files(files, args.workers);
    }
    let limits = Arc::new(limits.within_memory(leno_accept::container_memory(), args.workers.into()));

    let namespace = own.as_ref().map_or_else(|| "default".into(), |(workload, _)| workload.namespace.clone());
    let directory = args.config.as_deref().map(Source::open).transpose()?;
    let admin = listen("admin", args.admin)?;
    let tap = args.tap.map(|address| listen("tap", address)).transpose()?;
    let tap_port = tap.as_ref().map(TcpListener::local_addr).transpose()?.map(|address| address.port());
    let admin_address = admin.local_addr()?;
    // Empty until the proxy can serve. While it is empty, the admin pages report what the proxy waits for.
    let serving: Rc<OnceCell<Rc<Shared>>> = Rc::default();
    let asked = serving.clone();
    let tcp_probes = TcpProbes::new(args.tcp_probes);
    spawn_local(leno_admin::serve(admin, async move |request| {
        // These pages need no certificate. If they did, the kubelet would restart a healthy application while its proxy
        // waits for a certificate after a crash.
        if let Some(answer) = tcp_probes.answer(&request).await {
            return answer;
        }
        match asked.get() {
            Some(shared) => pages::answer(request, shared).await,
            None => pages::answer_early(&request),
        }
    }));
    if let Some(tap) = tap {
        let asked = serving.clone();
        spawn_local(leno_admin::serve_behind_proxy("tap", tap, async move |request| match asked.get() {
            Some(shared) => pages::answer_tap_port(request, shared).await,
            None => pages::answer_early(&request),
        }));
    }
    let identity = tokio::select! {
        identity = start_own_identity(own) => identity?,
        never = supervise::refuse_connections_after(REFUSE_AFTER, &sockets) => match never {},
        signal = signals.next() => {
            tracing::info!(signal, "ended before it served");
            return Ok(());
        }
    };
    let (source, questions) = match directory {
        Some(directory) => (directory, None),
        None => {
            let (questions, asked) = mpsc::channel(QUESTIONS_MAX);
            let control_plane = ControlPlane {
                address: args.control.unwrap_or_default(),
                workload: args.identity.control_identity,
                security: identity.as_ref().map_or(Security::Clear, |own| Security::Mutual(own.identity())),
            };
            let discovery =
                Discovery::new(control_plane, &namespace, is_called, asked, args.cluster_networks, &limits.relay);
            (Source::ControlPlane(Box::new(discovery)), Some(questions))
        }
    };
    let configuration = source.configuration();
    let mut config_metrics = ConfigMetrics::default().after_read(configuration.problems.len(), started);
    if questions.is_some() {
        config_metrics = config_metrics.with_connection(false);
    }
    // Accept only HTTP at the tap port: the proxy writes the caller's identity into each HTTP request. In bytes that
    // the proxy does not parse, a caller could claim the identity of another caller, and the log would show that
    // identity.
    let http_ports = args.http_ports.unwrap_or_default();
    let worker_metrics: Vec<_> = (0..args.workers).map(|_| WorkerMetrics::new()).collect();
    let template = WorkerTemplate {
        identity: identity.as_ref().map(|identity| identity.identity().borrow().clone()),
        discovery: questions,
        settings: Settings {
            default_policy: args.default_inbound_policy,
            opaque_ports: args.opaque_ports.unwrap_or_default(),
            http_ports: tap_port.into_iter().fold(http_ports, PortRanges::with),
            forwarded_client_cert: args.forwarded_client_cert,
            forwarded_for: args.forwarded_for,
            tap_port,
            probes: args.probes.into_iter().collect(),
        },
        access_log: access_log.as_ref(),
        tracing: traces.as_ref().map(|traces| traces.tracing().clone()),
        limits: &limits,
        mesh: &configuration.mesh,
    };
    let sockets = if args.supervised { sockets } else { bind_workers(&doors, args.workers.into())? };
    let workers = template.spawn(sockets, &worker_metrics).map_err(|error| match error {
        SpawnError::Listen(error) => ControlError::Listen(error),
        SpawnError::System(error) => ControlError::Start(error),
    })?;
    log_serving(&workers, admin_address);

    let shared = Rc::new(Shared {
        phase: Cell::new(Phase::Serving),
        is_called,
        configuration: RefCell::new(configuration),
        config_metrics: Cell::new(config_metrics),
        log,
        limits,
        workers,
        worker_metrics,
        identity_metrics: identity.as_ref().map(Upkeep::metrics),
        taps: OpenTaps::default(),
        traces: traces.as_ref().map(|traces| traces.tracing().outbox.clone()),
        allows_tap_headers: args.tap_headers,
        started,
        restarts,
    });
    let _ = serving.set(shared.clone());
    let (end_of_calls, no_more_calls) = oneshot::channel();
    let exporting = traces.map(|traces| spawn_local(traces.run(shared.outbound(), no_more_calls)));
    if let Some(identity) = identity {
        spawn_local(shared::follow_identity(shared.clone(), identity.identity()));
        spawn_local(identity.run());
    }
    let ended = run_until_signal(&shared, signals, source, args.grace).await;
    if let Some(access_log) = access_log {
        access_log.writer.finish(ACCESS_LOG_PATIENCE);
    }
    drop(end_of_calls);
    // Do not wait for a collector that is a Service: only the workers can reach it, and they have ended.
    if let Some(exporting) = exporting.filter(|_| ended.is_ok() && !calls_collector_by_name) {
        // Spans that the collector does not accept within this time are lost.
        let _ = timeout(TRACES_PATIENCE, exporting).await;
    }
    ended
}

async fn run_until_signal(
    shared: &Shared,
    mut signals: Signals,
    source: Source,
    grace: Duration,
) -> Result<(), ControlError> {
    let mut following = pin!(source.run(shared));
    tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, grace_s = grace.as_secs_f64(), "draining; a second signal ends at once");
        }
        error = &mut following => return Err(error.into()),
        () = end_of_a_worker(shared) => return Err(ControlError::WorkerEnded),
    }
    // Keep following the source while draining: accepted calls may still need an answer of the control plane, or a new
    // endpoint.
    let mut draining = pin!(drain(shared, signals, grace));
    tokio::select! {
        ended = &mut draining => ended,
        error = following => {
            tracing::warn!("{}", ControlError::from(error));
            draining.await
        }
    }
}

async fn end_of_a_worker(shared: &Shared) {
    while !shared.workers.iter().any(WorkerHandle::is_finished) {
        sleep(WORKER_CHECK_INTERVAL).await;
    }
}

/// Lets calls in flight finish, for at most `grace`.
async fn drain(shared: &Shared, mut signals: Signals, grace: Duration) -> Result<(), ControlError> {
    shared.phase.set(Phase::Draining);
    for worker in &shared.workers {
        worker.drain(grace);
    }
    let finished = async {
        while !shared.workers.iter().all(WorkerHandle::is_finished) {
            sleep(DRAIN_CHECK_INTERVAL).await;
        }
    };
    tokio::select! {
        drained = timeout(grace + DRAIN_SLACK, finished) => {
            match drained {
                Ok(()) => tracing::info!("drained"),
                Err(_) => tracing::warn!("the grace period is over: calls in flight are cut"),
            }
            Ok(())
        }
        _ = signals.next() => Err(ControlError::SecondSignal),
    }
}

/// The signals that end the proxy.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal; returns its name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Raises the limit of open files to the maximum: the usual 1,024 are too few for a proxy. Returns the new limit;
/// `None` if the number is unlimited.
pub(crate) fn raise_open_files_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    getrlimit(Resource::Nofile).current
}

/// Listens on the address of `--admin` or `--tap`.
fn listen(option: &'static str, address: SocketAddr) -> Result<TcpListener, ControlError> {
    leno_accept::listen(address).map_err(|source| ControlError::Pages { option, address, source })
}

async fn start_own_identity(own: Option<(Workload, IssuerPlace)>) -> Result<Option<Upkeep>, ControlError> {
    let Some((workload, place)) = own else { return Ok(None) };
    let path = place.path();
    let started = start_identity(workload, place).await;
    started.map(Some).map_err(|source| ControlError::Identity { path, source: Box::new(source) })
}

/// Obtains the first certificate, from an authority on this machine or from the control plane. Repeats requests to the
/// control plane until one succeeds.
///
/// # Errors
/// [`UpkeepError`] of an authority on this machine.
pub(crate) async fn start_identity(workload: Workload, place: IssuerPlace) -> Result<Upkeep, UpkeepError> {
    match place {
        IssuerPlace::Service(service) => Ok(certify::start(&service, &workload).await),
        IssuerPlace::Directory { path, lifetime } => {
            let issuer = LocalIssuer::open(&path)?.with_lifetime(lifetime);
            Upkeep::start(Box::new(issuer), workload, fastrand::u64(..)).await
        }
    }
}
