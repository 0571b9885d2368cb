//! Servers that send first, on ports without a declared protocol: for example MySQL, SMTP and SSH.
//!
//! Only the server's bytes show the protocol of such a port. If a client stays silent for `server_first_after_ms`, the
//! worker connects to the server and relays bytes, as on an opaque port: a guess. The side that sends first shows
//! whether the guess is right:
//!
//! - If the server sends first, the guess was right. When the client has answered in bytes of no protocol that we
//!   detect, the worker remembers the destination, so that its next clients do not wait.
//! - If the client sends first, the guess was wrong. The same holds if an HTTP/2 server sends first, which may send its
//!   SETTINGS before it has received anything (RFC 9113 section 3.4). The connection becomes an arrival again, and its
//!   protocol is detected as if nothing had happened. The connection to the server ends unused. Such a guess was no
//!   call: neither the metrics nor the access log count it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leno_model::policy::{Caller, Decision};
use rustc_hash::FxHashMap;

use super::Worker;
use super::accept::{Arrival, Door, Inspection, Origin};
use super::call::CallId;
use super::client::ClientId;
use super::detect::{Detected, detect};
use super::link::LinkId;
use super::meter::Meter;
use crate::limits::ms;

/// Most destinations that are remembered. Above that, the least recently used one is forgotten.
const MAX_REMEMBERED: usize = 256;
/// How long an unused destination is remembered: later, its address may belong to another server.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// Destinations whose servers spoke first, and when they were last used.
#[derive(Debug, Default)]
pub(super) struct ServerFirst {
    last_used: FxHashMap<SocketAddr, Instant>,
}

impl ServerFirst {
    fn remember(&mut self, destination: SocketAddr, now: Instant) {
        if self.last_used.len() >= MAX_REMEMBERED && !self.last_used.contains_key(&destination) {
            let oldest = self.last_used.iter().min_by_key(|(_, used)| **used).map(|(destination, _)| *destination);
            oldest.map(|oldest| self.last_used.remove(&oldest));
        }
        self.last_used.insert(destination, now);
    }

    fn forget(&mut self, destination: SocketAddr) {
        self.last_used.remove(&destination);
    }

    fn knows(&self, destination: SocketAddr, now: Instant) -> bool {
        self.last_used.get(&destination).is_some_and(|used| now.saturating_duration_since(*used) < REMEMBERED_FOR)
    }
}

impl Worker {
    /// Returns whether the worker should connect to the server of a silent arrival, so that the server can send first.
    pub(super) fn is_servers_turn(&self, arrival: &Arrival) -> bool {
        let Some(destination) = arrival.origin.original_destination else { return false };
        let waited = self.now.saturating_duration_since(arrival.since);
        let is_due = waited >= ms(self.limits.relay.server_first_after_ms);
        (is_due || self.server_first.knows(destination, self.now)) && self.may_guess(arrival)
    }

    /// Returns whether the worker may guess that an arrival is opaque. It may guess only where clients without a
    /// certificate are allowed. A client with a certificate shows it in its first bytes. If that client is slow, a
    /// guess would treat it as one without a certificate, and its connection would be denied.
    fn may_guess(&self, arrival: &Arrival) -> bool {
        let origin = &arrival.origin;
        arrival.first.is_empty()
            && !arrival.is_held
            && !arrival.was_guessed
            && self.tls_of(arrival).is_none()
            && self.draining.is_none()
            && self.inspection(origin) == Inspection::Protocol
            && self.declared_http(origin).is_none()
            && match origin.door {
                Door::Outbound => true,
                Door::Inbound => self.lets_strangers_in(origin),
                Door::Tunnel => false,
            }
    }

    fn lets_strangers_in(&self, origin: &Origin) -> bool {
        let (Some(identity), Some(destination)) = (&self.identity, origin.original_destination) else { return true };
        let policy = self.mesh.inbound_policy(&identity.id, destination.port(), self.default_policy);
        let stranger = Caller { identity: None, address: origin.peer.ip() };
        matches!(policy.authorize(&stranger, None), Decision::Allow | Decision::AllowAudited(_))
    }

