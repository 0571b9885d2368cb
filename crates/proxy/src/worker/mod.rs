//! The data plane: one thread, one event loop, which owns its connections, calls, balancers and timers.
//!
//! A request's way, a file each: `accept` -> `detect` -> `route` -> `balance` -> `send` -> `relay` -> `record`.
//! Around them: `arrival` (a connection of which it is not known yet what it carries), `client` (one of which it is),
//! `link` (a socket, its `tls` and its `codec`, which is HTTP/2, HTTP/1 or `opaque`), `call` (what is known of a call),
//! `pool` (connections to endpoints), `hop` (how a call travels there), `cancel` (calls whose server does not know that
//! they are over), `reply` (the proxy's own answers), `sweep` (what is done now and then), `handle` (what the control
//! thread holds). One turn of the loop reads what has come, sends the calls on, and writes every connection once.

mod accept;
mod arrival;
mod authorize;
mod balance;
mod call;
mod cancel;
mod client;
mod codec;
pub mod detect;
pub mod grpc;
mod handle;
mod hop;
mod labels;
mod link;
mod memory;
mod meter;
mod opaque;
mod pool;
mod record;
mod relay;
mod reply;
mod route;
mod send;
mod sweep;
mod timers;
mod tls;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use leno_http2::{FieldSection, Violation};
use leno_identity::TlsIdentity;
use leno_model::mesh::Mesh;
use leno_model::policy::DefaultInboundPolicy;
use mio::{Events, Poll, Token};
use rustc_hash::FxHashMap;
use slab::Slab;

use accept::{Arrival, Listener};
use balance::{ClusterState, TargetKey};
use call::{Call, CallId};
use client::Client;
use codec::CodecError;
use handle::Command;
use hop::PoolKey;
use link::{Buffers, Fill, Link, LinkError, LinkId, Side};
use pool::Upstream;
use timers::Timers;

use crate::access_log::AccessLog;
use crate::failure::{ConnectionFailure, FailureLog};
use crate::limits::Limits;
use crate::metrics::{TrafficMetrics, WorkerMetrics};

