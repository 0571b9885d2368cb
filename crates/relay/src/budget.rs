//! Budget: limits the memory that all peers together can make a worker hold.
//!
//! Other limits bound one connection, and there may be thousands of connections. So a worker also adds up the memory of
//! all its connections. Above half of the budget, receive windows stop growing, and connections keep no empty output
//! buffers. Above the whole budget, the worker closes connections until it holds at most seven eighths of the budget.
//! It closes, in this order:
//!
//! 1. arrivals, which are connections whose protocol is not known yet, as long as all arrivals together hold more than
//!    an eighth of the budget. The worker begins with the source address that holds the most;
//! 2. the largest connections of the account that holds the most. An account is an identity or a source address. Our
//!    own application has half of the budget to itself, so its connections are closed only if it holds more than half.
//!
//! The charge of a link (a connection whose protocol is known) is the memory that the budget counts for it. The charge
//! includes the kernel's memory for the link's socket, because that memory is part of the container's memory. The event
//! loop measures the kernel's memory whenever the socket accepts no bytes or is not read. It measures other sockets
//! once a second if the kernel may hold more than a negligible part ([`Relay::negligible_bytes`]).
//!
//! The charge of a link is updated after each flush, and each read or write is followed by a flush. The charge of an
//! arrival is updated after each read. Invariant: `charged_bytes` is the sum of `Link::charged_bytes` over all links,
//! and `arrival_bytes` is the sum of `Arrival::charged_bytes` over all arrivals.

use leno_http2::ErrorCode;
use rustc_hash::FxHashMap;

use crate::Relay;
use crate::downstream::accounts::AccountId;
use crate::downstream::client::{Client, ClientId};
use crate::effect::Effect;
use crate::link::{Link, LinkId};
use crate::pool::upstream::Upstream;

/// Memory of a connection besides its buffers and tables: its structs in the proxy and in the kernel.
pub const CONNECTION_BYTES: usize = 4 << 10;
/// Memory of a call besides its header fields, its content and its streams: the struct `Call`, its timers and its
/// entries in queues.
const CALL_BYTES: usize = 1 << 10;
/// Maximum number of clients' connections that one turn of the event loop closes to get below the budget.
const VICTIMS_MAX: usize = 64;

/// The memory that a worker's connections hold.
#[derive(Debug)]
pub(crate) struct Budget {
    max_bytes: usize,
    charged_bytes: usize,
    arrival_bytes: usize,
    /// Whether memory is short. Set when the worker holds more than half of its budget, and cleared when it holds three
    /// eighths or less.
    is_tight: bool,
}

impl Budget {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, charged_bytes: 0, arrival_bytes: 0, is_tight: false }
    }

    /// Changes the charge of a link from `before` to `after` bytes.
    fn charge(&mut self, before: usize, after: usize) {
        self.charged_bytes = (self.charged_bytes + after).saturating_sub(before);
    }

    /// See [`Relay::negligible_bytes`].
    fn negligible_bytes(&self, connections: usize) -> usize {
        self.max_bytes / 8 / connections.max(1)
    }

    /// Updates `is_tight`. Returns its new value if it has changed, otherwise `None`.
    fn tightness_changed(&mut self, held_bytes: usize) -> Option<bool> {
        let is_tight = match self.is_tight {
            true => held_bytes > self.max_bytes / 8 * 3,
            false => held_bytes > self.max_bytes / 2,
        };
        let has_changed = std::mem::replace(&mut self.is_tight, is_tight) != is_tight;
        has_changed.then_some(is_tight)
    }
}

/// The connections that one turn of the event loop closes because the worker is above its budget.
#[derive(Debug, Default)]
pub struct Relief {
    candidates: Candidates,
    victims: usize,
}

/// The connections of the account that holds the most memory: the first connections to close.
#[derive(Debug, Default)]
struct Candidates {
    /// Each connection with the memory that it holds, in bytes. The connection that holds the most is the last.
    clients: Vec<(usize, ClientId)>,
    /// Memory that the account holds.
    bytes: usize,
    /// Memory of the account that holds the second most.
    next_bytes: usize,
}

impl Relay {
    /// Changes the charge of a connection whose protocol is not known yet from `before` to `after` bytes.
    pub fn charge_arrival(&mut self, before: usize, after: usize) {
        self.budget.arrival_bytes = (self.budget.arrival_bytes + after).saturating_sub(before);
    }

    /// Returns whether connections whose protocol is not known yet hold more than an eighth of the budget.
    pub fn has_many_arrivals(&self) -> bool {
        self.budget.arrival_bytes > self.budget.max_bytes / 8
    }

