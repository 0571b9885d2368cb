//! Arrival: a new connection whose protocol is not known yet. This module detects the protocol. It terminates TLS,
//! unless the client has addressed the TLS to an application. Then it turns the arrival into a client's connection.

use std::net::SocketAddr;
use std::sync::Arc;

use leno_model::protocol::Protocol;
use leno_model::spiffe::SpiffeId;
use leno_relay::detect::{Detected, begins_tls, detect};
use leno_relay::failure::ConnectionFailure;
use leno_relay::limits::ms;
use leno_relay::{Accepted, Contents, Door, Inspection, LinkId, Origin, Speaks};

use super::Worker;
use super::accept::{Arrival, ArrivalId};
use super::meter::Meter;
use super::places::Full;
use super::tls::{SERVER_NAME_SUFFIX, Tls};
use super::trust::{Peer, id_shown};
use super::wire::{Carries, Fill, WireError, WireId};

/// The worker's next step for an arrival.
enum Step {
    Wait,
    /// Begin the TLS handshake: the TLS is addressed to the proxy. `port` is the target port in the server name.
    Begin {
        tls: Box<Tls>,
        port: Option<u16>,
    },
    Admit(Speaks),
    Refuse(ConnectionFailure),
}

impl Worker {
    /// Reads from an arrival and takes the next step. Called for each poll event of the arrival's socket, and when the
    /// socket may have more bytes.
    pub(super) fn read_arrival(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        if arrival.is_held {
            return self.charge_arrival(id);
        }
        if self.is_opaque(arrival) {
            return self.admit_opaque(id);
        }
        let Some(arrival) = self.arrivals.get_mut(id) else { return };
        let Some(wire) = self.wires.get_mut(arrival.wire) else { return };
        let (mut ended, mut more) = (false, false);
        let mut outcome = match wire.read(usize::MAX, &mut self.buffers) {
            Ok(Fill::Bytes { bytes, more: follows }) => {
                arrival.first.extend_from_slice(bytes);
                more = follows;
                Ok(())
            }
            Ok(Fill::End) => {
                ended = true;
                Ok(())
            }
            Err(error) => Err(error),
        };
        if wire.tls.is_some() {
            // The flush also sends alerts, which tell the peer why TLS failed.
            let flushed = wire.flush_tls(&mut self.buffers);
            outcome = outcome.and(flushed);
        }
        self.charge_arrival(id);
        match outcome {
            Ok(()) => self.step_arrival(id, ended, more),
            Err(WireError::Socket(_)) => self.drop_arrival(id),
            Err(WireError::Tls(error)) => self.refuse(id, ConnectionFailure::Handshake(error)),
        }
    }

