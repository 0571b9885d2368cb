//! The data plane: one thread with one event loop, which owns its connections, calls, balancers and timers.
//!
//! A request passes through these files: `accept` -> `detect` -> `route` -> `follow` -> `balance` -> `send` -> `relay`
//! -> `record`. The other files:
//!
//! - A client's connection: `arrival` (before its protocol is known), `client` (afterwards), `places` (which
//!   connections stay if there are too many), `accounts` (how much each client may use of shared connections), `review`
//!   (whether accepted calls and connections may stay, with `standing` and `recheck`).
//! - Bytes: `wire` (a socket and its `tls`), `link` (a connection and its `codec`, which is HTTP/2, HTTP/1 or
//!   `opaque`), `transfer` (input and output), `tunnel` (the common limit of a tunnel's streams), `dribble` (content
//!   that arrives a few bytes at a time), `budget` (how many bytes peers may make a worker hold).
//! - A call: `call` (its state), `calls` (all of them), `target` (its destination), `filter` (changes by a route),
//!   `mirror` (copies of its request), `deadline` (its time limits), `cancel` (calls that have ended before their server
//!   knows), `reply` (the proxy's own responses).
//! - Endpoints: `cluster` (one target of calls), `clusters` (all targets), `upstream` (a connection to an endpoint),
//!   `pool` (the connections to endpoints), `connections` (which connections are free), `waiting` (the calls that wait
//!   for a connection), `hop` (how a call travels to an endpoint).
//! - The control thread: `handle` (its handle of a worker), `discover` (questions to the control plane), `usage` (which
//!   of the answers are in use), `change` (what a new mesh changes).
//! - The rest: `slots` (tables with typed ids), `labels` and `ports` (names in metrics), `sweep` (periodic work).
//!
//! One turn of the loop reads the input of all ready connections, sends the calls on, and writes every connection once.

mod accept;
mod accounts;
mod arrival;
mod authorize;
mod balance;
mod budget;
mod call;
mod calls;
mod cancel;
mod change;
mod client;
mod cluster;
mod clusters;
mod codec;
mod connections;
mod deadline;
pub mod detect;
mod discover;
mod dribble;
mod filter;
mod follow;
pub mod grpc;
mod handle;
mod hop;
mod labels;
mod link;
mod listen;
pub(crate) mod memory;
mod meter;
mod mirror;
mod opaque;
mod places;
mod pool;
mod ports;
mod recheck;
mod record;
mod relay;
mod reply;
mod review;
mod route;
mod send;
mod server_first;
mod slots;
mod standing;
mod sweep;
mod target;
mod timers;
pub mod tls;
mod transfer;
mod tunnel;
mod upstream;
mod usage;
mod waiting;
mod wire;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use leno_http2::{FieldSection, Violation};
use leno_identity::TlsIdentity;
use leno_model::discovery::Subject;
use leno_model::mesh::Mesh;
use leno_model::policy::{DefaultInboundPolicy, Probes};
use leno_model::protocol::PortRanges;
use mio::{Events, Poll, Token};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc as tokio_mpsc;

use accept::Arrival;
use accounts::Accounts;
use budget::Budget;
use call::CallId;
use calls::Calls;
use client::{Client, ClientId};
use cluster::{ClusterId, TargetKey};
use clusters::Clusters;
use discover::Question;
use handle::Command;
use hop::PoolKey;
use link::{Link, LinkId};
use listen::Listener;
use places::Doors;
use ports::Ports;
use recheck::Recheck;
use server_first::ServerFirst;
use slots::Slots;
use upstream::{Upstream, UpstreamId};
use wire::{Buffers, Wire, WireId, wire_of};

use crate::access_log::AccessLog;
use crate::failure::FailureLog;
use crate::limits::Limits;
use crate::metrics::{TrafficMetrics, WorkerMetrics};

pub use accept::Door;
pub use handle::{ClusterExplanation, SpawnError, WorkerConfig, WorkerHandle};
pub use listen::{BindError, Bound, MAX_LISTENERS, bind_workers};
pub use standing::Standing;
pub use target::ForwardedFor;
pub use usage::Usage;

const WAKER: Token = Token(0);
/// First poll token of the listeners. The tokens of wires are larger ([`wire::token`]).
const FIRST_LISTENER: usize = 1;
/// Most bytes read from one connection in one turn of the loop.
const READ_BYTES: usize = 64 * 1024;
/// Time between two sweeps. An established connection is checked for timeouts in every tenth sweep.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// One worker thread.
struct Worker {
    poll: Poll,
    listeners: Vec<Listener>,
    commands: mpsc::Receiver<Command>,
    limits: Arc<Limits>,
    metrics: Arc<WorkerMetrics>,
    access_log: AccessLog,
    failures: FailureLog,
    /// Metrics of calls that no cluster's metrics count, one for each direction.
    unrouted: [Arc<TrafficMetrics>; 2],
    index: usize,
    seed: u64,

    mesh: Arc<Mesh>,
    /// Our workload certificate, and the trust anchors for peers' certificates; `None` if the proxy has no identity.
    identity: Option<Arc<TlsIdentity>>,
    default_policy: DefaultInboundPolicy,
    opaque_ports: PortRanges,
    http_ports: PortRanges,
    /// Whether `x-forwarded-client-cert` is written.
    tells_client_cert: bool,
    forwarded_for: ForwardedFor,
    probes: Probes,
    /// Version of the mesh: increases with each mesh received. A route that was found under an older version is looked
    /// up again.
    mesh_version: u64,
    /// Channel for questions that the mesh cannot answer; `None` without a control plane, since the mesh is complete
    /// then.
    discovery: Option<tokio_mpsc::Sender<Subject>>,
    questions: FxHashMap<Subject, Question>,
    /// Subjects that were looked up for calls since the last report, and when.
    used: FxHashMap<Subject, Instant>,
    clusters: Clusters,
    cluster_by_key: FxHashMap<TargetKey, ClusterId>,

