//! Upkeep: the periodic work of a worker: its relay's sweep, silent arrivals, unused memory, and drains.

use std::time::{Duration, Instant, SystemTime};

use leno_accept::BACKLOG;
use leno_relay::GOAWAY_GRACE;
use leno_relay::limits::ms;

use super::accept::{Arrival, ArrivalId, MAX_ACCEPTS};
use super::wire::Carries;
use super::{Worker, memory};

/// Shortest interval at which memory is returned to the system. Returning takes a millisecond for every few tens of
/// thousands of chunks.
const TRIM_EVERY: Duration = Duration::from_secs(3);
/// Maximum number of sweeps, after `server_first_after_ms`, that check for one silent client whether its server sends
/// first. The result of the check hardly changes between sweeps, and there may be thousands of silent clients.
const LATE_LOOKS_MAX: u8 = 2;

impl Worker {
    /// Does the periodic work that is due.
    pub(super) fn keep_up(&mut self) {
        if !self.relay.sweep() {
            return;
        }
        self.relay.set_wall_clock(SystemTime::now());
        self.accept_again |= std::mem::take(&mut self.accept_failed);
        self.recheck.sweep();
        self.check_stays();
        self.sweep_arrivals();
        self.check_sockets();
        if self.relay.has_swept_all() {
            self.give_back_memory();
        }
    }

    /// Handles arrivals (connections whose protocol is not known yet) that have waited too long. During a drain,
    /// arrivals may wait for less time.
    fn sweep_arrivals(&mut self) {
        let now = self.relay.now();
        let is_draining = self.relay.draining().is_some();
        let relay = &self.relay.limits().relay;
        let limit = if is_draining { GOAWAY_GRACE } else { ms(relay.detect_timeout_ms) };
        let server_first_after = ms(relay.server_first_after_ms);
        self.review_arrivals(|arrival| arrival.is_held);
        let mut silent = Vec::new();
        for (id, arrival) in self.arrivals.iter_mut().filter(|(_, arrival)| !arrival.is_held) {
            if now - arrival.since >= server_first_after {
                if arrival.late_looks >= LATE_LOOKS_MAX {
                    continue;
                }
                arrival.late_looks += 1;
            }
            silent.push(id);
        }
        for id in silent {
            let Some(arrival) = self.arrivals.get(id).filter(|arrival| self.is_servers_turn(arrival)) else { continue };
            self.mark_unfinished(arrival.wire);
        }
        let is_late = |arrival: &Arrival| !arrival.is_held && now - arrival.since >= limit;
        let late = self.arrivals.iter().filter(|(_, arrival)| is_late(arrival)).map(|(id, _)| id);
        for id in late.collect::<Vec<ArrivalId>>() {
            if is_draining { self.drop_arrival(id) } else { self.decide_late(id) }
        }
    }

    /// Checks the socket of each connection once a second: updates the kernel's limit on unread bytes, and measures the
    /// memory that the kernel holds for the connection, unless this memory is surely negligible.
    fn check_sockets(&mut self) {
        let negligible = self.relay.negligible_bytes(self.wires.len());
        let now = self.relay.now();
        let in_turn = self.wires.iter().map(|(id, _)| id).filter(|id| self.relay.is_in_turn(id.place()));
        for id in in_turn.collect::<Vec<_>>() {
            let Some(wire) = self.wires.get_mut(id) else { continue };
            if let Some(Carries::Link(link)) = wire.carries {
                // The limit ends when an HTTP/1 exchange becomes a tunnel.
                wire.limit_unread(self.relay.unread_limit(link));
            }
            wire.update_unread_limit();
            if !wire.should_be_measured(negligible) {
                continue;
            }
            wire.measure(now);
            match wire.carries {
                Some(Carries::Arrival(arrival)) => self.charge_arrival(arrival),
                // The next flush of the connection updates its charge.
                Some(Carries::Link(link)) => self.relay.mark_dirty(link),
                None => {}
            }
        }
    }

    /// After a burst, shrinks the tables that have grown, and returns their memory to the system.
    fn give_back_memory(&mut self) {
        if std::mem::take(&mut self.trim_next) {
            return memory::trim();
        }
        if !(self.burst || self.relay.has_burst()) || self.relay.now() < self.next_trim {
            return;
        }
        self.burst = false;
        self.next_trim = self.relay.now() + TRIM_EVERY;
        self.wires.shrink_to_fit();
        self.arrivals.shrink_to_fit();
        self.relay.shrink();
        memory::empty_cache();
        self.trim_next = true;
    }

    /// Begins a drain: accepts no new connections, tells clients to use other connections, and lets calls in flight
    /// finish.
    pub(super) fn drain(&mut self, grace: Duration) {
        if self.relay.draining().is_some() {
            return;
        }
        let until = self.relay.now() + grace;
        self.relay.begin_drain(until);
        // The kernel has already accepted the connections in the listeners' queues, so serve them, too. A queue has at
        // most about `BACKLOG` connections. Do not accept many more than this number: otherwise a client that connects
        // all the time could delay the drain.
        self.accept_again = true;
        for _ in 0..=BACKLOG as usize / MAX_ACCEPTS {
            if !self.accept_again {
                break;
            }
            self.accept();
        }
        for mut listener in std::mem::take(&mut self.listeners) {
            listener.deregister(&self.poll);
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        let is_over = |until: Instant| self.relay.now() >= until;
        let is_empty = || !self.relay.has_work() && self.arrivals.is_empty();
        self.relay.draining().is_some_and(|until| is_empty() || is_over(until))
    }
}
