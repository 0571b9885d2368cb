//! Charges the memory of arrivals (connections whose protocol is not known yet) to the worker's memory budget.

use std::cmp::Reverse;

use leno_accept::Source;
use leno_relay::{CONNECTION_BYTES, Door, Relief};
use rustc_hash::FxHashMap;

use super::Worker;
use super::accept::{Arrival, ArrivalId};

impl Worker {
    /// Measures the memory of an arrival, and updates what the budget counts for it.
    pub(super) fn charge_arrival(&mut self, id: ArrivalId) {
        let Some(arrival) = self.arrivals.get_mut(id) else { return };
        let mut bytes = CONNECTION_BYTES + arrival.first.capacity();
        if let Some(wire) = self.wires.get_mut(arrival.wire) {
            wire.measure_if_stuck(self.relay.now(), false);
            bytes += wire.tls_bytes() + wire.kernel_bytes();
        }
        let before = std::mem::replace(&mut arrival.charged_bytes, bytes);
        self.relay.charge_arrival(before, bytes);
    }

    /// Removes the charge of an arrival that has ended or become a client's connection.
    pub(super) fn discharge_arrival(&mut self, arrival: &Arrival) {
        self.relay.charge_arrival(arrival.charged_bytes, 0);
    }

    /// Closes connections until the worker is within its memory budget. Called once in each turn of the event loop.
    pub(super) fn keep_budget(&mut self) {
        if self.relay.exceeds_budget() {
            self.drop_arrivals();
            let mut relief = Relief::default();
            while self.relay.relieve(&mut relief) {
                // The flush also closes the connections to servers that carried only this client's calls. Otherwise the
                // budget would still count their memory, and the loop would disconnect more clients than necessary.
                self.flush_all();
            }
        }
    }

    /// Drops arrivals until the worker holds at most seven eighths of its budget, or until all arrivals together hold
    /// at most an eighth of it. Begins with the source that holds the most memory, and with the oldest arrival of that
    /// source. Connections of our own application are dropped last.
    fn drop_arrivals(&mut self) {
        if !self.relay.has_many_arrivals() {
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
            if self.relay.held_bytes() <= self.relay.enough_bytes() || !self.relay.has_many_arrivals() {
                break;
            }
            self.relay.metrics().count_abuse("memory_budget");
            self.drop_arrival(id);
        }
    }
}
