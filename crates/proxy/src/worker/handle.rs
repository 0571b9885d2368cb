//! Handle: the control thread's handle of a worker thread. Commands go over a channel, and wake the worker's poll.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use leno_identity::TlsIdentity;
use leno_model::discovery::Subject;
use leno_model::explain::{BadQuestion, CallQuestion};
use leno_model::mesh::{Changes, Mesh};
use leno_relay::access_log::AccessLog;
use leno_relay::explain::answer::CallAnswer;
use leno_relay::limits::{Limits, ms};
use leno_relay::metrics::WorkerMetrics;
use leno_relay::spent_chains::SpentChains;
use leno_relay::tap::Tap;
use leno_relay::trace::Tracing;
use leno_relay::{ClusterExplanation, Config, Door, OpenCalls, Relay, Settings, Usage};
use mio::{Poll, Token, Waker};
use tokio::sync::mpsc as tokio_mpsc;
use tokio::sync::oneshot;

use super::accept::Arrival;
use super::listen::{BindError, Bound, Listener};
use super::places::Doors;
use super::standing::Standing;
use super::wire::Buffers;
use super::{FIRST_LISTENER, READ_BYTES, WAKER, Worker, memory};
use crate::access_log::Outlet;

/// Stack size of a worker thread. The event loop does not recurse.
const STACK_BYTES: usize = 256 * 1024;

/// The configuration of a worker.
pub struct WorkerConfig {
    /// Number of this worker, from 0.
    pub index: usize,
    /// Number of workers of the process, at least 1.
    pub workers: u32,
    /// The bound sockets of this worker, from [`super::bind_workers`].
    pub listen: Vec<Bound>,
    /// The proxy's identity; `None` without mutual TLS.
    pub identity: Option<Arc<TlsIdentity>>,
    /// Channel for the worker's questions to the control plane. `None` without a control plane: the mesh is then
    /// complete from the start.
    pub discovery: Option<tokio_mpsc::Sender<Subject>>,
    /// The best certificates that peers have shown, shared by all workers.
    pub standing: Arc<Standing>,
    /// Settings of the inbound side, for the proxy's own application.
    pub settings: Settings,
    /// The access log of this worker, on or off.
    pub access_log: AccessLog,
    /// The settings by which calls are traced; `None` if calls are not traced.
    pub tracing: Option<Tracing>,
    /// The failed requests that callers must not send again. All workers share this table.
    pub spent_chains: Arc<SpentChains>,
    /// Outlet to the writer of the access log.
    pub outlet: Outlet,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// Maximum memory that peers can make this worker hold, in bytes.
    pub memory_budget_bytes: usize,
    /// The metrics of this worker.
    pub metrics: Arc<WorkerMetrics>,
    /// Seed of this worker's random choices.
    pub seed: u64,
}

/// A command to a worker.
pub(super) enum Command {
    SetMesh(Arc<Mesh>),
    ChangeMesh(Arc<Mesh>, Arc<Changes>),
    SetIdentity(Arc<TlsIdentity>),
    Explain(oneshot::Sender<Vec<ClusterExplanation>>),
    ExplainCall(Box<CallQuestion>, oneshot::Sender<Result<CallAnswer, BadQuestion>>),
    BeginTap(Arc<Tap>, oneshot::Sender<()>),
    ShowCalls(Duration, oneshot::Sender<OpenCalls>),
    ReportUsage(oneshot::Sender<Usage>),
    Drain(Duration),
}