    /// Updates the charge of a link.
    pub(crate) fn charge(&mut self, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        let mut bytes = CONNECTION_BYTES + link.codec.memory_bytes() + link.pending_input.capacity();
        bytes += link.tls_bytes + link.kernel_bytes;
        if let LinkId::Client(client) = id {
            // A client is charged for the content and fields that it has sent, and for the content and fields that it
            // has not read. It does not matter in which buffers they wait. A second copy of the content, for another
            // attempt, is charged to its call (`Calls::charge_body`).
            bytes += link.codec.queue_memory_bytes() + link.codec.held_bytes();
            bytes += link.codec.stream_count() * CALL_BYTES;
            bytes += self.downstreams.get(client).map_or(0, Client::memory_bytes);
        } else {
            // A link to a server. The content that waits in this link is charged to the clients of its calls. This link
            // is charged for the rest: the content of complete calls, the unused capacity of the link's buffers, and
            // the kernel's memory for the link (see also `held_elsewhere`). Waiting trailers are charged twice: to this
            // link and to the client.
            bytes += link.codec.queue_memory_bytes().saturating_sub(link.codec.queued_bytes());
            if let LinkId::Endpoint(upstream) = id {
                bytes += self.pools.upstream(upstream).map_or(0, Upstream::answered_bytes);
            }
        }
        let Some(link) = self.link(id) else { return };
        let before = std::mem::replace(&mut link.charged_bytes, bytes);
        self.budget.charge(before, bytes);
    }

    /// Removes the charge of a link that has closed.
    pub(crate) fn discharge(&mut self, link: &Link) {
        self.budget.charge(link.charged_bytes, 0);
    }

