//! Servers that send first, on ports without a declared protocol: for example MySQL, SMTP and SSH.
//!
//! Only the server's bytes show the protocol of such a port. If a client stays silent for `server_first_after_ms`, the
//! worker connects to the server and relays bytes, as on an opaque port. This is a guess about the protocol. The side
//! that sends first shows whether the guess is right:
//!
//! - If the server sends first, and does not send HTTP/2, the guess was right. If the client then answers with bytes
//!   that are neither HTTP nor TLS, the worker remembers the destination. Later clients of this destination do not
//!   wait.
//! - If the client sends HTTP or TLS first, the guess was wrong.
//! - If an HTTP/2 server sends its SETTINGS first (RFC 9113 section 3.4 allows this), the guess was also wrong.
//! - If the server's proxy accepts no opaque bytes for the port, the guess was also wrong.
//!
//! After a wrong guess, the client's connection becomes an *arrival* again, that is, a connection whose protocol is not
//! known. The worker detects its protocol as if nothing had happened, and ends the unused connection to the server. A
//! wrong guess is not a call: neither the metrics nor the access log count it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::Relay;
use crate::call::CallId;
use crate::downstream::client::ClientId;
use crate::downstream::origin::Door;
use crate::effect::Effect;
use crate::link::detect::{Detected, detect};

/// Maximum number of destinations that a worker remembers. Above this limit, the worker forgets the least recently used
/// destination.
const MAX_REMEMBERED: usize = 256;
/// Time after which a worker forgets a destination that is not used. By then, its address may belong to another server.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// Destinations whose servers spoke first, and when they were last used.
#[derive(Debug, Default)]
pub(crate) struct ServerFirst {
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

impl Relay {
    /// Returns whether the server of a destination is known to speak first.
    pub fn speaks_first(&self, destination: SocketAddr) -> bool {
        self.server_first.knows(destination, self.now)
    }

    /// Uses the client's first bytes to check the guess that its connection is opaque. Returns whether the guess was
    /// wrong. If it was wrong, keeps the bytes, so that the worker can detect the protocol from them.
    pub(crate) fn settle_guess(&mut self, client_id: ClientId, bytes: &[u8]) -> bool {
        let Some(client) = self.downstreams.get_mut(client_id) else { return false };
        let Some(opaque) = client.link.codec.opaque() else { return false };
        let Some(destination) = client.origin.original_destination else { return false };
        if opaque.takes_server_first() {
            // Do not remember the destination if the client speaks HTTP/1. Such a client may have opened the connection
            // long before its first request. The server may then have sent bytes only because it gave up waiting for a
            // request.
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
        // If the port was declared as HTTP in the meantime, refuse opaque bytes, as on every new connection to the
        // port.
        let is_refused = || origin.door == Door::Inbound && self.declared_http(&origin).is_some();
        let is_right = detect(bytes) == Detected::Opaque && !is_refused();
        let Some(client) = self.downstreams.get_mut(client_id) else { return false };
        let Some(opaque) = client.link.codec.opaque() else { return false };
        if is_right {
            opaque.keep_guess();
            let (stream, token) = opaque.stream();
            // If policy has denied the connection, it has no call, and its token may belong to a call of another
            // connection.
            if let Some((id, _)) = self.calls.of(client_id, stream, token) {
                self.count_guess(id);
            }
            return false;
        }
        opaque.recall();
        client.link.pending_input.extend_from_slice(bytes);
        self.downstreams.recall(client_id);
        true
    }

    /// Counts a call on a connection that the relay guessed to be opaque. The relay calls this when the first bytes of
    /// the server or of the client confirm the guess, and when the call ends. Does nothing if the guess was wrong, or
    /// if the call was counted before.
    pub(crate) fn count_guess(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(id).filter(|call| call.is_guess) else { return };
        let Some(client) = self.downstreams.get(call.client).filter(|client| !client.link.codec.is_recalled()) else {
            return;
        };
        call.is_guess = false;
        let cluster = self.targets.get(call.cluster);
        if let Some(traffic) = cluster.zip(call.traffic).and_then(|(cluster, place)| cluster.traffic(place)) {
            traffic.request();
        }
        if let Some(gate) = client.latest_target.as_ref().and_then(|route| route.gate.as_ref()) {
            gate.count_guess();
        }
    }

    /// Removes the clients whose protocol the relay has guessed wrong. The event loop detects their protocols again.
    pub fn recall_clients(&mut self) {
        for id in self.downstreams.take_recalled() {
            if self.downstreams.get(id).is_some_and(|client| client.link.codec.is_recalled()) {
                self.recall_client(id);
            }
        }
    }

    fn recall_client(&mut self, id: ClientId) {
        self.cancel_calls_of(id);
        let Some(mut client) = self.downstreams.remove(id) else { return };
        self.discharge(&client.link);
        let Some(wire) = client.link.wire else { return };
        let first = std::mem::take(&mut client.link.pending_input);
        self.effects.push(Effect::Recall { wire, origin: client.origin, first });
    }
}

#[cfg(test)]
#[path = "server_first_tests.rs"]
mod tests;
