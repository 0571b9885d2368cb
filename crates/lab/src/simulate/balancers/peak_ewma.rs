//! Power of two choices on peak EWMA, as in Linkerd's proxy (tower's `PeakEwma` and its `p2c`).
//!
//! The client draws two different servers, and sends the call to the server with the lower cost. The cost is the
//! latency estimate times (calls in flight + 1). The estimate starts at 30 ms. It jumps to any latency above it, and
//! otherwise approaches the observed latencies with a time constant of 10 s. Each time the estimate is read, it also
//! decays toward 0. A failure updates the estimate like any answer, and a stream counts as in flight until its first
//! answer, as in Linkerd by default.
//!
//! Omitted: failure accrual (circuit breaking), which is off by default.

use std::time::{Duration, Instant};

use leno_model::balance::Outcome;

use super::{Balance, Ticket};

const DECAY_S: f64 = 10.0;
const DEFAULT_RTT_S: f64 = 0.030;

pub(super) struct PeakEwma {
    random: fastrand::Rng,
    servers: Vec<usize>,
    estimates: Vec<Option<Estimate>>,
}

#[derive(Clone, Copy)]
struct Estimate {
    rtt_s: f64,
    updated: Instant,
    in_flight: u32,
}

impl Estimate {
    fn update(&mut self, now: Instant, rtt_s: f64) {
        if rtt_s > self.rtt_s {
            self.rtt_s = rtt_s;
        } else {
            let kept = (-now.saturating_duration_since(self.updated).as_secs_f64() / DECAY_S).exp();
            self.rtt_s = self.rtt_s * kept + rtt_s * (1.0 - kept);
        }
        self.updated = now;
    }

    fn cost(&mut self, now: Instant) -> f64 {
        self.update(now, 0.0);
        self.rtt_s * f64::from(self.in_flight + 1)
    }
}

impl PeakEwma {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), servers: Vec::new(), estimates: Vec::new() }
    }

    fn cost(&mut self, now: Instant, server: usize) -> f64 {
        self.estimates[server].as_mut().map_or(f64::INFINITY, |estimate| estimate.cost(now))
    }

    fn answer(&mut self, now: Instant, ticket: &mut Ticket, latency: Duration) {
        if std::mem::replace(&mut ticket.counted, false)
            && let Some(estimate) = &mut self.estimates[ticket.server]
        {
            estimate.in_flight = estimate.in_flight.saturating_sub(1);
            estimate.update(now, latency.as_secs_f64());
        }
    }
}

impl Balance for PeakEwma {
    fn set_endpoints(&mut self, now: Instant, servers: &[usize]) {
        self.servers = servers.to_vec();
        let highest = servers.iter().max().map_or(0, |server| server + 1);
        self.estimates.resize(self.estimates.len().max(highest), None);
        for (server, estimate) in self.estimates.iter_mut().enumerate() {
            let fresh = Estimate { rtt_s: DEFAULT_RTT_S, updated: now, in_flight: 0 };
            *estimate = servers.contains(&server).then(|| estimate.unwrap_or(fresh));
        }
    }

    fn pick(&mut self, now: Instant, _method: u32) -> Ticket {
        let count = self.servers.len();
        let first = self.random.usize(..count);
        let mut server = self.servers[first];
        if count > 1 {
            let second = self.servers[(first + self.random.usize(1..count)) % count];
            if self.cost(now, second) < self.cost(now, server) {
                server = second;
            }
        }
        if let Some(estimate) = &mut self.estimates[server] {
            estimate.in_flight += 1;
        }
        Ticket::to(server)
    }

    fn answered(&mut self, now: Instant, ticket: &mut Ticket, latency: Duration) {
        self.answer(now, ticket, latency);
    }

    fn finish(&mut self, now: Instant, mut ticket: Ticket, outcome: Outcome) {
        let (Outcome::Success { latency } | Outcome::Failure { latency, .. } | Outcome::Cancelled { waited: latency }) =
            outcome
        else {
            return;
        };
        self.answer(now, &mut ticket, latency);
    }
}
