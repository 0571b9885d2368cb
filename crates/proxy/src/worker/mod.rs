//! The data plane: one thread, one event loop, which owns its connections, calls, balancers and timers.
//!
//! A request's way, a file each: `accept` -> `detect` -> `route` -> `follow` -> `balance` -> `send` -> `relay` -> `record`.
//! Around them: `arrival` (a client's connection before its protocol is known), `client` (the connection after that), `accounts`
//! (who is answerable for calls), `link` (a socket, its `tls` and its `codec`, which is HTTP/2, HTTP/1 or `opaque`), `transfer`
//! (bytes in and out), `tunnel` (what the streams of one share), `call` (what is known of a call), `target` (what it is for),
//! `places` (which connections stay when there are too many), `budget` (how many bytes peers may make a worker hold), `discover`
//! (questions to the control plane about what a call is for), `usage` (which answers calls use), `change` (what a new mesh
//! changes), `filter` (what a route changes in it), `mirror` (its copies), `deadline` (how long it may take), `cluster` (the
//! state of one target of calls), `clusters` (all clusters), `upstream` (a connection to an endpoint), `pool` (connections to
//! endpoints), `connections` (which connections are free), `waiting` (the calls that wait for a connection), `hop` (how a call
//! travels there), `cancel` (calls whose server does not know that they are over), `dribble` (content that comes a few bytes at a
//! time), `reply` (the proxy's own answers), `review` (whether what was accepted may stay, with `standing` and `recheck`),
//! `labels` and `ports` (the names in metrics), `sweep` (periodic work), `handle` (the control thread's handle of a worker).
//! One turn of the loop reads what has come, sends the calls on, and writes every connection once.

mod accept;
mod accounts;
mod arrival;
mod authorize;
mod balance;
mod budget;
mod call;
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
use slab::Slab;
use tokio::sync::mpsc as tokio_mpsc;

use accept::Arrival;
use accounts::Accounts;
use budget::Budget;
use call::{Call, CallId};
use client::Client;
use cluster::TargetKey;
use clusters::Clusters;
use deadline::Alarm;
use discover::Question;
use handle::Command;
use hop::PoolKey;
use link::{Buffers, Link, LinkId, Side, Wire};
use listen::Listener;
use places::Doors;
use ports::Ports;
use recheck::Recheck;
use server_first::ServerFirst;
use timers::Timers;
use upstream::Upstream;

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
/// Listeners have the tokens from here to the first link's.
const FIRST_LISTENER: usize = 1;
/// Bytes read from one connection in one turn of the loop.
const READ_BYTES: usize = 64 * 1024;
/// How often connections are looked at for time-outs; each is seen once in ten sweeps.
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
    /// Calls that are for nothing that is known, by side.
    unrouted: [Arc<TrafficMetrics>; 2],
    index: usize,
    seed: u64,

    mesh: Arc<Mesh>,
    /// What proves who we are, and checks who others are; none without an identity.
    identity: Option<Arc<TlsIdentity>>,
    default_policy: DefaultInboundPolicy,
    opaque_ports: PortRanges,
    http_ports: PortRanges,
    /// Whether `x-forwarded-client-cert` is written.
    tells_client_cert: bool,
    forwarded_for: ForwardedFor,
    probes: Probes,
    /// Counts the meshes seen, so that a route found in an older one is looked up again.
    mesh_version: u64,
    /// Where questions go that the mesh has no answer to; none where it knows everything.
    discovery: Option<tokio_mpsc::Sender<Subject>>,
    questions: FxHashMap<Subject, Question>,
    /// What calls were looked up by since the last report, and when.
    used: FxHashMap<Subject, Instant>,
    clusters: Clusters,
    cluster_by_key: FxHashMap<TargetKey, usize>,

    /// Which connections of clients have a place.
    doors: Doors,
    /// Ports of the application that metrics name.
    ports: Ports,
    /// The best certificates that peers have shown to all workers.
    standing: Arc<Standing>,
    /// Connections whose peers' certificates are to be checked again: an anchor was removed.
    recheck: Recheck,
    server_first: ServerFirst,
    arrivals: Slab<Arrival>,
    clients: Slab<Client>,
    upstreams: Slab<Upstream>,
    calls: Slab<Call>,
    accounts: Accounts,
    next_serial: u64,
    timers: Timers<Alarm>,

    /// Calls to be sent before this turn of the loop ends.
    to_send: VecDeque<CallId>,
    /// Endpoints for whose connections calls wait.
    waited_for: Vec<(usize, PoolKey)>,
    /// Links with output.
    dirty: Vec<LinkId>,
    /// Links that had more to read than one turn allows.
    unfinished: Vec<LinkId>,
    /// Clients that are to be arrivals again.
    recalled: Vec<usize>,
    accept_again: bool,
    /// Accepting failed; the next sweep tries again.
    accept_failed: bool,
    /// Connections to endpoints that do not know of cancelled calls.
    cancelling: Vec<usize>,
    /// Connections to endpoints in which content of a few bytes is collected.
    collecting: Vec<usize>,
    next_reset_tick: Option<Instant>,

    now: Instant,
    next_sweep: Instant,
    sweep_turn: usize,
    /// When a drain must be over, once it began.
    draining: Option<Instant>,
    buffers: Buffers,
    fields: FieldSection,
    spare_sections: Vec<FieldSection>,
    replay_bytes: usize,
    budget: Budget,
    /// Copies of requests in flight, and content that they hold.
    mirrors: usize,
    mirror_bytes: usize,
    random: u64,
    /// Memory of a burst that has not been given back yet.
    burst: bool,
    /// The tables are small again and the cache is empty: the system gets what is free next time.
    trim_next: bool,
    next_trim: Instant,
}