pub use accept::{Door, MAX_LISTENERS};
pub use handle::{ClusterExplanation, SpawnError, WorkerConfig, WorkerHandle};

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
    /// Counts the meshes seen, so that a route found in an older one is looked up again.
    mesh_version: u64,
    clusters: Slab<ClusterState>,
    cluster_by_key: FxHashMap<TargetKey, usize>,

    arrivals: Slab<Arrival>,
    clients: Slab<Client>,
    upstreams: Slab<Upstream>,
    calls: Slab<Call>,
    next_serial: u64,
    timers: Timers<CallId>,

    /// Calls to be sent before this turn of the loop ends.
    to_send: VecDeque<CallId>,
    /// Endpoints for whose connections calls wait.
    waited_for: Vec<(usize, PoolKey)>,
    /// Links with output.
    dirty: Vec<LinkId>,
    /// Links that had more to read than one turn allows.
    unfinished: Vec<LinkId>,
    accept_again: bool,
    /// Accepting failed; the next sweep tries again.
    accept_failed: bool,
    /// Connections to endpoints that do not know of cancelled calls.
    cancelling: Vec<usize>,
    next_reset_tick: Option<Instant>,

    now: Instant,
    next_sweep: Instant,
    sweep_turn: usize,
    /// When a drain began, and when it must be over.
    draining: Option<(Instant, Instant)>,
    buffers: Buffers,
    fields: FieldSection,
    spare_sections: Vec<FieldSection>,
    replay_bytes: usize,
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
            for id in std::mem::take(&mut self.unfinished) {
                self.read_on(id);
            }
            for event in &events {
                match LinkId::of(event.token()) {
                    Some(link) => self.on_ready(link, event),
                    None if event.token() == WAKER => self.run_commands(),
                    None => self.accept_again = true,
                }
            }
            if self.accept_again {
                self.accept();
            }
            self.expire_deadlines();
            self.sweep();
            self.dispatch();
            self.flush_all();
            self.access_log.hand_over(self.now);
            if self.is_drained() {
                return Ok(());
            }
        }
    }

    /// How long nothing needs to be done if nothing happens.
    fn wait(&self) -> Duration {
        if !self.unfinished.is_empty() || !self.to_send.is_empty() || self.accept_again {
            return Duration::ZERO;
        }
        let until = |at: Instant| at.saturating_duration_since(self.now);
        let mut wait = until(self.next_sweep);
        if let Some(tick) = self.next_reset_tick {
            wait = wait.min(until(tick));
        }
        if let Some(timer) = self.timers.next_in(self.now) {
            wait = wait.min(timer);
        }
        wait
    }

    fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        match id.side {
            Side::Arrival => None,
            Side::Client => self.clients.get_mut(id.index).map(|client| &mut client.link),
            Side::Endpoint => self.upstreams.get_mut(id.index).map(|upstream| &mut upstream.link),
        }
    }

    fn on_ready(&mut self, id: LinkId, event: &mio::event::Event) {
        match id.side {
            Side::Arrival => {
                if event.is_read_closed()
                    && let Some(arrival) = self.arrivals.get_mut(id.index)
                {
                    arrival.wire.end_follows = true;
                }
                return self.read_arrival(id.index);
            }
            Side::Endpoint if !self.finish_connecting(id.index) => return,
            Side::Client | Side::Endpoint => {}
        }
        if event.is_writable() {
            self.mark_dirty(id);
        }
        if event.is_read_closed() {
            self.read_to_end(id);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(id);
        }
    }

    /// The peer has closed its side, or takes nothing more: what it has sent before that still counts.
    fn read_to_end(&mut self, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        link.wire.end_follows = true;
        if id.side == Side::Endpoint && !link.codec.is_half_closable() {
            self.retire(id.index);
        }
        self.mark_unfinished(id);
    }

    fn read_on(&mut self, id: LinkId) {
        if id.side == Side::Arrival {
            return self.read_arrival(id.index);
        }
        if let Some(link) = self.link(id) {
            link.unfinished = false;
        }
        self.read(id);
    }

    /// Reads once from a connection and acts on what came.
    fn read(&mut self, id: LinkId) {
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut fields = std::mem::take(&mut self.fields);
        let outcome = self.read_with(id, &mut buffers, &mut fields);
        self.buffers = buffers;
        self.fields = fields;
        match outcome {
            Ok(()) => self.mark_dirty(id),
            Err(Closed::End) => self.close(id, "the peer closed the connection"),
            Err(Closed::Link(error)) => self.close_after_failure(id, error),
            Err(Closed::Codec(error)) => self.close_after_violation(id, &error),
        }
    }

    fn read_with(&mut self, id: LinkId, buffers: &mut Buffers, fields: &mut FieldSection) -> Result<(), Closed> {
        let held = match self.link(id) {
            Some(link) if link.codec.is_paused() && link.closing_since.is_none() => {
                link.paused = true;
                return Ok(());
            }
            Some(link) => std::mem::take(&mut link.held),
            None => return Ok(()),
        };
        // Also without any: an event may be due that does not come from the peer.
        self.interpret(id, &held, fields)?;
        let now = self.now;
        let Some(link) = self.link(id) else { return Ok(()) };
        if !link.held.is_empty() {
            return Ok(());
        }
        let fill = link.fill(now, buffers)?;
        if id.side == Side::Endpoint && !self.check_endpoint(id.index) {
            return Ok(());
        }
        match fill {
            Fill::Bytes { bytes, more } => {
                if more {
                    self.mark_unfinished(id);
                }
                self.interpret(id, bytes, fields)
            }
            Fill::End => self.read_ended(id, fields),
        }
    }

    /// Acts on what a connection's bytes mean. What its codec does not take for now is kept.
    fn interpret(&mut self, id: LinkId, bytes: &[u8], fields: &mut FieldSection) -> Result<(), Closed> {
        let now = self.now;
        let mut input = bytes;
        loop {
            let Some(link) = self.link(id) else { return Ok(()) };
            if link.closing_since.is_some() {
                return Ok(());
            }
            match link.codec.receive(now, &mut input, fields)? {
                Some(event) => self.on_event(id, &event, fields),
                None => {
                    link.held.extend_from_slice(input);
                    link.paused |= !input.is_empty();
                    return Ok(());
                }
            }
        }
    }

    fn on_event(&mut self, id: LinkId, event: &leno_http2::Event<'_>, fields: &mut FieldSection) {
        match id.side {
            Side::Arrival => {}
            Side::Client => self.on_client_event(id.index, event, fields),
            Side::Endpoint => self.on_endpoint_event(id.index, event, fields),
        }
    }

    /// The peer sends nothing more, which may be an end of one direction only.
    fn read_ended(&mut self, id: LinkId, fields: &mut FieldSection) -> Result<(), Closed> {
        let now = self.now;
        let Some(link) = self.link(id) else { return Ok(()) };
        if !link.codec.is_half_closable() || link.closing_since.is_some() {
            return Err(Closed::End);
        }
        if let Some(event) = link.codec.input_ended(now) {
            self.on_event(id, &event, fields);
        }
        match self.link(id) {
            Some(link) if link.codec.stream_count() == 0 && !link.codec.wants_write() => Err(Closed::End),
            _ => Ok(()),
        }
    }

    /// Notes that a link has more to read than was read.
    fn mark_unfinished(&mut self, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        if !std::mem::replace(&mut link.unfinished, true) {
            self.unfinished.push(id);
        }
    }

    /// Notes that a link has output, or room that its calls may use.
    fn mark_dirty(&mut self, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        if !std::mem::replace(&mut link.dirty, true) {
            self.dirty.push(id);
        }
    }

    /// Writes every connection that has output, until none has.
    fn flush_all(&mut self) {
        loop {
            while let Some(id) = self.dirty.pop() {
                self.flush(id);
            }
            self.serve_waiting();
            if self.dirty.is_empty() {
                return;
            }
        }
    }

    fn flush(&mut self, id: LinkId) {
        let now = self.now;
        let mut buffers = std::mem::take(&mut self.buffers);
        let flushed = match self.link(id) {
            Some(link) => {
                link.dirty = false;
                if link.closing_since.is_some() { Ok(()) } else { link.flush(now, &mut buffers) }
            }
            None => Ok(()),
        };
        self.buffers = buffers;
        if flushed.is_err() {
            return self.read_to_end(id);
        }
        self.return_room(id);
        let Some(link) = self.link(id) else { return };
        if link.codec.is_aborted() {
            // An orderly end would be taken for the end of the content.
            let _ = socket2::SockRef::from(&link.wire.socket).set_linger(Some(Duration::ZERO));
            self.close(id, "its call was cut");
        } else if link.codec.must_close() && !link.codec.wants_write() && !link.codec.is_drained() {
            self.close(id, "it was closed in the middle of a message");
        } else if link.codec.is_drained() && !link.codec.wants_write() {
            match id.side {
                Side::Endpoint => self.close_upstream(id.index, "its call is over"),
                Side::Arrival | Side::Client => self.finish_link(id),
            }
        } else if link.paused && !link.codec.is_paused() {
            link.paused = false;
            self.mark_unfinished(id);
        }
    }

    /// A connection has ended, or must.
    fn close(&mut self, id: LinkId, why: &str) {
        match id.side {
            Side::Arrival => self.drop_arrival(id.index),
            Side::Client => self.close_client(id.index),
            Side::Endpoint => self.close_upstream(id.index, why),
        }
    }

    /// A drained connection: everything is said, the peer closes.
    fn finish_link(&mut self, id: LinkId) {
        let (now, mut buffers) = (self.now, std::mem::take(&mut self.buffers));
        if let Some(link) = self.link(id) {
            link.begin_closing(now, &mut buffers);
        }
        self.buffers = buffers;
    }

    /// A socket or its TLS has failed.
    fn close_after_failure(&mut self, id: LinkId, error: LinkError) {
        if let LinkError::Tls(_) = &error {
            let mut buffers = std::mem::take(&mut self.buffers);
            if let Some(link) = self.link(id) {
                // The alert; a peer that does not take it does without.
                let _ = link.wire.flush_tls(&mut buffers);
            }
            self.buffers = buffers;
        }
        match (id.side, error) {
            (Side::Endpoint, LinkError::Tls(error)) => {
                self.end_upstream(id.index, &ConnectionFailure::Handshake(error));
            }
            (_, error) => self.close(id, &error.to_string()),
        }
    }

    fn close_after_violation(&mut self, id: LinkId, error: &CodecError) {
        match id.side {
            Side::Arrival => {}
            Side::Endpoint => {
                if let Some(upstream) = self.upstreams.get_mut(id.index) {
                    let _ = upstream.link.flush(self.now, &mut self.buffers);
                }
                self.close_upstream(id.index, &error.to_string());
            }
            Side::Client => self.dismiss_client(id.index, error),
        }
    }

    fn expire_deadlines(&mut self) {
        let mut due = Vec::new();
        self.timers.expire(self.now, &mut due);
        for id in due {
            let Some(call) = self.calls.get_mut(id.slot as usize).filter(|call| call.serial == id.serial) else {
                continue;
            };
            call.deadline = None;
            self.metrics.deadline_exceeded_total.add(1);
            self.fail(id.slot, &reply::ProxyError::DeadlineExceeded);
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

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("it has ended")]
    End,
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The label in metrics of a connection that was closed for what its client did.
fn violation_label(why: &Violation) -> &'static str {
    match why {
        Violation::Flood(flood) => flood.label(),
        Violation::BadPreface => "bad_preface",
        Violation::Protocol(_) => "protocol_error",
    }
}
