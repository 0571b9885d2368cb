//! Power of two choices on calls in flight, as in Envoy's `LEAST_REQUEST` with its default choice count and equal
//! weights: the client draws two servers, with replacement, and sends the call to the server with fewer calls in
//! flight.
//!
//! Omitted: outlier detection, which is off by default, and slow start.

use std::time::{Duration, Instant};

use leno_model::balance::Outcome;

use super::{Balance, Ticket};

pub(super) struct LeastRequest {
    random: fastrand::Rng,
    servers: Vec<usize>,
    in_flight: Vec<u32>,
}

impl LeastRequest {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), servers: Vec::new(), in_flight: Vec::new() }
    }

    fn draw(&mut self) -> usize {
        self.servers[self.random.usize(..self.servers.len())]
    }
}

impl Balance for LeastRequest {
    fn set_endpoints(&mut self, _now: Instant, servers: &[usize]) {
        self.servers = servers.to_vec();
        let highest = servers.iter().max().map_or(0, |server| server + 1);
        self.in_flight.resize(self.in_flight.len().max(highest), 0);
    }

    fn pick(&mut self, _now: Instant, _method: u32) -> Ticket {
        let (first, second) = (self.draw(), self.draw());
        let server = if self.in_flight[second] < self.in_flight[first] { second } else { first };
        self.in_flight[server] += 1;
        Ticket::to(server)
    }

    /// Does nothing, because Envoy counts a request as active until its response has ended.
    fn answered(&mut self, _now: Instant, _ticket: &mut Ticket, _latency: Duration) {}

    fn finish(&mut self, _now: Instant, ticket: Ticket, _outcome: Outcome) {
        self.in_flight[ticket.server] -= 1;
    }
}
