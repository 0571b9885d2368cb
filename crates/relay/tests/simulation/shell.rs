//! The event loop around the relay, over the simulated network and in virtual time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::Windows;
use leno_model::mesh::Mesh;
use leno_model::spiffe::SpiffeId;
use leno_relay::access_log::{AccessLog, Format, Queries};
use leno_relay::metrics::WorkerMetrics;
use leno_relay::trace::{Outbox, Sampling, Tracing};
use leno_relay::{Config, Effect, Id, LinkId, Relay, Relief, Settings, Slots};

use crate::arrival::{Arrival, Doors};
use crate::control::Control;
use crate::log::Traces;
use crate::mesh::{Bounds, DECLARED_PORT, HTTP_PORT};
use crate::net::{CableId, End, Net, Read};

/// The listeners to which a proxy connects.
pub(crate) trait Listen {
    /// Accepts a connection from a proxy. `from` is the proxy's identity, or `None` if a real connection would not use
    /// TLS. Returns whether there is a listener at `address`.
    fn accept(&mut self, address: SocketAddr, from: Option<&SpiffeId>, cable: CableId, net: &mut Net) -> bool;
}

/// Maximum number of bytes that are read at once.
pub(crate) const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) cable: CableId,
    /// The proxy's socket of the connection.
    pub(crate) end: End,
    pub(crate) carries: Carries,
    /// Time at which the connection is established or refused.
    pub(crate) connected_at: Option<Instant>,
    pub(crate) is_refused: bool,
    pub(crate) is_unfinished: bool,
    /// Whether the last write failed because the socket accepted no more bytes.
    pub(crate) is_blocked: bool,
    pub(crate) is_write_closed: bool,
    /// Whether a write has failed, because the peer has closed its socket and its kernel answers with a reset. The
    /// write has consumed the socket's error, so no event reports the error.
    pub(crate) has_failed: bool,
    /// Whether an event has reported the reset of the connection. A reset causes only one event.
    is_reset_told: bool,
}

/// The receiver of the bytes that arrive on a wire: the relay's link, or the detection of the protocol.
#[derive(Debug)]
pub(crate) enum Carries {
    Link(LinkId),
    /// An accepted connection whose protocol is not known yet.
    Arrival(Box<Arrival>),
}

pub(crate) type WireId = Id<Wire>;

impl Wire {
    pub(crate) fn new(cable: CableId, end: End, carries: Carries) -> Self {
        Self {
            cable,
            end,
            carries,
            connected_at: None,
            is_refused: false,
            is_unfinished: true,
            is_blocked: false,
            is_write_closed: false,
            has_failed: false,
            is_reset_told: false,
        }
    }

    pub(crate) fn link(&self) -> Option<LinkId> {
        match self.carries {
            Carries::Link(link) => Some(link),
            Carries::Arrival(_) => None,
        }
    }

    fn arrival(&self) -> Option<&Arrival> {
        match &self.carries {
            Carries::Link(_) => None,
            Carries::Arrival(arrival) => Some(arrival),
        }
    }
}

/// The process of a proxy: a relay, and the event loop around it.
pub(crate) struct Shell {
    own: Option<SpiffeId>,
    pub(crate) relay: Relay,
    pub(crate) wires: Slots<Wire>,
    pub(crate) clients: u16,
    pub(crate) doors: Doors,
    /// Whether the relay has held more memory than its budget although it had clients that it could disconnect.
    pub(crate) is_over_budget: bool,
    /// Traced calls that have ended; `None` if the relay traces no calls.
    pub(crate) traces: Option<Traces>,
    /// The control plane; `None` if the relay has the whole mesh from the start.
    control: Option<Control>,
    /// Number of discovery requests since [`Proxy`](crate::proxy::Proxy) last took and reset this number.
    pub(crate) questions: u64,
}

/// The sampling that traces every call.
const ALL: Sampling = Sampling { ratio: 1.0, slower_than: None, failed: false };

