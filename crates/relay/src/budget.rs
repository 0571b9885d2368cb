//! Budget: limits the memory that all peers together can make a worker hold.
//!
//! Other limits bound one connection, and there may be thousands of connections. So a worker also adds up the memory of
//! all its connections. Above half of the budget, receive windows stop growing, connections keep no empty output
//! buffers, and less of each response of an HTTP/1 server may wait. Above the whole budget, the worker closes
//! connections until it holds at most seven eighths of the budget. It closes, in this order:
//!
//! 1. arrivals, which are connections whose protocol is not known yet, as long as all arrivals together hold more than
//!    an eighth of the budget. The worker begins with the source address that holds the most;
//! 2. the largest connections of the party that holds the most: a namespace, all callers without a certificate together,
//!    or our own application. In a namespace, the identity that holds the most loses connections, and without
//!    certificates, the source address that holds the most. So many small identities of one namespace do not make a large
//!    caller of another namespace lose its connections. Our own application has half of the budget to itself, so its
//!    connections are closed only if it holds more than half.
//!
//! The charge of a link (a connection whose protocol is known) is the memory that the budget counts for it. The charge
//! includes the kernel's memory for the link's socket, because that memory is part of the container's memory. The event
//! loop measures the kernel's memory whenever the socket accepts no bytes or is not read. It measures other sockets
//! once a second if the kernel may hold more than a negligible part ([`Relay::negligible_bytes`]).
//!
//! The charge of a link is updated after each flush, and each read or write is followed by a flush. The charge of an
//! arrival is updated after each read. Invariant: `charged_bytes` is the sum of `Link::charged_bytes` over all links,
//! and `arrival_bytes` is the sum of `Arrival::charged_bytes` over all arrivals.

use std::collections::{BTreeSet, BinaryHeap};

use leno_http2::ErrorCode;
use rustc_hash::FxHashMap;

use crate::Relay;
use crate::downstream::accounts::{AccountId, Party};
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
    /// How often the worker has added up the memory of all connections.
    #[cfg(test)]
    sums: usize,
}

impl Budget {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            charged_bytes: 0,
            arrival_bytes: 0,
            is_tight: false,
            #[cfg(test)]
            sums: 0,
        }
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
    /// The connections that this relief may still close; `None` before it closes the first.
    holders: Option<Holders>,
    victims: usize,
}

/// All connections of clients, with the memory that they hold.
///
/// The relay adds up the memory at most once in a turn of the event loop, because the sum visits all connections and
/// all calls. Then it subtracts each connection that it closes. If it added up again whenever another account becomes
/// the heaviest, two accounts of equal size could occupy the worker: each closed connection would cost a new sum.
#[derive(Debug, Default)]
struct Holders {
    /// The parties of callers.
    callers: BinaryHeap<PartyHolder>,
    /// Memory that `callers` hold together.
    callers_bytes: usize,
    application: PartyHolder,
}

/// The accounts of one party. Of two parties, the one that holds more memory is the greater.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct PartyHolder {
    /// Memory that `accounts` hold together. This is the first field, because it determines the order of holders.
    bytes: usize,
    accounts: BTreeSet<Holder>,
}

/// The connections of one account. Of two holders, the one that holds more memory is the greater.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Holder {
    /// Memory that `clients` hold together. This is the first field, because it determines the order of holders.
    bytes: usize,
    /// Each connection with the memory that it holds, in bytes. The connection that holds the most is the last.
    clients: Vec<(usize, ClientId)>,
}

impl Holders {
    /// Removes and returns the largest connection of the heaviest account of the party that holds the most memory. Leaves
    /// out our own application if `spares_application` is true and there are other parties.
    fn take_largest(&mut self, spares_application: bool) -> Option<ClientId> {
        let is_applications = match self.callers.peek() {
            Some(heaviest) => !spares_application && self.application.bytes > heaviest.bytes,
            None => true,
        };
        if is_applications {
            return self.application.take_largest().map(|(_, id)| id);
        }
        let mut heaviest = self.callers.pop()?;
        let largest = heaviest.take_largest();
        if !heaviest.accounts.is_empty() {
            self.callers.push(heaviest);
        }
        let (bytes, id) = largest?;
        self.callers_bytes = self.callers_bytes.saturating_sub(bytes);
        Some(id)
    }
}

impl PartyHolder {
    fn add(&mut self, account: Holder) {
        self.bytes += account.bytes;
        self.accounts.insert(account);
    }

    fn take_largest(&mut self) -> Option<(usize, ClientId)> {
        let mut heaviest = self.accounts.pop_last()?;
        let largest = heaviest.take_largest();
        if !heaviest.clients.is_empty() {
            self.accounts.insert(heaviest);
        }
        let (bytes, id) = largest?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some((bytes, id))
    }
}

impl Holder {
    fn take_largest(&mut self) -> Option<(usize, ClientId)> {
        let (bytes, id) = self.clients.pop()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some((bytes, id))
    }
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

    /// Closes the largest connection of the heaviest account of the party that holds the most memory, and returns `true`.
    /// Our own application is left out if it holds at most half of the budget and there are other parties. Returns
    /// `false` and closes nothing if the worker holds at most seven eighths of its budget, if no connection is left, or
    /// if `relief` has closed as many connections as one turn may close.
    ///
    /// After `true`, the caller must write all output, carry out the effects, and call this function again. The effects
    /// free the memory of the client's wire, and of the connections to servers that only this client uses.
    pub fn relieve(&mut self, relief: &mut Relief) -> bool {
        if self.held_bytes() <= self.enough_bytes() || relief.victims >= VICTIMS_MAX {
            return false;
        }
        let holders = relief.holders.get_or_insert_with(|| self.sum_up());
        // Our own application is charged for all memory except that of arrivals and of callers. So its account includes
        // the connections to endpoints.
        let of_application = self.held_bytes().saturating_sub(self.budget.arrival_bytes + holders.callers_bytes);
        let spares_application = of_application <= self.budget.max_bytes / 2;
        while let Some(id) = holders.take_largest(spares_application) {
            // The connection may have ended when the caller wrote the output.
            if self.downstreams.get(id).is_some() {
                relief.victims += 1;
                self.give_up(id);
                return true;
            }
        }
        false
    }

    /// Adds up the memory that the connections of each account hold.
    fn sum_up(&mut self) -> Holders {
        #[cfg(test)]
        {
            self.budget.sums += 1;
        }
        let elsewhere = self.held_elsewhere();
        let mut accounts: FxHashMap<AccountId, Holder> = FxHashMap::default();
        for (id, client) in self.downstreams.iter() {
            let bytes = client.link.charged_bytes + elsewhere.get(&id).copied().unwrap_or_default();
            let holder = accounts.entry(client.account).or_default();
            holder.bytes += bytes;
            holder.clients.push((bytes, id));
        }
        let mut parties: FxHashMap<Party, PartyHolder> = FxHashMap::default();
        for (account, mut holder) in accounts {
            holder.clients.sort_unstable();
            parties.entry(self.downstreams.accounts().party(account)).or_default().add(holder);
        }
        let application = parties.remove(&Party::Application).unwrap_or_default();
        let callers_bytes = parties.values().map(|party| party.bytes).sum();
        Holders { callers: parties.into_values().collect(), callers_bytes, application }
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
