//! A discrete-event simulation of clients, their balancers and the servers, in virtual time.
//!
//! All random values derive from one seed. The simulation jumps from event to event, so that seconds of simulated
//! traffic take a fraction of a second. Its memory does not grow with the number of calls.

use std::time::{Duration, Instant};

use leno_model::balance::Outcome;
use slab::Slab;

use super::balancers::{Balance, Kind, Ticket};
use super::events::{Event, Events};
use super::load::{Load, Method};
use super::server::{Behaviour, FAILS_AFTER_MS, Server};
use super::service_time::exponential;
use super::tally::Tally;
use super::timeline::Timeline;

/// Time from the sending of a probe until its answer arrives, in ns.
const PROBE_NS: u64 = 200_000;

/// The parameters of a simulation.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) servers: Vec<Behaviour>,
    pub(super) methods: Vec<Method>,
    pub(super) load: Load,
    pub(super) balancer: Kind,
    /// Number of proxies that send calls to the same servers. Each proxy has its own balancer and an equal share of the
    /// load.
    pub(super) clients: usize,
    pub(super) seed: u64,
}

struct Call {
    client: u32,
    method: u32,
    started_ns: u64,
    /// Number of calls that were already open at the server when this call arrived.
    found_open: u32,
    failed: bool,
    ticket: Ticket,
}

/// A simulation, in which time passes only during [`Simulation::run_for`].
pub(super) struct Simulation {
    /// The load. It may be changed between two calls of [`Simulation::run_for`].
    pub(super) load: Load,
    /// The results of the calls since the last clearing of the tally.
    pub(super) tally: Tally,
    pub(super) timeline: Timeline,
    servers: Vec<Server>,
    methods: Vec<Method>,
    total_weight: f64,
    clients: Vec<Box<dyn Balance>>,
    calls: Slab<Call>,
    events: Events,
    random: fastrand::Rng,
    epoch: Instant,
    now_ns: u64,
}

impl Simulation {
    /// Creates a simulation at time 0, in which all servers are endpoints.
    pub(super) fn new(setup: &Setup) -> Self {
        let epoch = Instant::now();
        let mut random = fastrand::Rng::with_seed(setup.seed);
        let mut simulation = Self {
            load: setup.load,
            tally: Tally::new(setup.servers.len(), setup.methods.len()),
            timeline: Timeline::new(setup.servers.len()),
            servers: setup.servers.iter().map(|behaviour| Server::new(*behaviour)).collect(),
            methods: setup.methods.clone(),
            total_weight: setup.methods.iter().map(|method| method.weight).sum(),
            clients: (0..setup.clients).map(|_| setup.balancer.make(random.u64(..))).collect(),
            calls: Slab::new(),
            events: Events::default(),
            random,
            epoch,
            now_ns: 0,
        };
        let all: Vec<usize> = (0..setup.servers.len()).collect();
        simulation.set_endpoints(&all);
        simulation
    }

    /// Replaces the endpoints of every client by `servers`, which must be in ascending order and not empty.
    pub(super) fn set_endpoints(&mut self, servers: &[usize]) {
        let now = self.now();
        for client in &mut self.clients {
            client.set_endpoints(now, servers);
        }
    }

    /// Returns a server's behavior, which the caller may change. A change applies from the current simulated time on.
    pub(super) fn behaviour(&mut self, server: usize) -> &mut Behaviour {
        &mut self.servers[server].behaviour
    }

