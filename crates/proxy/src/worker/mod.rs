//! The data plane: one thread, one event loop, which owns its connections, calls, balancers and timers.
//!
//! A request's way, a file each: `accept` -> `detect` -> `route` -> `balance` -> `send` -> `relay` -> `record`.
//! Around them: `link` (a socket and its HTTP/2 connection), `call` (what is known of a call), `pool` (connections to
//! endpoints), `cancel` (calls whose server does not know that they are over), `reply` (the proxy's own answers), `sweep`
//! (what is done now and then), `handle` (what the control thread holds). One turn of the loop reads what has come, sends the calls on, and writes every connection once.

mod accept;
mod balance;
mod call;
mod cancel;
pub mod detect;
pub mod grpc;
mod handle;
mod link;
mod memory;
mod pool;
mod record;
mod relay;
mod reply;
mod route;
mod send;
mod sweep;
mod timers;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use leno_http2::{ConnectionError, FieldSection, Violation};
use leno_model::balance::EndpointId;
use leno_model::mesh::{ClusterKey, Mesh};
use mio::net::TcpListener;
use mio::{Events, Poll, Token};
use rustc_hash::FxHashMap;
use slab::Slab;

use accept::Client;
use balance::ClusterState;
use call::{Call, CallId};
use handle::Command;
use link::{Fill, Link, LinkId, Side};
use pool::Upstream;
use timers::Timers;

use crate::limits::Limits;
use crate::metrics::{
    ConnectionLabels, Direction, NoTlsReason, Peer, Target, TcpMetrics, Tls, TrafficLabels, TrafficMetrics,
    WorkerMetrics,
};

pub use handle::{ClusterExplanation, WorkerConfig, WorkerHandle};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// Bytes read from one connection in one turn of the loop.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of a connection that are looked at to tell what it speaks, if not HTTP/2.
const DETECT_BYTES: usize = 2_048;
/// How often connections are looked at for time-outs; each is seen once in ten sweeps.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// One worker thread.
struct Worker {
    poll: Poll,
    listener: Option<TcpListener>,
    commands: mpsc::Receiver<Command>,
    limits: Arc<Limits>,
    metrics: Arc<WorkerMetrics>,
    unknown_cluster: Arc<TrafficMetrics>,
    downstream_tcp: Arc<TcpMetrics>,
    upstream_tcp: Arc<TcpMetrics>,
    index: usize,
    seed: u64,

    mesh: Arc<Mesh>,
    /// Counts the meshes seen, so that a route found in an older one is looked up again.
    mesh_version: u64,
    clusters: Slab<ClusterState>,
    cluster_by_key: FxHashMap<ClusterKey, usize>,

    clients: Slab<Client>,
    upstreams: Slab<Upstream>,
    calls: Slab<Call>,
    next_serial: u64,
    timers: Timers<CallId>,