/// A running worker thread.
pub struct WorkerHandle {
    listening: Vec<(Door, SocketAddr)>,
    commands: mpsc::Sender<Command>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl WorkerHandle {
    /// Starts to listen, and starts the thread.
    ///
    /// # Errors
    /// Another program has begun to listen at an address, or the kernel refuses a poll instance or a thread.
    pub fn spawn(mut config: WorkerConfig, mesh: Arc<Mesh>) -> Result<Self, SpawnError> {
        let (poll, index) = (Poll::new()?, config.index);
        let mut listeners = Vec::new();
        let keepalive = ms(config.limits.relay.keepalive_ms);
        for (place, bound) in std::mem::take(&mut config.listen).into_iter().enumerate() {
            let mut listener = Listener::open(bound, index == 0, keepalive)?;
            listener.register(&poll, Token(FIRST_LISTENER + place))?;
            listeners.push(listener);
        }
        let listening = listeners.iter().map(|listener| (listener.door, listener.address)).collect();
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (commands, received) = mpsc::channel();
        memory::limit_arenas(index + 1);
        let mut worker = Worker::new(poll, listeners, received, config, mesh);
        let thread =
            std::thread::Builder::new().name(format!("worker-{index}")).stack_size(STACK_BYTES).spawn(move || {
                // Return memory that only the start has needed to the system now, before calls need memory.
                memory::trim();
                let outcome = worker.run();
                worker.outlet.finish(worker.relay.access_log());
                if let Err(error) = outcome {
                    tracing::error!("worker {index} ended: {error}");
                }
            })?;
        Ok(Self { listening, commands, waker, thread })
    }

    /// The addresses that the listeners are bound to.
    pub fn listening(&self) -> &[(Door, SocketAddr)] {
        &self.listening
    }

    /// Replaces the mesh. Calls in flight continue if the new policies allow them.
    pub fn set_mesh(&self, mesh: Arc<Mesh>) {
        self.order(Command::SetMesh(mesh));
    }

    /// Replaces the identity: new connections use it. A peer is disconnected if the new trust bundle does not verify
    /// the peer's certificate.
    pub fn set_identity(&self, identity: Arc<TlsIdentity>) {
        self.order(Command::SetIdentity(identity));
    }

    /// Replaces the mesh by a mesh that differs from it only in `changes`. The cost depends on the changes, not on the
    /// size of the mesh.
    pub fn change_mesh(&self, mesh: Arc<Mesh>, changes: Arc<Changes>) {
        self.order(Command::ChangeMesh(mesh, changes));
    }

    /// Begins to pass finished calls to `tap`. The returned receiver gets a value once the worker has begun.
    pub fn begin_tap(&self, tap: Arc<Tap>) -> oneshot::Receiver<()> {
        self.ask(|begun| Command::BeginTap(tap, begun))
    }

    /// Asks for the calls that have been in flight for longer than `longer_than`.
    pub fn open_calls(&self, longer_than: Duration) -> oneshot::Receiver<OpenCalls> {
        self.ask(|answer| Command::ShowCalls(longer_than, answer))
    }

    /// Asks for a usage report: the subjects and clusters that calls use now, and those that calls have used since the
    /// last report.
    pub fn usage(&self) -> oneshot::Receiver<Usage> {
        self.ask(Command::ReportUsage)
    }

    /// Asks for the state of all clusters in use.
    pub fn explain(&self) -> oneshot::Receiver<Vec<ClusterExplanation>> {
        self.ask(Command::Explain)
    }

    /// Asks for the predicted result of a call.
    pub fn explain_call(&self, question: CallQuestion) -> oneshot::Receiver<Result<CallAnswer, BadQuestion>> {
        self.ask(|answer| Command::ExplainCall(Box::new(question), answer))
    }

    /// Drains the worker: it accepts no new connections, and sends GOAWAY to clients. The thread ends when all clients
    /// have finished, or when `grace` has passed.
    pub fn drain(&self, grace: Duration) {
        self.order(Command::Drain(grace));
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Sends a command that the worker answers.
    fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        self.order(command(sender));
        receiver
    }

    fn order(&self, command: Command) {
        // Ignore a failed send: a worker that has ended needs no commands.
        if self.commands.send(command).is_ok()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!("cannot wake a worker: {error}");
        }
    }
}