impl Shell {
    /// Starts a process with the identity `own`. If `discovers` is true, its relay starts without any part of `mesh`,
    /// and requests what it needs.
    pub(crate) fn new(
        mesh: Arc<Mesh>,
        discovers: bool,
        own: Option<&SpiffeId>,
        bounds: &Bounds,
        net: &mut Net,
    ) -> Self {
        let mut control = discovers.then(|| Control::new(mesh.clone(), net));
        let mesh = control.as_mut().map_or(mesh, Control::mesh);
        let metrics = WorkerMetrics::new();
        let outbox: Option<Arc<Outbox>> = net.random.bool().then(Arc::default);
        let config = Config {
            workers: 1,
            index: 0,
            own: own.cloned(),
            listening: Vec::new(),
            discovers,
            settings: Settings {
                opaque_ports: DECLARED_PORT.to_string().parse().expect("a port"),
                http_ports: HTTP_PORT.to_string().parse().expect("a port"),
                ..Settings::default()
            },
            access_log: AccessLog::on(Format::Json, Queries::Drop, metrics.clone()),
            limits: bounds.limits.clone(),
            memory_budget_bytes: bounds.memory_budget_bytes,
            metrics,
            tracing: outbox.clone().map(|outbox| Tracing { sampling: ALL, outbox }),
            spent_chains: Arc::default(),
            seed: net.random.u64(..),
        };
        Self {
            own: own.cloned(),
            relay: Relay::new(config, mesh, net.now),
            wires: Slots::default(),
            clients: 0,
            doors: Doors::new(net),
            is_over_budget: false,
            traces: outbox.map(Traces::new),
            control,
            questions: 0,
        }
    }

    /// Replaces the mesh. A relay with a control plane gets only the part of the new mesh that it has requested.
    pub(crate) fn set_mesh(&mut self, mesh: &Arc<Mesh>, net: &Net) {
        self.relay.set_now(net.now);
        self.relay.dispatch();
        match &mut self.control {
            Some(control) => {
                let (mesh, changes) = control.set_mesh(mesh.clone());
                self.relay.change_mesh(&mesh, &changes);
            }
            None => self.relay.set_mesh(mesh),
        }
    }

    /// Applies the control plane's answers that are due, and reports which of the answers the relay uses.
    fn discover(&mut self, net: &mut Net) {
        let Some(control) = &mut self.control else { return };
        if let Some((mesh, changes)) = control.advance(net) {
            self.relay.dispatch();
            self.relay.change_mesh(&mesh, &changes);
        }
        if control.wants_usage(net) {
            let mut usage = self.relay.report_usage();
            let arrivals = self.wires.iter().filter_map(|(_, wire)| wire.arrival());
            usage.in_use.extend(arrivals.filter_map(Arrival::subject));
            control.take_usage(&usage, net);
        }
    }

    /// Returns the number of answers that the control plane has withdrawn since the last call of this function.
    pub(crate) fn take_forgotten(&mut self) -> u64 {
        self.control.as_mut().map_or(0, |control| std::mem::take(&mut control.forgotten))
    }

