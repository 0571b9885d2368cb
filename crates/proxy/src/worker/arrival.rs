//! Arrival: finds out what a connection carries, takes part in its TLS if that is ours, and hands it on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use leno_http2::{Connection, Role};
use leno_model::protocol::Protocol;
use leno_model::spiffe::SpiffeId;

use super::Worker;
use super::accept::{Arrival, Door, Inspection, Origin};
use super::client::Client;
use super::codec::Codec;
use super::detect::{Detected, begins_tls, detect};
use super::link::{Fill, Link, LinkError, LinkId};
use super::opaque::{Contents, Opaque};
use super::places::Full;
use super::review::Stay;
use super::target::Told;
use super::tls::{SERVER_NAME_SUFFIX, Tls};
use crate::failure::{ConnectionFailure, FailedConnection};
use crate::limits::ms;
use crate::metrics::Peer;

/// What to do with a connection next.
enum Step {
    Wait,
    /// TLS that is ours, and the port that its client asks for.
    Begin {
        tls: Box<Tls>,
        port: Option<u16>,
    },
    Admit(Speaks),
    Refuse(ConnectionFailure),
}

/// What a connection turned out to carry.
enum Speaks {
    Http2,
    Http1,
    /// Bytes.
    Opaque(Contents),
    /// Nothing so far: its server may speak first.
    Nothing,
}

