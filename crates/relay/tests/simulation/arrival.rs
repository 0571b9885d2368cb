//! Accepted connections whose protocol is not known yet, and the places of accepted connections. A place is one unit of
//! a listener's connection limit.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_accept::{Entry, Places};
use leno_model::discovery::Subject;
use leno_model::protocol::Protocol;
use leno_model::spiffe::SpiffeId;
use leno_relay::detect::{Detected, detect};
use leno_relay::limits::ms;
use leno_relay::{Accepted, Contents, Door, GOAWAY_GRACE, Inspection, LinkId, Origin, SWEEP_EVERY, Speaks};

use crate::net::{CableId, End, Net, Read};
use crate::parts::Part;
use crate::shell::{Carries, READ_BYTES, Shell, Wire, WireId};

/// Longest time from the loss of a connection's place until the connection's end. It is the sum of the time for the
/// connection's calls, the wait for the client to close, and the waits for two sweeps.
const ENDS_WITHIN: Duration = Duration::from_secs(9);

/// The places of a listener's connections.
pub(crate) struct Doors {
    pub(crate) places: Places<IpAddr, WireId>,
    /// Connections that have lost their place and finish their calls, each with the time since it lost the place.
    yielding: Vec<(WireId, Duration)>,
    max_yielding: usize,
    /// Next time at which a random client's connection loses its place. In a real worker, a newer connection would take
    /// the place; the simulation needs no such connection.
    pub(crate) yield_at: Option<Instant>,
    last_turn: Instant,
    /// Whether any connection has lost its place in the listener so far.
    pub(crate) have_yielded: bool,
    /// Whether any connection was closed at once when it lost its place in the listener, because too many other
    /// connections were finishing their calls. The open calls of the closed connection, if any, were cut off.
    pub(crate) have_cut: bool,
}

impl Doors {
    pub(crate) fn new(net: &mut Net) -> Self {
        let has_few = net.random.u8(..4) == 0 && net.parts.has(Part::FewPlaces);
        let capacity = if has_few { net.random.usize(1..4) } else { 1_000 };
        let max_yielding = if net.random.u8(..3) == 0 { net.random.usize(..3) } else { 256 };
        Self {
            places: Places::new(capacity),
            yielding: Vec::new(),
            max_yielding,
            yield_at: has_few.then(|| net.now + Duration::from_micros(net.random.u64(..100_000))),
            last_turn: net.now,
            have_yielded: false,
            have_cut: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Arrival {
    origin: Origin,
    target: Option<SocketAddr>,
    identity: Option<SpiffeId>,
    since: Instant,
    first: Vec<u8>,
    /// Whether the connection is not read until the control plane has answered the question about its destination.
    pub(crate) is_held: bool,
    /// When the connection was accepted, if it was not read at first.
    held_since: Option<Instant>,
    /// Whether the relay has wrongly guessed that the connection is opaque.
    was_guessed: bool,
}

impl Arrival {
    /// Returns the question about the destination.
    pub(crate) fn subject(&self) -> Option<Subject> {
        let destination = self.origin.original_destination.filter(|_| self.origin.door == Door::Outbound);
        destination.map(Subject::Address)
    }
}

/// The destination of a connection that a proxy accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum To {
    /// The proxy's own application has opened the connection, to this address of a Service. `None` if only the calls
    /// name the Service.
    Mesh(Option<SocketAddr>),
    /// The proxy's own application, at this address.
    Application(SocketAddr),
    /// The tunnel port of the proxy, at this address.
    Tunnel(SocketAddr),
}

/// The client of a connection that a proxy accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From<'a> {
    pub(crate) ip: IpAddr,
    /// The identity that a handshake has proved.
    pub(crate) identity: Option<&'a SpiffeId>,
}

impl Shell {
    /// Accepts a connection. Returns whether there is a place for the connection.
    pub(crate) fn accept(&mut self, cable: CableId, from: From, to: To, net: &mut Net) -> bool {
        self.clients += 1;
        let peer = SocketAddr::from((from.ip, 10_000 + self.clients));
        let (door, local, target) = match to {
            To::Mesh(target) => (Door::Outbound, SocketAddr::from(([127, 0, 0, 1], 4140)), target),
            To::Application(address) => (Door::Inbound, SocketAddr::new(address.ip(), 4143), Some(address)),
            To::Tunnel(address) => (Door::Tunnel, address, None),
        };
        let origin = Origin { door, peer, local, original_destination: target };
        let identity = from.identity.cloned();
        self.relay.set_now(net.now);
        let is_held = door == Door::Outbound && self.relay.asks_first(&origin);
        let arrival = Arrival {
            origin,
            target,
            identity,
            since: net.now,
            first: Vec::new(),
            is_held,
            held_since: None,
            was_guessed: false,
        };
        let mut wire = Wire::new(cable, End::Far, Carries::Arrival(Box::new(arrival)));
        wire.is_unfinished = false;
        let id = self.wires.insert(wire);
        match self.doors.places.enter(from.ip, id) {
            Entry::Free => {}
            Entry::Replaces(other) => self.yield_place(other, net),
            Entry::Full => {
                self.wires.remove(id);
                return false;
            }
        }
        true
    }

