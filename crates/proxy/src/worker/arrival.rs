//! Arrival: detects what a new connection carries, takes part in its TLS if that is addressed to the proxy, and makes
//! the connection a client's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use leno_http2::{Connection, Role};
use leno_model::protocol::Protocol;
use leno_model::spiffe::SpiffeId;

use super::Worker;
use super::accept::ArrivalId;
use super::accept::{Arrival, Door, Inspection, Origin};
use super::client::Client;
use super::codec::Codec;
use super::detect::{Detected, begins_tls, detect};
use super::link::{Link, LinkId};
use super::opaque::{Contents, Opaque};
use super::places::Full;
use super::review::Stay;
use super::target::Told;
use super::tls::{SERVER_NAME_SUFFIX, Tls};
use super::wire::{Fill, WireError};
use crate::failure::{ConnectionFailure, FailedConnection};
use crate::limits::ms;
use crate::metrics::Peer;

/// What to do with a connection next.
enum Step {
    Wait,
    /// Begin the handshake of TLS that is addressed to the proxy. `port` is the target port in the server name.
    Begin {
        tls: Box<Tls>,
        port: Option<u16>,
    },
    Admit(Speaks),
    Refuse(ConnectionFailure),
}

/// The detected contents of a connection.
enum Speaks {
    Http2,
    Http1,
    /// Bytes that the proxy does not parse.
    Opaque(Contents),
    /// Nothing so far: the server may speak first.
    Nothing,
}

impl Worker {
    /// Reads from an arrival and takes the next step. Called on each of its poll events, and when it has more to read.
    pub(super) fn read_arrival(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get(id).filter(|arrival| !arrival.is_held) else { return };
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
            // This includes alerts, which tell the peer why TLS failed.
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
                    self.mark_unfinished(LinkId::Arrival(id));
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
        if is_no_tls && self.inspection(&arrival.origin) == Inspection::ServerName {
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
            (Detected::Opaque, Door::Inbound) if self.declared_http(&arrival.origin).is_some() => {
                Step::Refuse(ConnectionFailure::NotHttp)
            }
            (Detected::Opaque, _) => Step::Admit(Speaks::Opaque(Contents::Unknown)),
        }
    }

    /// Reviews the arrivals that are `due`, after a change of the mesh or some time.
    pub(super) fn review_arrivals(&mut self, due: impl Fn(&Arrival) -> bool) {
        let due = self.arrivals.iter().filter(|(_, arrival)| due(arrival)).map(|(id, _)| id);
        for id in due.collect::<Vec<_>>() {
            self.review_arrival(id);
        }
    }

    /// Ends the wait of a held connection, if the control plane has answered or takes too long to answer. Also
    /// continues a connection that has turned out to be opaque, whether or not its client has sent bytes. The worker
    /// reads the connection in its turn, as if it had more to read.
    pub(super) fn review_arrival(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        if arrival.is_held && self.awaits_answer(&arrival.origin) {
            return;
        }
        if !arrival.is_held && !self.is_opaque(arrival) {
            return;
        }
        if let Some(arrival) = self.arrivals.get_mut(id).filter(|arrival| arrival.is_held) {
            arrival.is_held = false;
            arrival.since = self.now;
        }
        self.mark_unfinished(LinkId::Arrival(id));
    }

