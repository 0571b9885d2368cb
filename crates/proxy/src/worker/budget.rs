//! Budget: limits the memory that all peers together can make a worker hold.
//!
//! Other limits bound one connection, and there may be thousands of connections. So a worker also adds up the memory of
//! all of them. Above half of the budget, receive windows stop growing, and connections keep no empty output buffers.
//! Above the whole budget, the worker closes connections until it is below seven eighths:
//!
//! 1. connections whose protocol is not known yet, as long as all of them together hold more than an eighth of the
//!    budget. The source address that holds the most comes first;
//! 2. the largest connections of the account that holds the most, which is an identity or a source address. Our own
//!    application has half of the budget to itself, and its connections are only closed if it holds more.
//!
//! The charge of a link is updated after each flush, which follows each read and write; the charge of an arrival after
//! each read. Invariant: `charged_bytes` is the sum of `Link::charged_bytes` over all links, and `arrival_bytes` is the
//! sum of `Arrival::charged_bytes` over all arrivals.

use std::cmp::Reverse;

use leno_accept::Source;
use leno_http2::ErrorCode;
use rustc_hash::FxHashMap;

use super::Worker;
use super::accept::ArrivalId;
use super::accept::{Arrival, Door};
use super::accounts::AccountId;
use super::client::Client;
use super::client::ClientId;
use super::link::{Link, LinkId};
use super::wire::Wire;

/// Memory of a connection besides its buffers and tables: its structs in the proxy and in the kernel.
const CONNECTION_BYTES: usize = 4 << 10;
/// Memory of a call besides its fields, its content and its streams: its struct, its timers and its entries in queues.
const CALL_BYTES: usize = 1 << 10;
/// Most clients' connections that are closed in one turn of the event loop to get below the budget.
const VICTIMS_MAX: usize = 64;

/// The memory that a worker's connections hold.
#[derive(Debug)]
pub(super) struct Budget {
    max_bytes: usize,
    charged_bytes: usize,
    arrival_bytes: usize,
    /// Memory is short: more than half of the budget was used, and still more than three eighths are.
    is_tight: bool,
}

impl Budget {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, charged_bytes: 0, arrival_bytes: 0, is_tight: false }
    }

    /// Changes the charge of a link from `before` to `after` bytes.
    fn charge(&mut self, before: usize, after: usize) {
        self.charged_bytes = (self.charged_bytes + after).saturating_sub(before);
    }

    /// Returns whether connections must save memory, once each time that this changes, and `None` otherwise.
    fn tightness_changed(&mut self, held_bytes: usize) -> Option<bool> {
        let is_tight = match self.is_tight {
            true => held_bytes > self.max_bytes / 8 * 3,
            false => held_bytes > self.max_bytes / 2,
        };
        let has_changed = std::mem::replace(&mut self.is_tight, is_tight) != is_tight;
        has_changed.then_some(is_tight)
    }
}

impl Worker {
    /// Updates the charge of a link.
    pub(super) fn charge(&mut self, id: LinkId) {
        let Some((link, wires, _)) = self.link_and_wire(id) else { return };
        let mut bytes = CONNECTION_BYTES + link.codec.memory_bytes() + link.held.capacity();
        bytes += wires.get(link.wire).map_or(0, Wire::memory_bytes);
        if let LinkId::Client(client) = id {
            // Content and fields count for the client that sent them, or that does not read them, wherever they wait.
            bytes += link.codec.queue_memory_bytes() + link.codec.held_bytes();
            bytes += link.codec.stream_count() * CALL_BYTES;
            bytes += self.clients.get(client).map_or(0, Client::memory_bytes);
        } else {
            // The client is charged for the content that waits here, but not for the unused capacity of its buffers.
            // Trailers that wait count twice, here and for the client.
            bytes += link.codec.queue_memory_bytes().saturating_sub(link.codec.queued_bytes());
        }
        let Some(link) = self.link(id) else { return };
        let before = std::mem::replace(&mut link.charged_bytes, bytes);
        self.budget.charge(before, bytes);
    }

    /// Removes the charge of a link that has closed.
    pub(super) fn discharge(&mut self, link: &Link) {
        self.budget.charge(link.charged_bytes, 0);
    }

    /// Updates the charge of an arrival.
    pub(super) fn charge_arrival(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get_mut(id) else { return };
        let bytes =
            CONNECTION_BYTES + arrival.first.capacity() + self.wires.get(arrival.wire).map_or(0, Wire::memory_bytes);
        let before = std::mem::replace(&mut arrival.charged_bytes, bytes);
        self.budget.arrival_bytes = (self.budget.arrival_bytes + bytes).saturating_sub(before);
    }

    /// Removes the charge of an arrival that has ended or become a client's connection.
    pub(super) fn discharge_arrival(&mut self, arrival: &Arrival) {
        self.budget.arrival_bytes = self.budget.arrival_bytes.saturating_sub(arrival.charged_bytes);
    }