    /// Takes a client's place away, if the time for this has come.
    pub(crate) fn take_place(&mut self, net: &mut Net) {
        if self.doors.yield_at.take_if(|at| *at <= net.now).is_none() {
            return;
        }
        let is_yielding = |id: WireId| self.doors.yielding.iter().any(|(other, _)| *other == id);
        let clients = self.wires.iter().filter(|(_, wire)| matches!(wire.link(), Some(LinkId::Client(_))));
        let clients: Vec<_> = clients.map(|(id, _)| id).filter(|id| !is_yielding(*id)).collect();
        if let Some(id) = net.random.choice(clients) {
            self.doors.places.leave(id);
            self.yield_place(id, net);
            self.doors.yield_at = Some(net.now + Duration::from_micros(net.random.u64(..100_000)));
        }
    }

    /// Ends a connection that has lost its place, as the worker does.
    fn yield_place(&mut self, id: WireId, net: &mut Net) {
        self.doors.have_yielded = true;
        let Some(wire) = self.wires.get(id) else { return };
        match wire.link() {
            None => self.close(id, net),
            Some(LinkId::Client(client)) => {
                self.relay.set_now(net.now);
                let may_finish = self.doors.yielding.len() < self.doors.max_yielding;
                if self.relay.yield_place(client, may_finish) {
                    self.doors.yielding.push((id, Duration::ZERO));
                } else {
                    self.doors.have_cut |= !may_finish;
                }
            }
            Some(LinkId::Endpoint(_)) => {}
        }
    }

    /// Returns an error if a connection lost its place long ago and is still open. Time for which the machine was
    /// suspended does not count.
    pub(crate) fn check_yielding(&mut self, net: &Net) -> Result<(), String> {
        let passed = (net.now - std::mem::replace(&mut self.doors.last_turn, net.now)).min(SWEEP_EVERY);
        let wires = &self.wires;
        self.doors.yielding.retain(|(id, _)| wires.get(*id).is_some());
        self.doors.yielding.iter_mut().for_each(|(_, time)| *time += passed);
        match self.doors.yielding.iter().find(|(_, time)| *time > ENDS_WITHIN) {
            Some((_, time)) => Err(format!("a connection has lost its place, and is not closed after {time:?}")),
            None => Ok(()),
        }
    }