    /// Returns all memory that peers make this worker hold, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.budget.charged_bytes + self.budget.arrival_bytes + self.calls.held_bytes()
    }

    /// Returns whether a new connection must save memory.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.budget.is_tight
    }

    /// Returns whether the worker holds more than its budget. Called once in each turn of the event loop.
    pub fn exceeds_budget(&mut self) -> bool {
        let held_bytes = self.held_bytes();
        if let Some(is_tight) = self.budget.tightness_changed(held_bytes) {
            self.save_memory(is_tight);
        }
        self.metrics.held_bytes.set(held_bytes as u64);
        held_bytes > self.budget.max_bytes
    }

    /// Returns how many bytes of kernel memory may stay uncounted for each of the worker's `connections`. All
    /// connections together leave at most an eighth of the budget uncounted. So a few connections with small messages
    /// need no measurement, and thousands of connections cannot hide much memory.
    pub fn negligible_bytes(&self, connections: usize) -> usize {
        self.budget.negligible_bytes(connections)
    }

    /// Returns the number of bytes at which a worker over its budget stops closing connections.
    pub fn enough_bytes(&self) -> usize {
        self.budget.max_bytes / 8 * 7
    }

    /// Makes all connections save memory, or lets them use more memory again, and updates their charges.
    fn save_memory(&mut self, on: bool) {
        self.heads.save_memory(on);
        let clients = self.downstreams.iter().map(|(id, _)| LinkId::Client(id));
        let upstreams = self.pools.upstreams().map(|(id, _)| LinkId::Endpoint(id));
        for id in clients.chain(upstreams).collect::<Vec<_>>() {
            if let Some(link) = self.link(id) {
                link.codec.save_memory(on);
                self.charge(id);
            }
        }
    }

    /// Closes a client's connection to free memory, and returns `true`. Returns `false` and closes nothing if the
    /// worker holds at most seven eighths of its budget, or if `relief` has closed as many connections as one turn may
    /// close.
    ///
    /// After `true`, the caller must write all output, carry out the effects, and call this function again. The effects
    /// free the memory of the client's wire, and of the connections to servers that only this client uses.
    pub fn relieve(&mut self, relief: &mut Relief) -> bool {
        if self.held_bytes() <= self.enough_bytes() || relief.victims >= VICTIMS_MAX {
            return false;
        }
        if relief.candidates.clients.is_empty() || relief.candidates.bytes < relief.candidates.next_bytes {
            relief.candidates = self.clients_of_heaviest();
        }
        let Some((bytes, id)) = relief.candidates.clients.pop() else { return false };
        relief.candidates.bytes = relief.candidates.bytes.saturating_sub(bytes);
        relief.victims += 1;
        self.give_up(id);
        true
    }

    /// Returns the connections of the account that holds the most memory. All connections of our own application count
    /// as one account. This account is left out if it holds at most half of the budget and there are other accounts.
    fn clients_of_heaviest(&mut self) -> Candidates {
        let elsewhere = self.held_elsewhere();
        let account_of =
            |client: &Client| self.downstreams.accounts().is_of_a_caller(client.account).then_some(client.account);
        let held_by =
            |id: ClientId, client: &Client| client.link.charged_bytes + elsewhere.get(&id).copied().unwrap_or_default();
        let mut totals: FxHashMap<Option<AccountId>, usize> = FxHashMap::default();
        for (id, client) in self.downstreams.iter() {
            *totals.entry(account_of(client)).or_default() += held_by(id, client);
        }
        // Our own application is charged for all memory except that of arrivals and of callers. So its account includes
        // the connections to endpoints.
        let of_callers: usize = totals.iter().filter(|(account, _)| account.is_some()).map(|(_, total)| *total).sum();
        let of_application = self.held_bytes().saturating_sub(self.budget.arrival_bytes + of_callers);
        if of_application <= self.budget.max_bytes / 2 && totals.len() > 1 {
            totals.remove(&None);
        }
        let Some((&heaviest, &bytes)) = totals.iter().max_by_key(|(_, total)| **total) else {
            return Candidates::default();
        };
        totals.remove(&heaviest);
        let clients = self.downstreams.iter().filter(|(_, client)| account_of(client) == heaviest);
        let mut clients: Vec<_> = clients.map(|(id, client)| (held_by(id, client), id)).collect();
        clients.sort_unstable();
        Candidates { clients, bytes, next_bytes: totals.into_values().max().unwrap_or_default() }
    }

    /// Returns for each client the bytes that it makes us hold and that are not part of its link's charge:
    /// - the kernel's memory for connections to servers that carry only this client's content;
    /// - content that is kept for another attempt.
    fn held_elsewhere(&mut self) -> FxHashMap<ClientId, usize> {
        let mut held = FxHashMap::default();
        for (_, call) in self.calls.iter() {
            if let Some(client) = call.client {
                *held.entry(client).or_default() += call.charged_bytes;
            }
        }
        for (id, upstream) in self.pools.upstreams() {
            let Some(bytes) = held_alone(upstream) else { continue };
            for (stream, token) in upstream.link.codec.open_streams() {
                let attempt = self.calls.on(id, stream, token);
                let client = attempt.and_then(|attempt| self.calls.get(attempt.call)?.client);
                if let Some(client) = client {
                    *held.entry(client).or_default() += bytes;
                }
            }
        }
        held
    }

    /// Aborts the connections to servers that [`Self::held_elsewhere`] counts for a client.
    fn abort_at_servers(&mut self, id: ClientId) {
        let Some(client) = self.downstreams.get(id) else { return };
        for (stream, token) in client.link.codec.open_streams() {
            let Some((_, call)) = self.calls.of(id, stream, token) else { continue };
            let upstreams = call.attempts.iter().filter_map(|attempt| self.pools.upstream(attempt.stream()?.0));
            let wires =
                upstreams.filter(|upstream| held_alone(upstream).is_some()).filter_map(|upstream| upstream.link.wire);
            self.effects.extend(wires.map(Effect::Abort));
        }
    }

    /// Closes a client's connection at once, because the worker needs its memory.
    fn give_up(&mut self, id: ClientId) {
        let Some(client) = self.downstreams.get_mut(id) else { return };
        let (peer, bytes, max_bytes) = (client.origin.peer, client.link.charged_bytes, self.budget.max_bytes);
        let kernel_bytes = client.link.kernel_bytes;
        tracing::warn!(
            "{peer} is disconnected: it is among those that hold the most memory ({bytes} bytes, {kernel_bytes} of them in \
             the kernel's socket buffers) and the worker's budget of {max_bytes} bytes is used up; have the client take its \
             responses and the server take its requests, or raise memory_budget_kib and the container's memory"
        );
        self.metrics.count_abuse("memory_budget");
        client.link.codec.go_away(ErrorCode::ENHANCE_YOUR_CALM, "the proxy's memory is used up");
        let wire = client.link.wire.filter(|_| kernel_bytes > 0);
        self.write_last(LinkId::Client(id));
        // An orderly close would leave the unsent bytes in the kernel for as long as the peer does not read.
        self.effects.extend(wire.map(Effect::Abort));
        self.abort_at_servers(id);
        self.close_client(id);
    }
}

/// Returns how many bytes the kernel holds in a connection to a server, if the connection carries one client's content
/// alone: HTTP/1 or opaque bytes. A connection of HTTP/2 carries the content of many clients.
fn held_alone(upstream: &Upstream) -> Option<usize> {
    let bytes = upstream.link.kernel_bytes;
    (bytes > 0 && !upstream.key.hop.is_shared()).then_some(bytes)
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
