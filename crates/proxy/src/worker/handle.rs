//! What the control thread holds of a worker thread: orders go over a channel, the poll wakes for them.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leno_model::balance::{Explanation, Policy};
use leno_model::mesh::Mesh;
use mio::net::TcpListener;
use mio::{Interest, Poll, Waker};
use slab::Slab;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::oneshot;

use super::timers::Timers;
use super::{LISTENER, READ_BYTES, WAKER, Worker, memory, outbound_connection, outbound_labels};
use crate::limits::Limits;
use crate::metrics::{Peer, Target, WorkerMetrics};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4_096;
/// A worker's own stack; the loop does not recurse.
const STACK_BYTES: usize = 256 * 1024;

/// What a worker needs to start.
pub struct WorkerConfig {
    /// Number of this worker, from 0.
    pub index: usize,
    /// Where applications' connections arrive.
    pub outbound: SocketAddr,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// Where this worker counts.
    pub metrics: Arc<WorkerMetrics>,
    /// Seed of this worker's random choices.
    pub seed: u64,
}

/// One cluster as a worker's balancer sees it, for /balancer.
#[derive(Debug, serde::Serialize)]
pub struct ClusterExplanation {
    /// `service.namespace:port`.
    pub cluster: String,
    /// How endpoints are chosen.
    pub policy: Policy,
    /// Number of the worker.
    pub worker: usize,
    /// Calls in flight.
    pub calls: usize,
    /// Endpoints, ascending by address.
    pub endpoints: Vec<EndpointExplanation>,
}

/// One endpoint as a worker sees it.
#[derive(Debug, serde::Serialize)]
pub struct EndpointExplanation {
    /// What the balancer knows.
    #[serde(flatten)]
    pub balancer: Explanation,
    /// Connections that take calls.
    pub connections: usize,
    /// Calls that wait for a connection.
    pub waiting: usize,
    /// Connections that failed in a row, and why the last did.
    pub connect_failures: u32,
    /// Why the last connection failed; none while connections succeed.
    pub last_connect_error: Option<String>,
}

/// An order to a worker.
pub(super) enum Command {
    SetMesh(Arc<Mesh>),
    Explain(oneshot::Sender<Vec<ClusterExplanation>>),
    Drain(Duration),
}

/// A running worker thread.
pub struct WorkerHandle {
    local_addr: SocketAddr,
    commands: mpsc::Sender<Command>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl WorkerHandle {
    /// Binds the listener, with SO_REUSEPORT so that all workers share the port, and starts the thread.
    ///
    /// # Errors
    /// The address cannot be bound, or the kernel gives no poll or thread.
    pub fn spawn(config: WorkerConfig, mesh: Arc<Mesh>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = listen(config.outbound)?;
        let local_addr = listener.local_addr()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (commands, received) = mpsc::channel();
        let index = config.index;
        memory::limit_arenas(index + 1);
        let mut worker = Worker::new(poll, listener, received, config, mesh);
        let thread =
            std::thread::Builder::new().name(format!("worker-{index}")).stack_size(STACK_BYTES).spawn(move || {
                if let Err(error) = worker.run() {
                    tracing::error!("worker {index} ended: {error}");
                }
            })?;
        Ok(Self { local_addr, commands, waker, thread })
    }

    /// The address that the listener is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Swaps the mesh snapshot. Calls under way are not touched.
    pub fn set_mesh(&self, mesh: Arc<Mesh>) {
        self.order(Command::SetMesh(mesh));
    }

    /// Asks for the state of all clusters in use.
    pub fn explain(&self) -> oneshot::Receiver<Vec<ClusterExplanation>> {
        let (sender, receiver) = oneshot::channel();
        self.order(Command::Explain(sender));
        receiver
    }

    /// Ends the thread: no new connections, GOAWAY to clients, until all have finished or `grace` is over.
    pub fn drain(&self, grace: Duration) {
        self.order(Command::Drain(grace));
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    fn order(&self, command: Command) {
        // A worker that has ended takes no orders, and needs none.
        if self.commands.send(command).is_ok()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!("cannot wake a worker: {error}");
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

impl Worker {
    fn new(
        poll: Poll,
        listener: TcpListener,
        commands: mpsc::Receiver<Command>,
        config: WorkerConfig,
        mesh: Arc<Mesh>,
    ) -> Self {
        let now = Instant::now();
        Self {
            poll,
            listener: Some(listener),
            commands,
            unknown_cluster: config.metrics.traffic(&outbound_labels(Target::Unknown)),
            downstream_tcp: config.metrics.connections(&outbound_connection(Peer::Source)),
            upstream_tcp: config.metrics.connections(&outbound_connection(Peer::Destination)),
            limits: config.limits,
            metrics: config.metrics,
            index: config.index,
            seed: config.seed,
            mesh,
            mesh_version: 0,
            clusters: Slab::new(),
            cluster_by_key: Default::default(),
            clients: Slab::new(),
            upstreams: Slab::new(),
            calls: Slab::new(),
            next_serial: 0,
            timers: Timers::new(now),
            to_send: Default::default(),
            waited_for: Vec::new(),
            dirty: Vec::new(),
            unfinished: Vec::new(),
            accept_again: false,
            accept_failed: false,
            cancelling: Vec::new(),
            next_reset_tick: None,
            now,
            next_sweep: now,
            sweep_turn: 0,
            draining: None,
            buffer: vec![0; READ_BYTES],
            fields: Default::default(),
            spare_sections: Vec::new(),
            replay_bytes: 0,
            // A xorshift generator must not start at 0.
            random: config.seed | 1,
            burst: false,
            trim_next: false,
            next_trim: now,
        }
    }

    pub(super) fn run_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::SetMesh(mesh) => self.set_mesh(mesh),
                // Whoever asked may have gone.
                Command::Explain(answer) => drop(answer.send(self.explain())),
                Command::Drain(grace) => self.drain(grace),
            }
        }
    }

    fn explain(&self) -> Vec<ClusterExplanation> {
        let explain_cluster = |state: &super::ClusterState| ClusterExplanation {
            cluster: state.cluster.key.to_string(),
            policy: state.cluster.balancer,
            worker: self.index,
            calls: state.calls,
            endpoints: self.explain_endpoints(state),
        };
        let mut clusters: Vec<_> = self.clusters.iter().map(|(_, state)| explain_cluster(state)).collect();
        clusters.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        clusters
    }

    fn explain_endpoints(&self, state: &super::ClusterState) -> Vec<EndpointExplanation> {
        let explanations = state.balancer.explain(self.now);
        let ids = state.balancer.endpoints();
        ids.zip(explanations)
            .map(|((id, _), balancer)| {
                let endpoint = state.endpoints.get(&id);
                EndpointExplanation {
                    balancer,
                    connections: endpoint.map_or(0, |e| e.connections.len()),
                    waiting: endpoint.map_or(0, |e| e.waiting.len()),
                    connect_failures: endpoint.map_or(0, |e| e.failures),
                    last_connect_error: endpoint.filter(|e| e.failures > 0).map(|e| e.last_error.clone()),
                }
            })
            .collect()
    }
}