    /// Limits the number of connections from clients.
    doors: Doors,
    /// Ports of the application that metrics name.
    ports: Ports,
    /// The best certificate that each peer has shown to any worker.
    standing: Arc<Standing>,
    /// Connections whose peers' certificates must be verified again, because a trust anchor was removed.
    recheck: Recheck,
    server_first: ServerFirst,
    wires: Slots<Wire>,
    arrivals: Slots<Arrival>,
    clients: Slots<Client>,
    upstreams: Slots<Upstream>,
    calls: Calls,
    accounts: Accounts,
    next_turn: u64,

    /// Calls to be sent before this turn of the loop ends.
    to_send: VecDeque<CallId>,
    /// Endpoints to which calls are waiting for a connection.
    waited_for: Vec<(ClusterId, PoolKey)>,
    /// Links that have output to write.
    dirty: Vec<LinkId>,
    /// Wires that had more to read than one turn allows.
    unfinished: Vec<WireId>,
    /// Clients that become arrivals again, because the guess about their protocol was wrong.
    recalled: Vec<ClientId>,
    accept_again: bool,
    /// Accepting failed; the next sweep tries again.
    accept_failed: bool,
    /// Connections to endpoints that have not been told of all cancelled calls.
    cancelling: Vec<UpstreamId>,
    /// Upstream connections that collect short pieces of content before they send them.
    collecting: Vec<UpstreamId>,
    next_reset_tick: Option<Instant>,

    now: Instant,
    next_sweep: Instant,
    sweep_turn: usize,
    /// Time at which the drain must be over; `None` before a drain.
    draining: Option<Instant>,
    buffers: Buffers,
    fields: FieldSection,
    budget: Budget,
    /// Not for secrets.
    random: fastrand::Rng,
    /// Whether a burst has used memory that was not returned to the system yet.
    burst: bool,
    /// Whether the tables are small again and the thread's cache is empty, so that the next trim finds their memory.
    trim_next: bool,
    next_trim: Instant,
}

impl Worker {
    /// Runs the event loop until the worker is drained.
    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            let wait = self.wait();
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => self.now = Instant::now(),
            }
            self.serve_links(&events);
            if self.accept_again {
                self.accept();
            }
            self.recall_clients();
            self.expire_deadlines();
            self.recheck_peers();
            self.sweep();
            self.dispatch();
            self.flush_all();
            self.keep_budget();
            self.access_log.hand_over(self.now);
            if self.is_drained() {
                return Ok(());
            }
        }
    }

    /// Continues to read links that had more to read, and then handles the events.
    fn serve_links(&mut self, events: &Events) {
        for wire in std::mem::take(&mut self.unfinished) {
            self.read_on(wire);
        }
        for event in events {
            match wire_of(event.token()) {
                Some(wire) => self.on_ready(wire, event),
                None if event.token() == WAKER => self.run_commands(),
                None => self.accept_again = true,
            }
        }
    }

    /// Returns how long the worker may wait for events before it has something else to do.
    fn wait(&self) -> Duration {
        if !self.unfinished.is_empty() || !self.to_send.is_empty() || !self.recalled.is_empty() || self.accept_again {
            return Duration::ZERO;
        }
        let until = |at: Instant| at.saturating_duration_since(self.now);
        let mut wait = until(self.next_sweep);
        if let Some(tick) = self.next_reset_tick {
            wait = wait.min(until(tick));
        }
        if let Some(slice) = self.recheck.next_slice(self.now) {
            wait = wait.min(until(slice));
        }
        if let Some(timer) = self.calls.next_timer_in(self.now) {
            wait = wait.min(timer);
        }
        wait
    }

    fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        self.link_and_wire(id).map(|(link, ..)| link)
    }

    /// Returns a link, the table with its wire, and the buffers for its input and output.
    fn link_and_wire(&mut self, id: LinkId) -> Option<(&mut Link, &mut Slots<Wire>, &mut Buffers)> {
        let link = match id {
            LinkId::Arrival(_) => None,
            LinkId::Client(id) => self.clients.get_mut(id).map(|client| &mut client.link),
            LinkId::Endpoint(id) => self.upstreams.get_mut(id).map(|upstream| &mut upstream.link),
        };
        Some((link?, &mut self.wires, &mut self.buffers))
    }

    /// Returns the wire of a link.
    fn wire_of_link(&self, id: LinkId) -> Option<WireId> {
        match id {
            LinkId::Arrival(id) => self.arrivals.get(id).map(|arrival| arrival.wire),
            LinkId::Client(id) => self.clients.get(id).map(|client| client.link.wire),
            LinkId::Endpoint(id) => self.upstreams.get(id).map(|upstream| upstream.link.wire),
        }
    }
}

/// Returns the metric label of a connection that was closed because its client violated the protocol.
fn violation_label(why: &Violation) -> &'static str {
    match why {
        Violation::Flood(flood) => flood.label(),
        Violation::BadPreface => "bad_preface",
        Violation::Protocol(_) => "protocol_error",
    }
}