    /// Calls to be sent before this turn of the loop ends.
    to_send: VecDeque<CallId>,
    /// Endpoints for whose connections calls wait.
    waited_for: Vec<(usize, EndpointId)>,
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
    buffer: Vec<u8>,
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
                    None if event.token() == LISTENER => self.accept_again = true,
                    None => self.run_commands(),
                }
            }
            if self.accept_again {
                self.accept();
            }
            self.expire_deadlines();
            self.sweep();
            self.dispatch();
            self.flush_all();
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
            Side::Client => self.clients.get_mut(id.index).map(|client| &mut client.link),
            Side::Endpoint => self.upstreams.get_mut(id.index).map(|upstream| &mut upstream.link),
        }
    }

    fn link_and_metrics(&mut self, id: LinkId) -> Option<(&mut Link, &TcpMetrics)> {
        let metrics: &TcpMetrics = match id.side {
            Side::Client => &self.downstream_tcp,
            Side::Endpoint => &self.upstream_tcp,
        };
        match id.side {
            Side::Client => self.clients.get_mut(id.index).map(|client| (&mut client.link, metrics)),
            Side::Endpoint => self.upstreams.get_mut(id.index).map(|upstream| (&mut upstream.link, metrics)),
        }
    }

    fn on_ready(&mut self, id: LinkId, event: &mio::event::Event) {
        if id.side == Side::Endpoint && !self.finish_connecting(id.index) {
            return;
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
        if id.side == Side::Endpoint {
            self.retire(id.index);
        }
        if let Some(link) = self.link(id) {
            link.end_follows = true;
        }
        self.mark_unfinished(id);
    }

    fn read_on(&mut self, id: LinkId) {
        if let Some(link) = self.link(id) {
            link.unfinished = false;
        }
        self.read(id);
    }

    /// Reads once from a connection and acts on what came.
    fn read(&mut self, id: LinkId) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut fields = std::mem::take(&mut self.fields);
        let outcome = self.read_with(id, &mut buffer, &mut fields);
        self.buffer = buffer;
        self.fields = fields;
        match outcome {
            Ok(()) => self.mark_dirty(id),
            Err(Closed::End) => self.close(id, "the peer closed the connection"),
            Err(Closed::Socket(error)) => self.close(id, &error.to_string()),
            Err(Closed::Http2 { error, first_bytes }) => self.close_after_violation(id, error, &first_bytes),
        }
    }

    fn read_with(&mut self, id: LinkId, buffer: &mut [u8], fields: &mut FieldSection) -> Result<(), Closed> {
        let now = self.now;
        let Some((link, metrics)) = self.link_and_metrics(id) else { return Ok(()) };
        let filled = link.fill(now, buffer, metrics).map_err(Closed::Socket)?;
        let read = match filled {
            Fill::Last(n) => n,
            Fill::More(n) => {
                self.mark_unfinished(id);
                n
            }
            Fill::Empty => return Ok(()),
            Fill::End => return Err(Closed::End),
        };
        let bytes = &buffer[..read];
        let mut input = bytes;
        loop {
            let Some(link) = self.link(id) else { return Ok(()) };
            if link.closing_since.is_some() {
                return Ok(());
            }
            match link.http2.receive(now, &mut input, fields) {
                Ok(Some(event)) => match id.side {
                    Side::Client => self.on_client_event(id.index, &event, fields),
                    Side::Endpoint => self.on_endpoint_event(id.index, &event, fields),
                },
                Ok(None) => return Ok(()),
                Err(error) => {
                    let first_bytes = bytes[..bytes.len().min(DETECT_BYTES)].to_vec();
                    return Err(Closed::Http2 { error, first_bytes });
                }
            }
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
        let Some((link, metrics)) = self.link_and_metrics(id) else { return };
        link.dirty = false;
        if link.closing_since.is_some() {
            return;
        }
        if link.flush(now, metrics).is_err() {
            return self.read_to_end(id);
        }
        self.return_room(id);
        if self.link(id).is_some_and(|link| link.http2.is_drained() && !link.http2.wants_write()) {
            self.finish_link(id);
        }
    }

    /// A connection has ended, or must.
    fn close(&mut self, id: LinkId, why: &str) {
        match id.side {
            Side::Client => self.close_client(id.index),
            Side::Endpoint => self.close_upstream(id.index, why),
        }
    }

    /// A drained connection: everything is said, the peer closes.
    fn finish_link(&mut self, id: LinkId) {
        let now = self.now;
        if let Some((link, metrics)) = self.link_and_metrics(id) {
            link.begin_closing(now, b"", metrics);
        }
    }

    fn close_after_violation(&mut self, id: LinkId, error: ConnectionError, first_bytes: &[u8]) {
        match id.side {
            Side::Endpoint => {
                if let Some(upstream) = self.upstreams.get_mut(id.index) {
                    let _ = upstream.link.flush(self.now, &self.upstream_tcp);
                }
                self.close_upstream(id.index, &error.to_string());
            }
            Side::Client => self.dismiss_client(id.index, error, first_bytes),
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
enum Closed {
    End,
    Socket(io::Error),
    Http2 { error: ConnectionError, first_bytes: Vec<u8> },
}

/// The labels of calls, and of connections to endpoints, all of which are without TLS.
fn outbound_labels(target: Target) -> TrafficLabels {
    TrafficLabels { direction: Direction::Outbound, target, tls: Tls::None(NoTlsReason::NotInMesh) }
}

fn outbound_connection(peer: Peer) -> ConnectionLabels {
    let tls = match peer {
        Peer::Source => Tls::None(NoTlsReason::Loopback),
        Peer::Destination => Tls::None(NoTlsReason::NotInMesh),
    };
    ConnectionLabels { peer, traffic: TrafficLabels { tls, ..outbound_labels(Target::Unknown) } }
}

/// The label in metrics of a connection that was closed for what its client did.
fn violation_label(why: &Violation) -> &'static str {
    match why {
        Violation::Flood(flood) => flood.label(),
        Violation::BadPreface => "bad_preface",
        Violation::Protocol(_) => "protocol_error",
    }
}