    fn step_arrival(&mut self, id: ArrivalId, ended: bool, more: bool) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        let nothing_came = arrival.first.is_empty();
        match self.next_step(id) {
            Step::Wait if ended && self.is_in_handshake(id) => self.refuse(id, ConnectionFailure::HandshakeCut),
            Step::Wait if ended && nothing_came => self.drop_arrival(id),
            // The client sends nothing more, and its bytes match no protocol that the proxy knows.
            Step::Wait if ended => self.admit_undetected(id),
            Step::Wait if nothing_came && self.is_servers_turn(arrival) => self.admit_client(id, Speaks::Nothing),
            Step::Wait => {
                if more {
                    self.mark_unfinished_arrival(id);
                }
            }
            Step::Begin { tls, port } => self.begin_tls(id, tls, port),
            Step::Admit(speaks) => self.admit_client(id, speaks),
            Step::Refuse(failure) => self.refuse(id, failure),
        }
    }

    fn is_in_handshake(&self, id: ArrivalId) -> bool {
        self.arrivals.get(id).is_some_and(|arrival| self.tls_of(arrival).is_some())
    }

    fn next_step(&self, id: ArrivalId) -> Step {
        let Some(arrival) = self.arrivals.get(id) else { return Step::Wait };
        if let Some(tls) = self.tls_of(arrival) {
            return match (tls.is_established(), tls.is_http2()) {
                (false, _) => Step::Wait,
                (true, true) => Step::Admit(Speaks::Http2),
                (true, false) => Step::Refuse(ConnectionFailure::NoAlpn),
            };
        }
        let first = &arrival.first;
        let is_no_tls = !first.is_empty() && !begins_tls(first);
        if is_no_tls && self.relay.inspection(&arrival.origin) == Inspection::ServerName {
            return Step::Admit(Speaks::Opaque(Contents::Unknown));
        }
        match (detect(first), arrival.origin.door) {
            (Detected::Undecided, _) => Step::Wait,
            (Detected::Tls { server_name }, Door::Inbound) if is_ours(server_name.as_deref()) => {
                self.begin(&arrival.origin, server_name.as_deref())
            }
            (Detected::Tls { server_name }, Door::Tunnel) => self.begin(&arrival.origin, server_name.as_deref()),
            (_, Door::Tunnel) => Step::Refuse(ConnectionFailure::PlaintextInTunnel),
            (Detected::Tls { server_name }, _) => {
                Step::Admit(Speaks::Opaque(Contents::Tls(server_name.map(Into::into))))
            }
            (Detected::Http2, _) => Step::Admit(Speaks::Http2),
            (Detected::Http1, _) => Step::Admit(Speaks::Http1),
            (Detected::Opaque, Door::Inbound) if self.relay.declared_http(&arrival.origin).is_some() => {
                Step::Refuse(ConnectionFailure::NotHttp)
            }
            (Detected::Opaque, _) => Step::Admit(Speaks::Opaque(Contents::Unknown)),
        }
    }

    /// Calls [`Self::review_arrival`] for the arrivals for which `due` returns `true`.
    pub(super) fn review_arrivals(&mut self, due: impl Fn(&Arrival) -> bool) {
        let due = self.arrivals.iter().filter(|(_, arrival)| due(arrival)).map(|(id, _)| id);
        for id in due.collect::<Vec<_>>() {
            self.review_arrival(id);
        }
    }

    /// Ends the wait of a held connection, if the control plane has answered or takes too long to answer. Also
    /// continues a connection that is now known to be opaque, even if its client has sent no bytes. In both cases, the
    /// worker reads the connection in its next turn.
    pub(super) fn review_arrival(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        if arrival.is_held && self.relay.awaits_answer(&arrival.origin, arrival.since) {
            return;
        }
        if !arrival.is_held && !self.is_opaque(arrival) {
            return;
        }
        if let Some(arrival) = self.arrivals.get_mut(id).filter(|arrival| arrival.is_held) {
            arrival.is_held = false;
            arrival.held_since = Some(std::mem::replace(&mut arrival.since, self.relay.now()));
        }
        self.mark_unfinished_arrival(id);
    }

    /// Returns whether the connection is opaque, so that the worker need not detect its protocol.
    fn is_opaque(&self, arrival: &Arrival) -> bool {
        self.tls_of(arrival).is_none() && self.relay.inspection(&arrival.origin) == Inspection::Nothing
    }

    fn begin(&self, origin: &Origin, server_name: Option<&str>) -> Step {
        let Some(identity) = &self.identity else { return Step::Refuse(ConnectionFailure::NoIdentity) };
        let port = server_name.and_then(target_port);
        let config = if self.is_for_members(origin, port) { &identity.strict_server } else { &identity.server };
        match Tls::accept(config) {
            Ok(tls) => Step::Begin { tls: Box::new(tls), port },
            Err(error) => Step::Refuse(ConnectionFailure::Handshake(error)),
        }
    }

    /// Returns whether the client must have a certificate, because through the proxy it could reach ports of the
    /// application that it could not reach directly.
    ///
    /// - Tunnel: always.
    /// - Inbound connection that netfilter redirected: no. It reaches only the port to which the client opened it.
    /// - Other inbound connection: only if its server name contains a port that is not a port of the proxy itself.
    ///   Without such a port, the connection reaches no application. `leno identity` opens such connections to read our
    ///   certificate.
    /// - Outbound connection: no.
    fn is_for_members(&self, origin: &Origin, named_port: Option<u16>) -> bool {
        let local = origin.local.ip();
        let leads_nowhere = || named_port.is_none_or(|port| self.relay.is_own(SocketAddr::new(local, port), local));
        match origin.door {
            Door::Tunnel => true,
            Door::Inbound => origin.original_destination.is_none() && !leads_nowhere(),
            Door::Outbound => false,
        }
    }

    /// Begins the TLS handshake. Its first input is the ClientHello, which the worker has received already to detect
    /// TLS.
    fn begin_tls(&mut self, id: ArrivalId, mut tls: Box<Tls>, port: Option<u16>) {
        let Some(arrival) = self.arrivals.get_mut(id) else { return };
        let mut hello = std::mem::take(&mut arrival.first);
        arrival.named_port = port;
        let opened = tls.open(&mut hello, &mut arrival.first);
        if let Some(wire) = self.wires.get_mut(arrival.wire) {
            wire.tls = Some(tls);
            let _ = wire.flush_tls(&mut self.buffers);
        }
        self.charge_arrival(id);
        match opened {
            Ok(()) => self.mark_unfinished_arrival(id),
            Err(error) => self.refuse(id, ConnectionFailure::Handshake(error)),
        }
    }

    /// Admits a connection as opaque, without waiting for more bytes: the proxy relays its bytes unchanged.
    fn admit_opaque(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        let contents = if begins_tls(&arrival.first) { Contents::Tls(None) } else { Contents::Unknown };
        self.admit_client(id, Speaks::Opaque(contents));
    }

    /// Makes the arrival a client's connection, now that its protocol is known.
    fn admit_client(&mut self, id: ArrivalId, speaks: Speaks) {
        let Some(arrival) = self.arrivals.remove(id) else { return };
        self.discharge_arrival(&arrival);
        let Arrival { wire, origin, first, named_port, since, held_since, is_outdated, .. } = arrival;
        let peer_id = match self.place_of_peer(wire) {
            Ok(peer_id) => peer_id.map(Arc::new),
            Err(failure) => {
                self.close_wire(wire);
                return self.relay.report(origin, *failure);
            }
        };
        let named = named_port.map(|port| SocketAddr::new(origin.local.ip(), port));
        let target = origin.original_destination.or(named);
        if let (Some(id), Some(wire)) = (&peer_id, self.wires.get_mut(wire)) {
            let mut peer = Box::new(Peer::client(SpiffeId::clone(id), origin.peer.ip()));
            peer.note_client(wire.tls.as_deref(), &self.standing);
            wire.peer = Some(peer);
        }
        let has_tls = self.tls_on(wire).is_some();
        let client = self.relay.add_client(Accepted {
            wire: wire.cast(),
            origin,
            target,
            peer_id,
            has_tls,
            speaks,
            first,
            opened: since,
            held_since,
        });
        let link = LinkId::Client(client);
        if let Some(wire) = self.wires.get_mut(wire) {
            wire.limit_unread(self.relay.unread_limit(link));
        }
        self.attach(wire, Carries::Link(link));
        if is_outdated {
            self.recheck.add(wire);
        }
        self.read(wire, link);
        self.relay.shut_down_if_draining(client);
        self.mark_unfinished(wire);
    }

    /// Returns the identity that a client has proved; `None` without a certificate. With a certificate, also moves the
    /// connection to the pool for clients with a certificate. Call this after the TLS handshake, or for a connection
    /// without TLS.
    fn place_of_peer(&mut self, wire: WireId) -> Result<Option<SpiffeId>, Box<ConnectionFailure>> {
        let tls = self.tls_on(wire);
        let has_tls = tls.is_some();
        let peer_id = id_shown(tls)?;
        match &peer_id {
            Some(id) => self.take_member_place(wire, id).map_err(|Full| Box::new(ConnectionFailure::NoPlace))?,
            // A complete handshake, even without a certificate, ends the time in which the pool treats the connection
            // as silent.
            None if has_tls => self.doors.settle(wire),
            None => {}
        }
        Ok(peer_id)
    }

    /// Makes a client's connection an arrival again: the worker had guessed that the server speaks first, and the guess
    /// was wrong.
    pub(super) fn recall(&mut self, wire_id: WireId, origin: Origin, first: Vec<u8>) {
        let now = self.relay.now();
        let Some(wire) = self.wires.get_mut(wire_id) else { return };
        wire.meter.close(now);
        wire.meter = Meter::new(now);
        let arrival = Arrival {
            wire: wire_id,
            origin,
            since: now,
            is_held: false,
            held_since: None,
            first,
            named_port: None,
            is_outdated: false,
            was_guessed: true,
            late_looks: 0,
            charged_bytes: 0,
        };
        let id = self.arrivals.insert(arrival);
        self.charge_arrival(id);
        self.attach(wire_id, Carries::Arrival(id));
        self.mark_unfinished(wire_id);
    }

    /// Returns whether the worker should connect to the server of a silent arrival, so that the server can send first.
    pub(super) fn is_servers_turn(&self, arrival: &Arrival) -> bool {
        let Some(destination) = arrival.origin.original_destination else { return false };
        let waited = self.relay.now().saturating_duration_since(arrival.since);
        let is_due = waited >= ms(self.relay.limits().relay.server_first_after_ms);
        let is_silent = arrival.first.is_empty() && !arrival.is_held && !arrival.was_guessed;
        (is_due || self.relay.speaks_first(destination))
            && is_silent
            && self.tls_of(arrival).is_none()
            && self.relay.may_guess(&arrival.origin)
    }

    /// Lists an arrival to be read in the next turn.
    fn mark_unfinished_arrival(&mut self, id: ArrivalId) {
        if let Some(wire) = self.arrivals.get(id).map(|arrival| arrival.wire) {
            self.mark_unfinished(wire);
        }
    }

    /// Decides what to do with a connection whose protocol was not detected in time. A silent client may be waiting for
    /// a server that speaks first.
    pub(super) fn decide_late(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        if self.tls_of(arrival).is_some() || arrival.origin.door == Door::Tunnel {
            return self.refuse(id, ConnectionFailure::HandshakeTimeout);
        }
        if arrival.origin.original_destination.is_none() {
            self.relay.metrics().count_abuse("detect_timeout");
            return self.refuse(id, ConnectionFailure::Silent);
        }
        self.admit_undetected(id);
    }

    /// Admits a connection whose protocol could not be detected. If the port is declared to speak HTTP, the connection
    /// is an HTTP connection without a request so far. Otherwise the connection is opaque.
    fn admit_undetected(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        match self.relay.declared_http(&arrival.origin).filter(|_| !begins_tls(&arrival.first)) {
            Some(Protocol::Http2) => self.admit_client(id, Speaks::Http2),
            Some(_) => self.admit_client(id, Speaks::Http1),
            None => self.admit_opaque(id),
        }
    }

    /// Reports why a connection is refused, and drops it.
    fn refuse(&mut self, id: ArrivalId, failure: ConnectionFailure) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        let origin = arrival.origin;
        self.relay.report(origin, failure);
        self.drop_arrival(id);
    }

    /// Returns the TLS of an arrival, if the client has begun TLS with the proxy.
    pub(super) fn tls_of(&self, arrival: &Arrival) -> Option<&Tls> {
        self.tls_on(arrival.wire)
    }

    pub(super) fn drop_arrival(&mut self, id: ArrivalId) {
        if let Some(arrival) = self.arrivals.remove(id) {
            self.discharge_arrival(&arrival);
            self.close_wire(arrival.wire);
        }
    }
}

/// Returns whether a ClientHello with this server name is addressed to the proxy and not to the application.
fn is_ours(server_name: Option<&str>) -> bool {
    server_name.is_some_and(|name| name.ends_with(SERVER_NAME_SUFFIX))
}

/// Returns the target port in the server name that another proxy sent.
fn target_port(server_name: &str) -> Option<u16> {
    server_name.strip_suffix(SERVER_NAME_SUFFIX)?.parse().ok().filter(|&port| port != 0)
}