    /// Returns whether the control plane refuses some discovery requests or never answers them.
    pub(crate) fn has_lost_answers(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.has_lost_answers)
    }

    /// Begins a drain: the relay asks all clients to use other connections, and must have finished by `until`.
    pub(crate) fn drain(&mut self, until: Instant, net: &Net) {
        self.relay.set_now(net.now);
        self.relay.begin_drain(until);
    }

    /// Returns whether a drain is over.
    pub(crate) fn is_drained(&self, net: &Net) -> bool {
        self.relay.draining().is_some_and(|until| net.now >= until || !self.has_work())
    }

    /// Returns whether clients are connected, or whether the relay still sends the rest of a request to a server that
    /// has answered early.
    pub(crate) fn has_work(&self) -> bool {
        let has_arrivals = || self.wires.iter().any(|(_, wire)| wire.link().is_none());
        self.relay.has_work() || has_arrivals()
    }

    /// Cuts off all calls, as a worker does when it ends.
    pub(crate) fn cut_off(&mut self, net: &mut Net, servers: &mut impl Listen) {
        self.relay.cut_off();
        self.flush_all(net, servers);
    }

    /// Ends the process: the kernel closes its sockets.
    pub(crate) fn end(self, net: &mut Net) {
        for (_, wire) in self.wires.iter() {
            net.close(wire.cable, wire.end);
        }
    }

    /// Returns the number of calls in flight.
    pub(crate) fn calls(&self) -> usize {
        self.relay.explain().iter().map(|cluster| cluster.calls).sum()
    }

    /// Returns the number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.wires.iter().count()
    }

    /// See [`Proxy::windows`](crate::proxy::Proxy::windows).
    pub(crate) fn windows(&mut self, cable: CableId) -> Option<Windows> {
        // Skip connections with unread bytes: the bytes may still change the relay's windows.
        let (_, wire) = self.wires.iter().find(|(_, wire)| wire.cable == cable && !wire.is_unfinished)?;
        self.relay.link(wire.link()?)?.windows()
    }

    /// Runs one turn of the event loop.
    pub(crate) fn turn(&mut self, net: &mut Net, servers: &mut impl Listen) {
        self.relay.set_now(net.now);
        self.discover(net);
        let ids: Vec<WireId> = self.wires.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.serve(id, net);
        }
        self.carry_out(net, servers);
        self.relay.recall_clients();
        self.relay.expire_deadlines();
        self.relay.sweep();
        self.relay.dispatch();
        self.flush_all(net, servers);
        if self.relay.exceeds_budget() {
            let mut relief = Relief::default();
            while self.relay.relieve(&mut relief) {
                self.flush_all(net, servers);
            }
            self.is_over_budget |= self.relay.exceeds_budget() && !self.relay.has_no_clients();
        }
    }

    fn serve(&mut self, id: WireId, net: &mut Net) {
        let Some(wire) = self.wires.get_mut(id) else { return };
        let Some(link) = wire.link() else { return self.serve_arrival(id, net) };
        if let Some(at) = wire.connected_at {
            if at > net.now {
                return;
            }
            wire.connected_at = None;
            if let LinkId::Endpoint(upstream) = link {
                if wire.is_refused {
                    return self.relay.close_upstream(upstream, "refused");
                }
                self.relay.connected(upstream);
            }
        }
        // Let half of the resets arrive after the poll for events and before the writes of this turn.
        if net.is_reset(wire.cable) && !wire.is_reset_told && net.random.bool() {
            wire.is_reset_told = true;
            wire.is_unfinished = true;
            if !wire.has_failed {
                self.relay.socket_failed(link);
            }
            self.relay.end_follows(link);
        }
        if wire.is_blocked && net.is_writable(wire.cable, wire.end) {
            wire.is_blocked = false;
            self.relay.mark_dirty(link);
        }
        // Read several times in a turn, because several events may arrive.
        for _ in 0..3 {
            self.read(id, net);
        }
    }

    pub(crate) fn read(&mut self, id: WireId, net: &mut Net) {
        let Some(wire) = self.wires.get_mut(id) else { return };
        let (Some(link), cable, end) = (wire.link(), wire.cable, wire.end) else { return };
        let (is_reset, has_failed) = (net.is_reset(cable), wire.has_failed);
        // As in a real worker, read a socket only after an event of the network or of the relay, even if bytes are
        // unread.
        let has_event = net.take_event(cable, end);
        if !std::mem::take(&mut wire.is_unfinished) && !has_event {
            return;
        }
        let Some(most) = self.relay.begin_read(link) else { return };
        match net.read(cable, end, most.min(READ_BYTES)) {
            Read::Bytes(bytes) => {
                if let Some(wire) = self.wires.get_mut(id) {
                    wire.is_unfinished = net.is_readable(cable, end);
                }
                self.relay.receive(link, &bytes);
            }
            Read::Nothing | Read::End if is_reset => self.relay.close(link, "the peer reset the connection"),
            Read::Nothing if has_failed => self.relay.close(link, "the peer reset the connection"),
            Read::Nothing => self.relay.receive(link, &[]),
            Read::End => {
                self.relay.end_follows(link);
                self.relay.receive_end(link);
            }
        }
    }

    pub(crate) fn close(&mut self, id: WireId, net: &mut Net) {
        self.doors.places.leave(id);
        if let Some(wire) = self.wires.remove(id) {
            // The socket has not accepted all output. The rest is lost now, so the peer must see a reset.
            if wire.is_blocked {
                net.reset(wire.cable);
            }
            net.close(wire.cable, wire.end);
        }
    }

    /// Writes the output of all connections, until no connection has output.
    fn flush_all(&mut self, net: &mut Net, servers: &mut impl Listen) {
        loop {
            while let Some(id) = self.relay.next_dirty() {
                self.flush(id, net);
            }
            self.relay.serve_waiting();
            self.carry_out(net, servers);
            if !self.relay.has_dirty() {
                return;
            }
        }
    }

    fn flush(&mut self, id: LinkId, net: &mut Net) {
        let Some(link) = self.relay.link(id) else { return };
        let Some(wire_id) = link.wire().map(Id::cast) else { return };
        let Some(wire) = self.wires.get_mut(wire_id) else { return };
        let mut has_failed = false;
        while !wire.is_write_closed && !link.is_unwritable() {
            let output = link.output();
            if output.is_empty() {
                link.note_flushed(net.now, false);
                break;
            }
            match net.write(wire.cable, wire.end, output) {
                Some(0) => {
                    link.note_flushed(net.now, true);
                    wire.is_blocked = true;
                    break;
                }
                Some(written) => link.note_written(written),
                None => {
                    has_failed = true;
                    break;
                }
            }
        }
        if (link.is_closing() || link.is_finished()) && !link.is_aborted() && !link.is_blocked() {
            wire.is_write_closed = true;
            net.close_write(wire.cable, wire.end);
        }
        wire.has_failed |= has_failed;
        if has_failed && !link.is_closing() {
            link.note_unwritable();
            wire.is_unfinished = true;
            return self.relay.end_follows(id);
        }
        self.relay.flushed(id);
    }

    fn carry_out(&mut self, net: &mut Net, servers: &mut impl Listen) {
        loop {
            let effects = self.relay.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Connect { upstream, address, tls, .. } => {
                        if !self.relay.has_upstream(upstream) {
                            continue;
                        }
                        let cable = net.open();
                        let from = self.own.as_ref().filter(|_| tls.is_some());
                        let is_refused = !servers.accept(address, from, cable, net);
                        let way = Duration::from_micros(net.random.u64(50..5_000));
                        let mut wire = Wire::new(cable, End::Near, Carries::Link(LinkId::Endpoint(upstream)));
                        wire.connected_at = Some(net.now + way);
                        wire.is_refused = is_refused;
                        let wire = self.wires.insert(wire);
                        self.relay.attach_upstream(upstream, wire.cast(), address);
                    }
                    Effect::ReadOn(wire) => {
                        if let Some(wire) = self.wires.get_mut(wire.cast::<Wire>()) {
                            wire.is_unfinished = true;
                        }
                    }
                    Effect::WriteLast(wire, bytes) => {
                        if let Some(wire) = self.wires.get(wire.cast::<Wire>()) {
                            net.write(wire.cable, wire.end, &bytes);
                        }
                    }
                    Effect::Close(wire) => self.close(wire.cast(), net),
                    Effect::Settle(wire) => self.doors.places.settle(wire.cast()),
                    Effect::Abort(wire) => {
                        if let Some(wire) = self.wires.get(wire.cast::<Wire>()) {
                            net.reset(wire.cable);
                        }
                    }
                    Effect::Count(..) => {}
                    Effect::Recall { wire, origin, first } => self.recall(wire.cast(), origin, first, net),
                    Effect::Ask(subject) => {
                        let control = self.control.as_mut().expect("only a relay with a control plane asks");
                        self.questions += 1;
                        if !control.ask(subject.clone(), net) {
                            self.relay.refuse_question(&subject, true);
                        }
                    }
                }
            }
        }
    }

    /// Returns the time of the next turn.
    pub(crate) fn next(&self, net: &Net) -> Instant {
        let is_held = |wire: &Wire| wire.arrival().is_some_and(|arrival| arrival.is_held);
        let has_event =
            |wire: &Wire| !is_held(wire) && (wire.is_unfinished || (net.is_reset(wire.cable) && !wire.is_reset_told));
        if self.wires.iter().any(|(_, wire)| wire.connected_at.is_none() && has_event(wire)) {
            return net.now + Duration::from_micros(1);
        }
        let connects = self.wires.iter().filter_map(|(_, wire)| wire.connected_at).min();
        let due = net.now + self.relay.wait().max(Duration::from_micros(1));
        let control = self.control.as_ref().and_then(Control::next);
        connects.into_iter().chain(control).fold(due, Instant::min).max(net.now + Duration::from_micros(1))
    }
}