/// Why a worker could not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The proxy cannot listen at an address.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// The kernel refuses a poll instance or a thread.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Worker {
    fn new(
        poll: Poll,
        listeners: Vec<Listener>,
        commands: mpsc::Receiver<Command>,
        config: WorkerConfig,
        mesh: Arc<Mesh>,
    ) -> Self {
        let now = Instant::now();
        let listening = listeners.iter().map(|listener| (listener.door, listener.address)).collect();
        let relay = Config {
            index: config.index,
            workers: config.workers,
            own: config.identity.as_ref().map(|identity| identity.id.clone()),
            listening,
            discovers: config.discovery.is_some(),
            settings: config.settings,
            access_log: config.access_log,
            tracing: config.tracing,
            spent_chains: config.spent_chains,
            limits: config.limits.clone(),
            memory_budget_bytes: config.memory_budget_bytes,
            metrics: config.metrics,
            seed: config.seed,
        };
        let mut relay = Relay::new(relay, mesh, now);
        relay.set_wall_clock(SystemTime::now());
        Self {
            poll,
            listeners,
            commands,
            outlet: config.outlet,
            discovery: config.discovery,
            doors: Doors::new(&config.limits.relay),
            standing: config.standing,
            identity: config.identity,
            recheck: Default::default(),
            wires: Default::default(),
            arrivals: Default::default(),
            unfinished: Vec::new(),
            accept_again: false,
            accept_failed: false,
            buffers: Buffers::new(READ_BYTES),
            burst: false,
            trim_next: false,
            next_trim: now,
            relay,
        }
    }

    pub(super) fn run_commands(&mut self) {
        // First assign endpoints to the calls that were routed with the current mesh. A command may replace the mesh by
        // one that has no endpoint for these calls.
        self.relay.dispatch();
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::SetMesh(mesh) => {
                    self.relay.set_mesh(&mesh);
                    self.review_arrivals(|arrival| arrival.origin.door == Door::Outbound);
                }
                Command::ChangeMesh(mesh, changes) => {
                    self.relay.change_mesh(&mesh, &changes);
                    self.review_changed_arrivals(&changes);
                }
                Command::SetIdentity(identity) => self.set_identity(&identity),
                // In the following arms, ignore a failed send of the answer: the receiver may have been dropped.
                Command::BeginTap(tap, begun) => {
                    self.relay.begin_tap(tap);
                    let _ = begun.send(());
                }
                Command::ShowCalls(longer_than, answer) => drop(answer.send(self.relay.open_calls(longer_than))),
                Command::Explain(answer) => drop(answer.send(self.relay.explain())),
                Command::ExplainCall(question, answer) => drop(answer.send(self.relay.explain_call(&question))),
                Command::ReportUsage(answer) => drop(answer.send(self.report_usage())),
                Command::Drain(grace) => self.drain(grace),
            }
        }
    }

    /// Returns the subjects and clusters that connections and calls use now, or have used since the last report.
    fn report_usage(&mut self) -> Usage {
        let mut usage = self.relay.report_usage();
        for (_, arrival) in self.arrivals.iter() {
            if let (Door::Outbound, Some(address)) = (arrival.origin.door, arrival.origin.original_destination) {
                usage.in_use.insert(Subject::Address(address));
            }
        }
        usage
    }

    /// Reviews the outbound arrivals that a change of the mesh may affect. The destination's cluster determines whether
    /// the worker must detect the protocol, so a change may end the wait of an arrival.
    fn review_changed_arrivals(&mut self, changes: &Changes) {
        let concerns_all = !changes.clusters.is_empty() || !changes.routes.is_empty();
        let concerns = |arrival: &Arrival| {
            let subject = arrival.origin.original_destination.map(Subject::Address);
            subject.is_some_and(|it| changes.answered.contains(&it) || changes.changed_answers.contains(&it))
        };
        self.review_arrivals(|arrival| arrival.origin.door == Door::Outbound && (concerns_all || concerns(arrival)));
    }
}