    /// Reads from a connection whose protocol is not known yet. As a worker does, then serves the connection, ends it,
    /// or waits for more bytes.
    pub(crate) fn serve_arrival(&mut self, id: WireId, net: &mut Net) {
        let Some(Wire { carries: Carries::Arrival(arrival), cable, end, is_unfinished, .. }) = self.wires.get_mut(id)
        else {
            return;
        };
        if arrival.is_held {
            if self.relay.awaits_answer(&arrival.origin, arrival.since) {
                return;
            }
            arrival.is_held = false;
            arrival.held_since = Some(std::mem::replace(&mut arrival.since, net.now));
        }
        if arrival.identity.is_some() {
            // TLS has negotiated HTTP/2.
            return self.admit(id, Speaks::Http2, net);
        }
        if self.relay.inspection(&arrival.origin) == Inspection::Nothing {
            return self.admit(id, Speaks::Opaque(Contents::Unknown), net);
        }
        let read = net.read(*cable, *end, READ_BYTES);
        *is_unfinished = net.is_readable(*cable, *end);
        let has_ended = matches!(read, Read::End);
        if has_ended {
            net.put_back_end(*cable, *end);
        }
        if let Read::Bytes(bytes) = read {
            arrival.first.extend(bytes);
        }
        let Some(Wire { carries: Carries::Arrival(arrival), .. }) = self.wires.get(id) else { return };
        let declared_http = self.relay.declared_http(&arrival.origin);
        let is_silent = arrival.first.is_empty();
        match detect(&arrival.first) {
            Detected::Http2 => self.admit(id, Speaks::Http2, net),
            Detected::Http1 => self.admit(id, Speaks::Http1, net),
            Detected::Tls { server_name } => {
                self.admit(id, Speaks::Opaque(Contents::Tls(server_name.map(Into::into))), net);
            }
            Detected::Opaque if arrival.origin.door == Door::Inbound && declared_http.is_some() => self.close(id, net),
            Detected::Opaque => self.admit(id, Speaks::Opaque(Contents::Unknown), net),
            Detected::Undecided if has_ended && is_silent => self.close(id, net),
            Detected::Undecided if !has_ended && is_silent && self.is_servers_turn(arrival, net) => {
                self.admit(id, Speaks::Nothing, net);
            }
            Detected::Undecided if has_ended || self.is_late(arrival, net) => {
                let is_draining = self.relay.draining().is_some();
                match declared_http {
                    _ if !has_ended && (is_draining || arrival.target.is_none()) => self.close(id, net),
                    Some(Protocol::Http2) => self.admit(id, Speaks::Http2, net),
                    Some(_) => self.admit(id, Speaks::Http1, net),
                    None => self.admit(id, Speaks::Opaque(Contents::Unknown), net),
                }
            }
            Detected::Undecided => {}
        }
    }

    /// Returns whether the client has not shown its protocol in time.
    fn is_late(&self, arrival: &Arrival, net: &Net) -> bool {
        let is_draining = self.relay.draining().is_some();
        let limit = if is_draining { GOAWAY_GRACE } else { ms(self.relay.limits().relay.detect_timeout_ms) };
        net.now - arrival.since >= limit
    }

    /// Returns whether the relay should connect to the server of a silent client, so that the server can send first.
    fn is_servers_turn(&self, arrival: &Arrival, net: &Net) -> bool {
        let Some(destination) = arrival.origin.original_destination else { return false };
        let is_due = net.now - arrival.since >= ms(self.relay.limits().relay.server_first_after_ms);
        (is_due || self.relay.speaks_first(destination))
            && !arrival.was_guessed
            && self.relay.may_guess(&arrival.origin)
    }

    /// Makes an accepted connection a client's connection, now that its protocol is known.
    fn admit(&mut self, id: WireId, speaks: Speaks, net: &mut Net) {
        let Some(Wire { carries: Carries::Arrival(arrival), .. }) = self.wires.get_mut(id) else { return };
        let first = std::mem::take(&mut arrival.first);
        let (origin, target) = (arrival.origin, arrival.target);
        let (opened, held_since) = (arrival.since, arrival.held_since);
        let peer_id = arrival.identity.take().map(Arc::new);
        let has_tls = peer_id.is_some();
        let accepted =
            Accepted { wire: id.cast(), origin, target, peer_id, has_tls, speaks, first, opened, held_since };
        let client = self.relay.add_client(accepted);
        if let Some(wire) = self.wires.get_mut(id) {
            wire.carries = Carries::Link(LinkId::Client(client));
        }
        self.read(id, net);
        self.relay.shut_down_if_draining(client);
        if let Some(wire) = self.wires.get_mut(id) {
            wire.is_unfinished = true;
        }
    }

    /// Makes a client's connection an arrival again, because its protocol was guessed wrong.
    pub(crate) fn recall(&mut self, id: WireId, origin: Origin, first: Vec<u8>, net: &Net) {
        if let Some(wire) = self.wires.get_mut(id) {
            let target = origin.original_destination;
            let arrival = Arrival {
                origin,
                target,
                identity: None,
                since: net.now,
                first,
                is_held: false,
                held_since: None,
                was_guessed: true,
            };
            wire.carries = Carries::Arrival(Box::new(arrival));
            wire.is_unfinished = true;
        }
    }
}
