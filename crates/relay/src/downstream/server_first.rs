//! Servers that send first, on ports without a declared protocol: for example MySQL, SMTP and SSH.
//!
//! Only the server's bytes show the protocol of such a port. If a client stays silent for `server_first_after_ms`, the
//! worker connects to the server and relays bytes, as on an opaque port. This is a guess about the protocol. The side
//! that sends first shows whether the guess is right:
//!
//! - If the server sends first, the guess was right. When the client has answered in bytes of no protocol that we
//!   detect, the worker remembers the destination, so that later clients of this destination do not wait.
//! - If the client sends HTTP or TLS first, the guess was wrong. The same holds if an HTTP/2 server sends first: it may
//!   send its SETTINGS before it has received anything (RFC 9113 section 3.4). It also holds if the server's proxy
//!   accepts no opaque bytes for the port. The connection becomes an arrival again, and its protocol is detected as if
//!   nothing had happened. The connection to the server ends unused. Such a guess was no call: neither the metrics nor
//!   the access log count it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::Relay;
use crate::call::CallId;
use crate::downstream::client::ClientId;
use crate::downstream::origin::Door;
use crate::effect::Effect;
use crate::link::detect::{Detected, detect};

/// Maximum number of destinations that are remembered. Above it, the least recently used one is forgotten.
const MAX_REMEMBERED: usize = 256;
/// Time for which an unused destination is remembered. Later, its address may belong to another server.
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

    /// Checks a guess by the client's first bytes. Returns whether the guess was wrong. If so, the bytes are kept for
    /// the arrival that the connection becomes again.
    pub(crate) fn settle_guess(&mut self, client_id: ClientId, bytes: &[u8]) -> bool {
        let Some(client) = self.downstreams.get_mut(client_id) else { return false };
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
        let Some(client) = self.downstreams.get_mut(client_id) else { return false };
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
        client.link.pending_input.extend_from_slice(bytes);
        self.downstreams.recall(client_id);
        true
    }

    /// Counts a call that was a guess until now, unless the guess was wrong.
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

    /// Removes the clients whose protocol was guessed wrong. The event loop detects their protocols again.
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