impl Worker {
    /// Called with every event of an arrival, and when it has more to read.
    pub(super) fn read_arrival(&mut self, index: usize) {
        let Some(arrival) = self.arrivals.get(index).filter(|arrival| !arrival.is_held) else { return };
        if self.is_opaque(arrival) {
            return self.admit_opaque(index);
        }
        let mut buffers = std::mem::take(&mut self.buffers);
        let Some(arrival) = self.arrivals.get_mut(index) else {
            self.buffers = buffers;
            return;
        };
        let (mut ended, mut more) = (false, false);
        let mut outcome = match arrival.wire.read(usize::MAX, &mut buffers) {
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
        if arrival.wire.tls.is_some() {
            // Alerts too: they say why.
            let flushed = arrival.wire.flush_tls(&mut buffers);
            outcome = outcome.and(flushed);
        }
        self.buffers = buffers;
        self.charge_arrival(index);
        match outcome {
            Ok(()) => self.step_arrival(index, ended, more),
            Err(LinkError::Socket(_)) => self.drop_arrival(index),
            Err(LinkError::Tls(error)) => self.refuse(index, ConnectionFailure::Handshake(error)),
        }
    }

    fn step_arrival(&mut self, index: usize, ended: bool, more: bool) {
        let Some(arrival) = self.arrivals.get(index) else { return };
        let nothing_came = arrival.first.is_empty();
        match self.next_step(index) {
            Step::Wait if ended && self.is_in_handshake(index) => self.refuse(index, ConnectionFailure::HandshakeCut),
            Step::Wait if ended && nothing_came => self.drop_arrival(index),
            // The client has said all, and it is no protocol that we know.
            Step::Wait if ended => self.admit_undetected(index),
            Step::Wait if nothing_came && self.is_servers_turn(arrival) => self.admit_client(index, Speaks::Nothing),
            Step::Wait => {
                if more {
                    self.mark_unfinished(LinkId::arrival(index));
                }
            }
            Step::Begin { tls, port } => self.begin_tls(index, tls, port),
            Step::Admit(speaks) => self.admit_client(index, speaks),
            Step::Refuse(failure) => self.refuse(index, failure),
        }
    }

    fn is_in_handshake(&self, index: usize) -> bool {
        self.arrivals.get(index).is_some_and(|arrival| arrival.wire.tls.is_some())
    }

    fn next_step(&self, index: usize) -> Step {
        let Some(arrival) = self.arrivals.get(index) else { return Step::Wait };
        if let Some(tls) = &arrival.wire.tls {
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

    /// Looks again, after a new mesh or some time, at the arrivals that are `due`.
    pub(super) fn review_arrivals(&mut self, due: impl Fn(&Arrival) -> bool) {
        let due = self.arrivals.iter().filter(|(_, arrival)| due(arrival)).map(|(index, _)| index);
        for index in due.collect::<Vec<_>>() {
            self.review_arrival(index);
        }
    }

    /// Lets a connection go on when it is known what it is for, or the control plane takes too long to say; and one that
    /// turns out to be opaque, whether or not its client has spoken. That happens in its turn, as if it had more to read.
    pub(super) fn review_arrival(&mut self, index: usize) {
        let Some(arrival) = self.arrivals.get(index) else { return };
        if arrival.is_held && self.awaits_answer(&arrival.origin) {
            return;
        }
        if !arrival.is_held && !self.is_opaque(arrival) {
            return;
        }
        if let Some(arrival) = self.arrivals.get_mut(index).filter(|arrival| arrival.is_held) {
            arrival.is_held = false;
            arrival.since = self.now;
        }
        self.mark_unfinished(LinkId::arrival(index));
    }

    /// Whether nothing is to be found out of it.
    fn is_opaque(&self, arrival: &Arrival) -> bool {
        arrival.wire.tls.is_none() && self.inspection(&arrival.origin) == Inspection::Nothing
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

    /// Whether a connection could reach ports of the application that the network does not show to its client: then the
    /// client must have a certificate. A connection that netfilter redirected reaches the port that it was opened to, as it
    /// would without a proxy. One to our own port leads nowhere, but shows our certificate, as `leno identity` wants.
    fn is_for_members(&self, origin: &Origin, named_port: Option<u16>) -> bool {
        let local = origin.local.ip();
        let leads_nowhere = || named_port.is_none_or(|port| self.is_own(SocketAddr::new(local, port), local));
        match origin.door {
            Door::Tunnel => true,
            Door::Inbound => origin.original_destination.is_none() && !leads_nowhere(),
            Door::Outbound => false,
        }
    }

    /// Gives the ClientHello, which was only looked at so far, to our side of the handshake.
    fn begin_tls(&mut self, index: usize, mut tls: Box<Tls>, port: Option<u16>) {
        let Some(arrival) = self.arrivals.get_mut(index) else { return };
        let mut hello = std::mem::take(&mut arrival.first);
        arrival.named_port = port;
        let opened = tls.open(&mut hello, &mut arrival.first);
        arrival.wire.tls = Some(tls);
        let _ = arrival.wire.flush_tls(&mut self.buffers);
        self.charge_arrival(index);
        match opened {
            Ok(()) => self.mark_unfinished(LinkId::arrival(index)),
            Err(error) => self.refuse(index, ConnectionFailure::Handshake(error)),
        }
    }

    /// Its bytes go on as they are, whatever has come of them.
    fn admit_opaque(&mut self, index: usize) {
        let Some(arrival) = self.arrivals.get(index) else { return };
        let contents = if begins_tls(&arrival.first) { Contents::Tls(None) } else { Contents::Unknown };
        self.admit_client(index, Speaks::Opaque(contents));
    }

    /// It is known what the connection carries: from now on it is a client's.
    fn admit_client(&mut self, index: usize, speaks: Speaks) {
        let Some(mut arrival) = self.arrivals.try_remove(index) else { return };
        self.discharge_arrival(&arrival);
        // As an arrival it stands in the worker's list no more.
        arrival.wire.unfinished = false;
        let origin = arrival.origin;
        let (seat, is_outdated) = (arrival.seat, arrival.is_outdated);
        let peer_id = match self.place_of_peer(&arrival) {
            Ok(peer_id) => peer_id.map(Arc::new),
            Err(failure) => {
                self.doors.leave(seat);
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
        let mut link = Link::new(arrival.wire, codec, self.now);
        let relay = &self.limits.relay;
        let unread_ms = if link.codec.has_windows() { relay.unread_timeout_ms } else { relay.stall_timeout_ms };
        link.limit_unread(ms(unread_ms));
        link.held = std::mem::take(&mut arrival.first);
        link.opened = arrival.since;
        let serial = self.take_serial();
        let account = self.accounts.enter(Self::account_of(&origin, peer_id.as_ref()));
        let mut client = Client::new(link, origin, target, peer_id, account, serial, seat);
        self.note_standing(&mut client);
        let client = self.clients.insert(client);
        self.doors.rename(seat, LinkId::client(client));
        if is_outdated {
            self.recheck.add(LinkId::client(client));
        }
        self.watch_client(client);
    }

    /// Notes how long a client's certificate is good, and what the application is told of it.
    fn note_standing(&mut self, client: &mut Client) {
        let Some((id, tls)) = client.peer_id.as_ref().zip(client.link.wire.tls.as_ref()) else { return };
        let (now, chain) = (SystemTime::now(), tls.peer_certificates());
        client.told = self.identity.as_ref().map(|own| Box::new(Told::of(id, &own.id, self.tells_client_cert)));
        let Some(expiry) = leno_identity::peer_expiry(chain, now) else { return };
        client.stay = Some(Stay::until(expiry, now));
        self.standing.note(id, client.origin.peer.ip(), (expiry, now), chain);
    }

    /// Who is at the other end of a connection whose handshake, if it has one, is over, and its place among others.
    fn place_of_peer(&mut self, arrival: &Arrival) -> Result<Option<SpiffeId>, ConnectionFailure> {
        let peer_id = self.peer_of(arrival.wire.tls.as_deref())?;
        match &peer_id {
            Some(id) => self.take_member_place(arrival.seat, id).map_err(|Full| ConnectionFailure::NoPlace)?,
            // A handshake is something whole, also without a certificate.
            None if arrival.wire.tls.is_some() => self.doors.settle(arrival.seat),
            None => {}
        }
        Ok(peer_id)
    }

    /// The SPIFFE id in the certificate of whoever is at the other end; none if it shows no certificate.
    pub(super) fn peer_of(&self, tls: Option<&Tls>) -> Result<Option<SpiffeId>, ConnectionFailure> {
        let certificates = tls.map(Tls::peer_certificates).unwrap_or_default();
        if certificates.is_empty() {
            return Ok(None);
        }
        leno_identity::peer_id(certificates).map(Some).map_err(ConnectionFailure::BadPeerId)
    }

    /// Time is up: a connection whose client says nothing may have a server that speaks first.
    pub(super) fn decide_late(&mut self, index: usize) {
        let Some(arrival) = self.arrivals.get(index) else { return };
        if arrival.wire.tls.is_some() || arrival.origin.door == Door::Tunnel {
            return self.refuse(index, ConnectionFailure::HandshakeTimeout);
        }
        if arrival.origin.original_destination.is_none() {
            self.metrics.count_abuse("detect_timeout");
            return self.refuse(index, ConnectionFailure::Silent);
        }
        self.admit_undetected(index);
    }

    /// The client has not shown what it speaks, and it is not waited for any longer. Its bytes are opaque, unless the port is
    /// declared to speak HTTP: then it is a connection without a request so far.
    fn admit_undetected(&mut self, index: usize) {
        let Some(arrival) = self.arrivals.get(index) else { return };
        match self.declared_http(&arrival.origin).filter(|_| !begins_tls(&arrival.first)) {
            Some(Protocol::Http2) => self.admit_client(index, Speaks::Http2),
            Some(_) => self.admit_client(index, Speaks::Http1),
            None => self.admit_opaque(index),
        }
    }

    /// Says why, and forgets the connection.
    fn refuse(&mut self, index: usize, failure: ConnectionFailure) {
        let Some(arrival) = self.arrivals.get(index) else { return };
        let origin = arrival.origin;
        self.report(origin, failure);
        self.drop_arrival(index);
    }

    /// Counts a connection that was turned away, and says why.
    pub(super) fn report(&mut self, origin: Origin, why: ConnectionFailure) {
        let direction = origin.door.direction();
        self.metrics.count_failed_connection(direction, why.label());
        let failed = FailedConnection { direction, peer: Peer::Source, address: origin.peer, why };
        if let Some(line) = self.failures.line(&failed, self.now) {
            tracing::warn!("{line}");
        }
    }

    pub(super) fn drop_arrival(&mut self, index: usize) {
        if let Some(arrival) = self.arrivals.try_remove(index) {
            self.discharge_arrival(&arrival);
            self.doors.leave(arrival.seat);
            self.burst = true;
        }
    }
}

/// Whether a ClientHello is for us and not for the application.
fn is_ours(server_name: Option<&str>) -> bool {
    server_name.is_some_and(|name| name.ends_with(SERVER_NAME_SUFFIX))
}

/// The port that a proxy's server name asks for.
fn target_port(server_name: &str) -> Option<u16> {
    server_name.strip_suffix(SERVER_NAME_SUFFIX)?.parse().ok().filter(|&port| port != 0)
}