    /// Returns whether there is nothing to detect in the connection: its bytes are opaque.
    fn is_opaque(&self, arrival: &Arrival) -> bool {
        self.tls_of(arrival).is_none() && self.inspection(&arrival.origin) == Inspection::Nothing
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

    /// Returns whether the client must have a certificate, because the connection could reach ports of the application
    /// that the network does not show to the client. A connection that netfilter redirected reaches the port that it
    /// was opened to, as it would without a proxy. A connection that names no port, or a port of our own, reaches no
    /// application. It only shows our certificate, which `leno identity` needs.
    fn is_for_members(&self, origin: &Origin, named_port: Option<u16>) -> bool {
        let local = origin.local.ip();
        let leads_nowhere = || named_port.is_none_or(|port| self.is_own(SocketAddr::new(local, port), local));
        match origin.door {
            Door::Tunnel => true,
            Door::Inbound => origin.original_destination.is_none() && !leads_nowhere(),
            Door::Outbound => false,
        }
    }

    /// Begins the handshake with the ClientHello, which has only been inspected so far.
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
            Ok(()) => self.mark_unfinished(LinkId::Arrival(id)),
            Err(error) => self.refuse(id, ConnectionFailure::Handshake(error)),
        }
    }

    /// Admits a connection as opaque: its bytes are relayed as they are, however many have been received.
    fn admit_opaque(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        let contents = if begins_tls(&arrival.first) { Contents::Tls(None) } else { Contents::Unknown };
        self.admit_client(id, Speaks::Opaque(contents));
    }

    /// Makes the arrival a client's connection, now that its protocol is known.
    fn admit_client(&mut self, id: ArrivalId, speaks: Speaks) {
        let Some(mut arrival) = self.arrivals.remove(id) else { return };
        self.discharge_arrival(&arrival);
        let origin = arrival.origin;
        let (wire, is_outdated) = (arrival.wire, arrival.is_outdated);
        let peer_id = match self.place_of_peer(&arrival) {
            Ok(peer_id) => peer_id.map(Arc::new),
            Err(failure) => {
                self.doors.leave(wire);
                self.wires.remove(wire);
                return self.report(origin, failure);
            }
        };
        let named = arrival.named_port.map(|port| SocketAddr::new(origin.local.ip(), port));
        let target = origin.original_destination.or(named);
        let written = |target: Option<SocketAddr>| target.map(|target| target.to_string());
        let codec = match speaks {
            Speaks::Http2 => Codec::Http2(Connection::new(Role::Server, self.limits.client.clone(), self.now)),
            Speaks::Http1 => {
                Codec::Http1(leno_http1::Connection::new(Role::Server, self.limits.http1_client.clone(), self.now))
            }
            Speaks::Opaque(contents) => {
                let name = match &contents {
                    Contents::Tls(Some(name)) => Some(format!("{name}:443")),
                    Contents::Tls(None) | Contents::Unknown => None,
                };
                Codec::Opaque(Opaque::accepted(written(target).or(name).unwrap_or_default(), contents))
            }
            Speaks::Nothing => Codec::Opaque(Opaque::guessed(written(target).unwrap_or_default())),
        };
        let mut link = Link::new(wire, codec, self.now);
        let relay = &self.limits.relay;
        let unread_ms = if link.codec.has_windows() { relay.unread_timeout_ms } else { relay.stall_timeout_ms };
        self.limit_unread(&link, ms(unread_ms));
        link.held = std::mem::take(&mut arrival.first);
        link.opened = arrival.since;
        let account = self.accounts.enter(Self::account_of(&origin, peer_id.as_ref()));
        let mut client = Client::new(link, origin, target, peer_id, account);
        client.has_tls = self.tls_on(wire).is_some();
        self.note_standing(&mut client);
        let client = self.clients.insert(client);
        self.attach(wire, LinkId::Client(client));
        if is_outdated {
            self.recheck.add(LinkId::Client(client));
        }
        self.watch_client(client);
    }

    /// Records how long a client's certificate is valid, and what the application is told about the client.
    fn note_standing(&mut self, client: &mut Client) {
        let Some((id, tls)) = client.peer_id.as_ref().zip(self.tls_on(client.link.wire)) else { return };
        let (now, chain) = (SystemTime::now(), tls.peer_certificates());
        client.told = self.identity.as_ref().map(|own| Box::new(Told::of(id, &own.id, self.tells_client_cert)));
        let Some(expiry) = leno_identity::peer_expiry(chain, now) else { return };
        client.stay = Some(Stay::until(expiry, now));
        self.standing.note(id, client.origin.peer.ip(), (expiry, now), chain);
    }

    /// Returns the identity of a peer whose handshake, if there is one, is complete. If the peer has shown a
    /// certificate, the connection takes a place in the pool for clients with a certificate.
    fn place_of_peer(&mut self, arrival: &Arrival) -> Result<Option<SpiffeId>, ConnectionFailure> {
        let peer_id = self.peer_of(self.tls_of(arrival))?;
        match &peer_id {
            Some(id) => self.take_member_place(arrival.wire, id).map_err(|Full| ConnectionFailure::NoPlace)?,
            // A complete handshake settles the connection as a complete request does, even without a certificate.
            None if self.tls_of(arrival).is_some() => self.doors.settle(arrival.wire),
            None => {}
        }
        Ok(peer_id)
    }

    /// Returns the SPIFFE ID in the peer's certificate; `None` if the peer has shown no certificate.
    pub(super) fn peer_of(&self, tls: Option<&Tls>) -> Result<Option<SpiffeId>, ConnectionFailure> {
        let certificates = tls.map(Tls::peer_certificates).unwrap_or_default();
        if certificates.is_empty() {
            return Ok(None);
        }
        leno_identity::peer_id(certificates).map(Some).map_err(ConnectionFailure::BadPeerId)
    }

    /// Decides on a connection whose protocol was not detected in time. If the client is silent, the server may be one
    /// that speaks first.
    pub(super) fn decide_late(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        if self.tls_of(arrival).is_some() || arrival.origin.door == Door::Tunnel {
            return self.refuse(id, ConnectionFailure::HandshakeTimeout);
        }
        if arrival.origin.original_destination.is_none() {
            self.metrics.count_abuse("detect_timeout");
            return self.refuse(id, ConnectionFailure::Silent);
        }
        self.admit_undetected(id);
    }

    /// Admits a connection whose client has not shown its protocol, and is not waited for any longer. The bytes are
    /// opaque, unless the port is declared to speak HTTP: then it is an HTTP connection without a request so far.
    fn admit_undetected(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        match self.declared_http(&arrival.origin).filter(|_| !begins_tls(&arrival.first)) {
            Some(Protocol::Http2) => self.admit_client(id, Speaks::Http2),
            Some(_) => self.admit_client(id, Speaks::Http1),
            None => self.admit_opaque(id),
        }
    }

    /// Reports why a connection is refused, and drops it.
    fn refuse(&mut self, id: ArrivalId, failure: ConnectionFailure) {
        let Some(arrival) = self.arrivals.get(id) else { return };
        let origin = arrival.origin;
        self.report(origin, failure);
        self.drop_arrival(id);
    }

    /// Counts and logs a connection that was refused or ended.
    pub(super) fn report(&mut self, origin: Origin, why: ConnectionFailure) {
        let direction = origin.door.direction();
        self.metrics.count_failed_connection(direction, why.label());
        let failed = FailedConnection { direction, peer: Peer::Source, address: origin.peer, why };
        if let Some(line) = self.failures.line(&failed, self.now) {
            tracing::warn!("{line}");
        }
    }

    /// Returns the TLS of an arrival, if its client has begun TLS that is addressed to the proxy.
    pub(super) fn tls_of(&self, arrival: &Arrival) -> Option<&Tls> {
        self.tls_on(arrival.wire)
    }

    pub(super) fn drop_arrival(&mut self, id: ArrivalId) {
        if let Some(arrival) = self.arrivals.remove(id) {
            self.discharge_arrival(&arrival);
            self.wires.remove(arrival.wire);
            self.doors.leave(arrival.wire);
            self.burst = true;
        }
    }
}

/// Returns whether a ClientHello is addressed to the proxy and not to the application.
fn is_ours(server_name: Option<&str>) -> bool {
    server_name.is_some_and(|name| name.ends_with(SERVER_NAME_SUFFIX))
}

/// Returns the target port in the server name that another proxy sent.
fn target_port(server_name: &str) -> Option<u16> {
    server_name.strip_suffix(SERVER_NAME_SUFFIX)?.parse().ok().filter(|&port| port != 0)
}