    /// A server's state, as the balancer of the first client names it.
    pub(super) fn state(&self, server: usize) -> &'static str {
        self.clients[0].state(self.now(), server)
    }

    /// Number of open calls and streams of each server.
    pub(super) fn open(&self) -> impl Iterator<Item = u32> {
        self.servers.iter().map(|server| server.open)
    }

    /// Simulated time since the beginning.
    pub(super) fn elapsed_s(&self) -> f64 {
        self.now_ns as f64 / 1e9
    }

    /// Clears the tally, and then runs for `seconds`, so that the tally covers exactly this time.
    pub(super) fn measure_for(&mut self, seconds: f64) {
        self.tally.clear();
        self.run_for(seconds);
    }

    /// Lets simulated time pass.
    pub(super) fn run_for(&mut self, seconds: f64) {
        if self.now_ns == 0 {
            self.begin();
        }
        let end_ns = self.now_ns + (seconds * 1e9) as u64;
        while let Some((at_ns, event)) = self.events.pop_until(end_ns) {
            self.now_ns = at_ns;
            self.handle(event);
        }
        self.now_ns = end_ns;
    }

    fn begin(&mut self) {
        match self.load {
            Load::Closed { callers } => {
                for caller in 0..callers {
                    self.call(caller % self.clients.len());
                }
            }
            Load::Open { .. } => self.events.push(0, Event::Arrival),
        }
    }

    fn now(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.now_ns)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival => self.arrive(),
            Event::WorkDone { call } => self.work_done(call),
            Event::Answer { call } => self.answer(call),
            Event::StreamEnd { call } => self.end(call),
            Event::ProbeAnswer { client, server } => {
                let (now, report) = (self.now(), self.servers[server as usize].report(self.now_ns));
                self.clients[client as usize].probed(now, server as usize, report);
            }
        }
    }

    fn arrive(&mut self) {
        if let Load::Open { calls_per_s } = self.load {
            let wait_ns = exponential(&mut self.random) / calls_per_s * 1e9;
            self.events.push(self.now_ns + wait_ns as u64, Event::Arrival);
            let client = self.random.usize(..self.clients.len());
            self.call(client);
        }
    }

    fn call(&mut self, client: usize) {
        let now = self.now();
        let method = self.draw_method();
        let ticket = self.clients[client].pick(now, method);
        let server = ticket.server;
        self.tally.picks[server] += 1;
        self.timeline.note(self.now_ns, server);
        while let Some(server) = self.clients[client].probe() {
            let event = Event::ProbeAnswer { client: client as u32, server: server as u32 };
            self.events.push(self.now_ns + PROBE_NS, event);
        }

        let failing = self.servers[server].behaviour.failing;
        let failed = failing > 0.0 && self.random.f64() < failing;
        let (client, found_open) = (client as u32, self.servers[server].open);
        let call = Call { client, method, started_ns: self.now_ns, found_open, failed, ticket };
        let key = self.calls.insert(call) as u32;
        self.servers[server].open += 1;
        if failed {
            self.events.push(self.after_ms(FAILS_AFTER_MS), Event::Answer { call: key });
        } else if self.servers[server].take(key) {
            self.work(key);
        }
    }

    fn draw_method(&mut self) -> u32 {
        if self.methods.len() == 1 {
            return 0;
        }
        let mut left = self.random.f64() * self.total_weight;
        let drawn = self.methods.iter().position(|method| {
            left -= method.weight;
            left < 0.0
        });
        drawn.unwrap_or(0) as u32
    }

    fn after_ms(&self, ms: f64) -> u64 {
        self.now_ns + (ms * 1e6) as u64
    }

    /// Lets a worker of the call's server begin to process the call.
    fn work(&mut self, key: u32) {
        let call = &self.calls[key as usize];
        let occupying_ms = self.servers[call.ticket.server].behaviour.occupying_ms;
        let service_ms = self.methods[call.method as usize].service.draw_ms(&mut self.random) + occupying_ms;
        self.events.push(self.after_ms(service_ms), Event::WorkDone { call: key });
    }

    fn work_done(&mut self, key: u32) {
        let server = self.calls[key as usize].ticket.server;
        if let Some(next) = self.servers[server].work_done() {
            self.work(next);
        }
        let added_ms = self.servers[server].behaviour.added_ms;
        if added_ms > 0.0 {
            self.events.push(self.after_ms(added_ms), Event::Answer { call: key });
        } else {
            self.answer(key);
        }
    }

    fn answer(&mut self, key: u32) {
        let now = self.now();
        let call = &mut self.calls[key as usize];
        let latency_ns = self.now_ns - call.started_ns;
        if !call.failed {
            self.tally.answered(call.method, latency_ns);
            let latency_ms = latency_ns as f64 / 1e6;
            self.servers[call.ticket.server].note_answer(self.now_ns, latency_ms, call.found_open);
            if let Some(open_s) = self.methods[call.method as usize].open_s {
                let latency = Duration::from_nanos(latency_ns);
                self.clients[call.client as usize].answered(now, &mut call.ticket, latency);
                let open_ns = (open_s * exponential(&mut self.random) * 1e9) as u64;
                self.events.push(self.now_ns + open_ns, Event::StreamEnd { call: key });
                return;
            }
        }
        self.end(key);
    }

    fn end(&mut self, key: u32) {
        let now = self.now();
        let Call { client, started_ns, failed, ticket, .. } = self.calls.remove(key as usize);
        let server = &mut self.servers[ticket.server];
        server.open -= 1;
        let latency = Duration::from_nanos(self.now_ns - started_ns);
        let outcome = if failed {
            self.tally.failed += 1;
            let pushback = server.behaviour.pushback_ms.map(|ms| Duration::from_secs_f64(ms / 1e3));
            Outcome::of_answer((200, Some(server.behaviour.error)), latency, pushback)
        } else {
            Outcome::Success { latency }
        };
        self.clients[client as usize].finish(now, ticket, outcome);
        if let Load::Closed { .. } = self.load {
            self.call(client as usize);
        }
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
