//! Prequal (Wydrowski and others, "Load is not what you should balance", NSDI 2024), simplified.
//!
//! After each pick, the client probes three servers chosen at random. The probes' answers enter a pool, which holds at
//! most 16 answers, and at most one answer of each server. The pool drops an answer after a second, or after a number
//! of uses. At each pick, the pool also drops one answer: alternately the oldest and the worst.
//!
//! A server is hot if its calls in flight exceed the 84th percentile of recent answers; otherwise it is cold. A pick
//! takes the cold server with the lowest latency or, if all servers are hot, the server with the fewest calls in
//! flight. If the pool has fewer than two answers, a pick takes a random server.
//!
//! A server answers a probe with its number of calls in flight, and with a median latency. The median is that of recent
//! calls which arrived at a similar load: their number of calls in flight on arrival differs from the present number by
//! at most a quarter, or by 1. The server considers its calls of the last five seconds, at most 32. It takes the median
//! of the latest nine similar calls or, without similar calls, of the latest nine calls. Without recent calls, the
//! latency is 0.
//!
//! Further simplifications: probes always arrive, after 0.2 ms. Clients probe only after a pick. Errors do not count
//! against a server.

use std::time::{Duration, Instant};

use leno_model::balance::Outcome;

use super::{Balance, Report, Ticket};

const PROBES_PER_PICK: usize = 3;
const POOL_MAX: usize = 16;
const PROBE_AGE_MAX: Duration = Duration::from_secs(1);
/// A server is hot if its calls in flight exceed this quantile of the recent answers: 2^-0.25.
const HOT_QUANTILE: f64 = 0.84;
/// Number of latest probe answers from which the quantile is computed.
const RECENT_ANSWERS: usize = 128;

pub(super) struct Prequal {
    random: fastrand::Rng,
    servers: Vec<usize>,
    /// Answers to probes, oldest first.
    pool: Vec<Probe>,
    recent_in_flight: Vec<u32>,
    next_recent: usize,
    hot_above: u32,
    probes_due: usize,
    worst_goes_next: bool,
}

struct Probe {
    server: usize,
    in_flight: u32,
    latency_ms: f64,
    answered: Instant,
    uses_left: u32,
}

impl Prequal {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            servers: Vec::new(),
            pool: Vec::new(),
            recent_in_flight: Vec::new(),
            next_recent: 0,
            hot_above: 0,
            probes_due: 0,
            worst_goes_next: false,
        }
    }

    /// Maximum number of picks that may use one answer. The limit balances two risks: an empty pool and outdated
    /// answers. There is no limit if the pool has room for an answer of every server, because each server's new answer
    /// then replaces its previous one.
    fn uses(&self) -> u32 {
        let new_part = 1.0 - POOL_MAX as f64 / self.servers.len() as f64;
        let net_probes = new_part * PROBES_PER_PICK as f64 - 1.0;
        if net_probes > 0.0 { (2.0 / net_probes).ceil() as u32 } else { u32::MAX }
    }

    fn is_hot(&self, probe: &Probe) -> bool {
        probe.in_flight > self.hot_above
    }

    /// The rank of a server; the lowest rank is the best. Every cold server ranks before every hot server. Cold servers
    /// are ranked by latency, hot servers by calls in flight.
    fn rank(&self, probe: &Probe) -> (bool, f64) {
        let hot = self.is_hot(probe);
        (hot, if hot { f64::from(probe.in_flight) } else { probe.latency_ms })
    }

    fn best(&self) -> Option<usize> {
        let ranks = self.pool.iter().map(|probe| self.rank(probe)).enumerate();
        ranks.min_by(|one, other| compare(one.1, other.1)).map(|(index, _)| index)
    }

    fn worst(&self) -> Option<usize> {
        let ranks = self.pool.iter().map(|probe| self.rank(probe)).enumerate();
        ranks.max_by(|one, other| compare(one.1, other.1)).map(|(index, _)| index)
    }

    fn remove_one(&mut self) {
        self.worst_goes_next = !self.worst_goes_next;
        let index = if self.worst_goes_next { self.worst() } else { Some(0) };
        // Keep two answers, because with fewer answers the next pick would take a random server.
        if let Some(index) = index.filter(|_| self.pool.len() > 2) {
            self.pool.remove(index);
        }
    }

    fn note_in_flight(&mut self, in_flight: u32) {
        if self.recent_in_flight.len() < RECENT_ANSWERS {
            self.recent_in_flight.push(in_flight);
        } else {
            self.recent_in_flight[self.next_recent] = in_flight;
        }
        self.next_recent = (self.next_recent + 1) % RECENT_ANSWERS;
        // Sort only at every eighth answer, because sorting at every answer would take longer than the rest of the
        // simulation.
        if self.next_recent.is_multiple_of(8) {
            let mut sorted = self.recent_in_flight.clone();
            sorted.sort_unstable();
            self.hot_above = sorted[(sorted.len() as f64 * HOT_QUANTILE) as usize];
        }
    }
}

fn compare(one: (bool, f64), other: (bool, f64)) -> std::cmp::Ordering {
    one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
}

impl Balance for Prequal {
    fn set_endpoints(&mut self, _now: Instant, servers: &[usize]) {
        self.servers = servers.to_vec();
        self.pool.retain(|probe| servers.contains(&probe.server));
    }

    fn pick(&mut self, now: Instant, _method: u32) -> Ticket {
        self.probes_due = PROBES_PER_PICK;
        self.pool.retain(|probe| now.saturating_duration_since(probe.answered) < PROBE_AGE_MAX);
        let Some(index) = self.best().filter(|_| self.pool.len() >= 2) else {
            return Ticket::to(self.servers[self.random.usize(..self.servers.len())]);
        };
        let probe = &mut self.pool[index];
        let server = probe.server;
        probe.in_flight += 1;
        probe.uses_left -= 1;
        if probe.uses_left == 0 {
            self.pool.remove(index);
        }
        self.remove_one();
        Ticket::to(server)
    }

    fn answered(&mut self, _now: Instant, _ticket: &mut Ticket, _latency: Duration) {}

    fn finish(&mut self, _now: Instant, _ticket: Ticket, _outcome: Outcome) {}

    fn probe(&mut self) -> Option<usize> {
        self.probes_due = self.probes_due.checked_sub(1)?;
        Some(self.servers[self.random.usize(..self.servers.len())])
    }

    fn probed(&mut self, now: Instant, server: usize, report: Report) {
        self.note_in_flight(report.in_flight);
        self.pool.retain(|probe| probe.server != server);
        if self.pool.len() == POOL_MAX {
            self.pool.remove(0);
        }
        self.pool.push(Probe {
            server,
            in_flight: report.in_flight,
            latency_ms: report.latency_ms.unwrap_or(0.0),
            answered: now,
            uses_left: self.uses(),
        });
    }
}