impl Worker {
    /// Runs until it is drained.
    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            let wait = self.wait();
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => self.now = Instant::now(),
            }
            // What arrives may take the place of a client that has ended, whose events must not be taken for its own:
            // arrivals come after all that was there before.
            for arrivals in [false, true] {
                self.serve_links(&events, arrivals);
            }
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

    /// Acts on the events of arrivals, or of all others, and reads on where there is more.
    fn serve_links(&mut self, events: &Events, arrivals: bool) {
        let is_due = |id: &LinkId| (id.side == Side::Arrival) == arrivals;
        let (due, later) = std::mem::take(&mut self.unfinished).into_iter().partition(is_due);
        self.unfinished = later;
        let due: Vec<LinkId> = due;
        for id in due {
            self.read_on(id);
        }
        for event in events {
            match LinkId::of(event.token()) {
                Some(id) if is_due(&id) => self.on_ready(id, event),
                Some(_) => {}
                None if arrivals => {}
                None if event.token() == WAKER => self.run_commands(),
                None => self.accept_again = true,
            }
        }
    }

    /// How long nothing needs to be done if nothing happens.
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
        if let Some(timer) = self.timers.next_in(self.now) {
            wait = wait.min(timer);
        }
        wait
    }

    fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        self.link_and_buffers(id).map(|(link, _)| link)
    }

    /// A link, and what it reads and writes with.
    fn link_and_buffers(&mut self, id: LinkId) -> Option<(&mut Link, &mut Buffers)> {
        let link = match id.side {
            Side::Arrival => None,
            Side::Client => self.clients.get_mut(id.index).map(|client| &mut client.link),
            Side::Endpoint => self.upstreams.get_mut(id.index).map(|upstream| &mut upstream.link),
        };
        Some((link?, &mut self.buffers))
    }

    fn wire(&mut self, id: LinkId) -> Option<&mut Wire> {
        match id.side {
            Side::Arrival => self.arrivals.get_mut(id.index).map(|arrival| &mut arrival.wire),
            Side::Client | Side::Endpoint => self.link(id).map(|link| &mut link.wire),
        }
    }

    /// A pseudo-random number; not for secrets.
    fn next_random(&mut self) -> u64 {
        // xorshift64 (Marsaglia, 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// The label in metrics of a connection that was closed for what its client did.
fn violation_label(why: &Violation) -> &'static str {
    match why {
        Violation::Flood(flood) => flood.label(),
        Violation::BadPreface => "bad_preface",
        Violation::Protocol(_) => "protocol_error",
    }
}