    /// Returns all memory that peers make this worker hold, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.budget.charged_bytes + self.budget.arrival_bytes + self.calls.held_bytes()
    }

    /// Returns whether a new connection must save memory.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.budget.is_tight
    }

    /// Keeps the worker within its budget. Called once in each turn of the event loop.
    pub(super) fn keep_budget(&mut self) {
        let held_bytes = self.held_bytes();
        if let Some(is_tight) = self.budget.tightness_changed(held_bytes) {
            self.save_memory(is_tight);
        }
        self.metrics.held_bytes.set(held_bytes as u64);
        if held_bytes > self.budget.max_bytes {
            self.relieve();
        }
    }

    /// Tells all connections whether memory is short, and updates their charges.
    fn save_memory(&mut self, on: bool) {
        let clients = self.clients.iter().map(|(id, _)| LinkId::Client(id));
        let upstreams = self.upstreams.iter().map(|(id, _)| LinkId::Endpoint(id));
        for id in clients.chain(upstreams).collect::<Vec<_>>() {
            if let Some(link) = self.link(id) {
                link.codec.save_memory(on);
                self.charge(id);
            }
        }
    }

    /// Closes connections until the worker holds at most seven eighths of its budget, or has closed [`VICTIMS_MAX`]
    /// clients.
    fn relieve(&mut self) {
        let enough = self.budget.max_bytes / 8 * 7;
        self.drop_arrivals(enough);
        let mut victims = 0;
        while self.held_bytes() > enough && victims < VICTIMS_MAX {
            let clients = self.clients_of_heaviest();
            if clients.is_empty() {
                break;
            }
            for id in clients {
                if self.held_bytes() <= enough || victims >= VICTIMS_MAX {
                    break;
                }
                victims += 1;
                self.give_up(id);
            }
        }
    }

    /// Returns the connections of the account that holds the most, the largest first. The connections of our own
    /// application count as one account here. If there are other accounts, it is left out as long as it holds at most
    /// half of the budget.
    fn clients_of_heaviest(&self) -> Vec<ClientId> {
        let account_of = |client: &Client| self.accounts.is_of_a_caller(client.account).then_some(client.account);
        let mut totals: FxHashMap<Option<AccountId>, usize> = FxHashMap::default();
        for (_, client) in self.clients.iter() {
            *totals.entry(account_of(client)).or_default() += client.link.charged_bytes;
        }
        // Connections to endpoints and stored requests count as memory of our own application too.
        let of_callers: usize = totals.iter().filter(|(account, _)| account.is_some()).map(|(_, total)| *total).sum();
        let of_application = self.held_bytes().saturating_sub(self.budget.arrival_bytes + of_callers);
        if of_application <= self.budget.max_bytes / 2 && totals.len() > 1 {
            totals.remove(&None);
        }
        let Some((heaviest, _)) = totals.into_iter().max_by_key(|(_, total)| *total) else { return Vec::new() };
        let clients = self.clients.iter().filter(|(_, client)| account_of(client) == heaviest);
        let mut clients: Vec<_> = clients.map(|(id, client)| (client.link.charged_bytes, id)).collect();
        clients.sort_unstable_by(|a, b| b.cmp(a));
        clients.into_iter().map(|(_, id)| id).collect()
    }

    /// Closes a client's connection at once, because the worker needs its memory.
    fn give_up(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let (peer, bytes, max_bytes) = (client.origin.peer, client.link.charged_bytes, self.budget.max_bytes);
        tracing::warn!(
            "{peer} is disconnected: it is among those that hold the most memory ({bytes} bytes) and the worker's budget of \
             {max_bytes} bytes is used up; have the client take its responses, or raise memory_budget_kib and the \
             container's memory"
        );
        self.metrics.count_abuse("memory_budget");
        client.link.codec.go_away(ErrorCode::ENHANCE_YOUR_CALM, "the proxy's memory is used up");
        self.flush_last(LinkId::Client(id));
        self.close_client(id);
    }

    /// Drops arrivals until the worker holds at most `enough` bytes, or all arrivals at most an eighth of the budget.
    /// The source that holds the most comes first, its oldest arrival before the others. Our own application comes
    /// last.
    fn drop_arrivals(&mut self, enough: usize) {
        let few = self.budget.max_bytes / 8;
        if self.budget.arrival_bytes <= few {
            return;
        }
        let source_of = |arrival: &Arrival| match arrival.origin.door {
            Door::Outbound => None,
            Door::Inbound | Door::Tunnel => Some(Source::of(arrival.origin.peer.ip())),
        };
        let mut totals: FxHashMap<Option<Source>, usize> = FxHashMap::default();
        for (_, arrival) in self.arrivals.iter() {
            *totals.entry(source_of(arrival)).or_default() += arrival.charged_bytes;
        }
        let total = |arrival: &Arrival| {
            let source = source_of(arrival);
            (source.is_none(), Reverse(totals.get(&source).copied().unwrap_or_default()))
        };
        let mut arrivals: Vec<_> =
            self.arrivals.iter().map(|(id, arrival)| (total(arrival), arrival.since, id)).collect();
        arrivals.sort_unstable();
        for (_, _, id) in arrivals {
            if self.held_bytes() <= enough || self.budget.arrival_bytes <= few {
                break;
            }
            self.metrics.count_abuse("memory_budget");
            self.drop_arrival(id);
        }
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