    /// Checks a guess by the client's first bytes. Returns whether it was wrong: then the bytes are kept for the
    /// arrival that the connection becomes again.
    pub(super) fn settle_guess(&mut self, client_id: ClientId, bytes: &[u8]) -> bool {
        let Some(client) = self.clients.get_mut(client_id) else { return false };
        let Some(opaque) = client.link.codec.opaque() else { return false };
        let Some(destination) = client.origin.original_destination else { return false };
        if opaque.takes_server_first() {
            // Do not remember the destination if the client speaks HTTP/1: the client may have opened the connection
            // long before it needed it, and the server may have sent bytes because it gave up waiting.
            if detect(bytes) == Detected::Opaque {
                self.server_first.remember(destination, self.now);
            }
            return false;
        }
        if !opaque.is_guess() {
            return false;
        }
        let origin = client.origin;
        self.server_first.forget(destination);
        // If the port has been declared as HTTP meanwhile, opaque bytes are refused, as on every new connection to it.
        let is_refused = || origin.door == Door::Inbound && self.declared_http(&origin).is_some();
        let is_right = detect(bytes) == Detected::Opaque && !is_refused();
        let Some(client) = self.clients.get_mut(client_id) else { return false };
        let Some(opaque) = client.link.codec.opaque() else { return false };
        if is_right {
            opaque.keep_guess();
            let (stream, token) = opaque.stream();
            // A connection that policy denied has no call, and its token may name the call of another connection.
            if let Some((id, _)) = self.calls.of(client_id, stream, token) {
                self.count_guess(id);
            }
            return false;
        }
        opaque.recall();
        client.link.held.extend_from_slice(bytes);
        self.recalled.push(client_id);
        true
    }

    /// Counts a call that was a guess until now, unless the guess was wrong.
    pub(super) fn count_guess(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(id).filter(|call| call.is_guess) else { return };
        let Some(client) = self.clients.get(call.client).filter(|client| !client.link.codec.is_recalled()) else {
            return;
        };
        call.is_guess = false;
        let cluster = self.clusters.get(call.cluster);
        if let Some(traffic) = cluster.zip(call.traffic).and_then(|(cluster, place)| cluster.traffic(place)) {
            traffic.request();
        }
        if let Some(gate) = client.latest_route.as_ref().and_then(|route| route.gate.as_ref()) {
            gate.count_guess();
        }
    }

    /// Turns clients whose protocol was guessed wrong into arrivals again. Called after all events of a turn were
    /// handled, so that the new arrivals do not get the events of arrivals that have ended.
    pub(super) fn recall_clients(&mut self) {
        for id in std::mem::take(&mut self.recalled) {
            if self.clients.get(id).is_some_and(|client| client.link.codec.is_recalled()) {
                self.recall_client(id);
            }
        }
    }

    fn recall_client(&mut self, client_id: ClientId) {
        self.cancel_calls_of(client_id);
        let Some(mut client) = self.clients.remove(client_id) else { return };
        self.discharge(&client.link);
        self.accounts.leave(client.account);
        if client.yielding_since.is_some() {
            self.doors.yielded();
        }
        let first = std::mem::take(&mut client.link.held);
        let wire = client.link.wire;
        if let Some(wire) = self.wires.get_mut(wire) {
            wire.meter.close(self.now);
            wire.meter = Meter::new(self.now);
        }
        let origin = client.origin;
        let arrival = Arrival {
            wire,
            origin,
            since: self.now,
            is_held: false,
            first,
            named_port: None,
            is_outdated: false,
            was_guessed: true,
            charged_bytes: 0,
        };
        let id = self.arrivals.insert(arrival);
        self.charge_arrival(id);
        self.attach(wire, LinkId::Arrival(id));
        self.mark_unfinished(LinkId::Arrival(id));
    }
}

#[cfg(test)]
#[path = "server_first_tests.rs"]
mod tests;
