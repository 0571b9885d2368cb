//! A discrete-event simulation of callers, a balancer and its servers, in virtual time.
//!
//! Servers have a number of workers and a queue; service times are lognormal. Callers are a closed loop
//! (each starts its next call when the last one ended) or arrive by chance at a rate. Everything follows
//! from one seed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::random::Random;
use super::{Balancer, EndpointId, Outcome, Pick, Policy};

/// Who calls.
#[derive(Debug, Clone, Copy)]
pub(super) enum Load {
    /// So many callers, each with one call at a time.
    Closed { callers: usize },
    /// Calls arrive by chance (Poisson), whether or not earlier ones have ended.
    Open { calls_per_s: f64 },
    /// No new calls; those in flight end.
    Stopped,
}

/// How a server behaves; changeable while the simulation stands still.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) workers: usize,
    pub(super) mean_ms: f64,
    /// The standard deviation of the service time's logarithm.
    pub(super) sigma: f64,
    /// Time added to every answer without occupying a worker.
    pub(super) added_ms: f64,
    /// The part of calls that fail at once, 0 to 1.
    pub(super) failing: f64,
    busy: usize,
    queue: VecDeque<usize>,
}

impl Server {
    pub(super) fn healthy() -> Self {
        Self { workers: 32, mean_ms: 10.0, sigma: 0.5, added_ms: 0.0, failing: 0.0, busy: 0, queue: VecDeque::new() }
    }
}

/// One ended call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) latency_ms: f64,
    pub(super) server: usize,
    pub(super) failed: bool,
}

#[derive(Debug)]
struct Call {
    started: Duration,
    server: usize,
    pick: Option<Pick>,
    failed: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive,
    LeaveWorker(usize),
    Answer(usize),
}

pub(super) struct Simulation {
    pub(super) balancer: Balancer,
    pub(super) servers: Vec<Server>,
    pub(super) records: Vec<Record>,
    pub(super) load: Load,
    random: Random,
    epoch: Instant,
    clock: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    event_number: u64,
    calls: Vec<Call>,
}

pub(super) fn address(server: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + server as u32), 50051))
}

impl Simulation {
    pub(super) fn new(policy: Policy, servers: Vec<Server>, load: Load, seed: u64) -> Self {
        let epoch = Instant::now();
        let mut balancer = Balancer::new(policy, seed);
        balancer.set_endpoints(epoch, (0..servers.len()).map(address));
        let mut simulation = Self {
            balancer,
            servers,
            records: Vec::new(),
            load,
            random: Random::new(seed ^ 0x5eed),
            epoch,
            clock: Duration::ZERO,
            events: BinaryHeap::new(),
            event_number: 0,
            calls: Vec::new(),
        };
        let first_arrivals = match load {
            Load::Closed { callers } => callers,
            Load::Open { .. } => 1,
            Load::Stopped => 0,
        };
        for _ in 0..first_arrivals {
            simulation.schedule(Duration::ZERO, Event::Arrive);
        }
        simulation
    }

    pub(super) fn now(&self) -> Instant {
        self.epoch + self.clock
    }

    /// Makes servers `members` the balancer's endpoints.
    pub(super) fn set_endpoints(&mut self, members: impl IntoIterator<Item = usize>) {
        let now = self.now();
        self.balancer.set_endpoints(now, members.into_iter().map(address));
    }

    /// Forgets what was recorded before, runs, and leaves the records of just this time.
    pub(super) fn measure_for(&mut self, duration: Duration) {
        self.records.clear();
        self.run_for(duration);
    }

    pub(super) fn run_for(&mut self, duration: Duration) {
        let end = self.clock + duration;
        while let Some(Reverse((at, _, _))) = self.events.peek()
            && *at <= end
        {
            let Some(Reverse((at, _, event))) = self.events.pop() else {
                break;
            };
            self.clock = at;
            match event {
                Event::Arrive => self.arrive(),
                Event::LeaveWorker(call) => self.leave_worker(call),
                Event::Answer(call) => self.answer(call),
            }
        }
        self.clock = end;
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.event_number += 1;
        self.events.push(Reverse((self.clock + after, self.event_number, event)));
    }

    fn arrive(&mut self) {
        match self.load {
            Load::Closed { .. } => {}
            Load::Open { calls_per_s } => {
                let wait_s = -(1.0 - self.random.fraction()).ln() / calls_per_s;
                self.schedule(Duration::from_secs_f64(wait_s), Event::Arrive);
            }
            Load::Stopped => return,
        }
        let now = self.now();
        let pick = self.balancer.pick(now, |_| true).expect("some endpoint");
        let server = self.server_of(pick.endpoint);
        let call = self.calls.len();
        let failed = self.random.fraction() < self.servers[server].failing;
        self.calls.push(Call { started: self.clock, server, pick: Some(pick), failed });
        if failed {
            self.schedule(Duration::from_micros(200), Event::Answer(call));
        } else if self.servers[server].busy < self.servers[server].workers {
            self.occupy_worker(call);
        } else {
            self.servers[server].queue.push_back(call);
        }
    }

    fn server_of(&self, endpoint: EndpointId) -> usize {
        let address = self.balancer.address(endpoint).expect("a member");
        let SocketAddr::V4(address) = address else {
            panic!("servers have IPv4 addresses");
        };
        (u32::from(*address.ip()) - 0x0a00_0000) as usize
    }

    fn occupy_worker(&mut self, call: usize) {
        let server = &mut self.servers[self.calls[call].server];
        server.busy += 1;
        let (mean_ms, sigma) = (server.mean_ms, server.sigma);
        let normal = self.normal();
        let service_ms = mean_ms * (sigma * normal - sigma * sigma / 2.0).exp();
        self.schedule(milliseconds(service_ms), Event::LeaveWorker(call));
    }

    fn leave_worker(&mut self, call: usize) {
        let server = &mut self.servers[self.calls[call].server];
        server.busy -= 1;
        let next = server.queue.pop_front();
        let added = milliseconds(server.added_ms);
        if let Some(next) = next {
            self.occupy_worker(next);
        }
        self.schedule(added, Event::Answer(call));
    }

    fn answer(&mut self, call: usize) {
        let now = self.now();
        let Call { started, server, ref mut pick, failed } = self.calls[call];
        let latency = self.clock - started;
        let outcome = if failed { Outcome::Failure { latency, pushback: None } } else { Outcome::Success { latency } };
        let pick = pick.take().expect("answered once");
        self.balancer.finish(now, pick, outcome);
        self.records.push(Record { latency_ms: latency.as_secs_f64() * 1e3, server, failed });
        if let Load::Closed { .. } = self.load {
            self.schedule(Duration::ZERO, Event::Arrive);
        }
    }

    /// A standard normal number (Box-Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.fraction()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.fraction()).cos()
    }

    /// The part of all recorded calls that went to each server.
    pub(super) fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.servers.len()];
        for record in &self.records {
            shares[record.server] += 1.0 / self.records.len() as f64;
        }
        shares
    }

    /// The latency that `part` of the successful recorded calls did not exceed.
    pub(super) fn quantile_ms(&self, part: f64) -> f64 {
        let mut latencies: Vec<f64> =
            self.records.iter().filter(|record| !record.failed).map(|record| record.latency_ms).collect();
        latencies.sort_unstable_by(f64::total_cmp);
        let rank = (latencies.len() as f64 * part) as usize;
        latencies[rank.min(latencies.len() - 1)]
    }
}

fn milliseconds(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}
