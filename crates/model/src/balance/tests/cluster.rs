//! Tests one balancer in front of servers with queues. If the balancer avoids a server, the queues of the others grow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

/// How the servers treat their calls.
#[derive(Clone, Copy)]
struct Server {
    workers: usize,
    /// Mean of the exponentially distributed time for which a call occupies a worker.
    service_ms: f64,
    /// The fraction of the calls that fail after this time, 0 to 1.
    failing: f64,
    /// The fraction of the calls that fail after 1 ms and occupy no worker, 0 to 1.
    failing_fast: f64,
    /// If a call would have to wait for longer in the queue, it fails at once. `None`: the queue has no limit.
    most_wait_ms: Option<f64>,
    hangs: bool,
}

const WELL: Server =
    Server { workers: 8, service_ms: 10.0, failing: 0.0, failing_fast: 0.0, most_wait_ms: None, hangs: false };

/// What becomes of a call at a certain time.
struct End {
    pick: Pick,
    started: Instant,
    outcome: Outcome,
    /// Whether the failing client makes the call. This client makes its next call as soon as the call has failed.
    is_of_failing_client: bool,
}

struct Cluster {
    balancer: Balancer,
    servers: Vec<Server>,
    /// For each server, the times when its workers are free.
    free: Vec<BinaryHeap<Reverse<Instant>>>,
    random: Rng,
    now: Instant,
    next_call: Instant,
    ends: BinaryHeap<Reverse<(Instant, usize)>>,
    calls: Vec<Option<End>>,
    /// The latencies of the successful calls, in ms.
    latencies_ms: Vec<f64>,
    failed: usize,
    cancelled: usize,
    picks: Vec<usize>,
}

impl Cluster {
    fn new(servers: Vec<Server>, seed: u64) -> Self {
        let now = Instant::now();
        let free = servers.iter().map(|server| (0..server.workers).map(|_| Reverse(now)).collect()).collect();
        Self {
            balancer: balancer(Policy::Latency, servers.len() as u32, now),
            free,
            random: Rng::with_seed(seed),
            now,
            next_call: now,
            ends: BinaryHeap::new(),
            calls: Vec::new(),
            latencies_ms: Vec::new(),
            failed: 0,
            cancelled: 0,
            picks: vec![0; servers.len()],
            servers,
        }
    }

    /// Creates a cluster of which the first `failing` servers fail the fraction `part` of their calls.
    fn with_failing(endpoints: usize, failing: usize, part: f64, seed: u64) -> Self {
        let failing_of = |server| if server < failing { part } else { 0.0 };
        Self::new((0..endpoints).map(|server| Server { failing: failing_of(server), ..WELL }).collect(), seed)
    }

    fn exponential(&mut self, mean_ms: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.random.f64()).ln() * mean_ms / 1e3)
    }

    /// Makes calls at random times for `seconds`, and forgets the results so far. `load` is a fraction of the capacity.
    fn run(&mut self, seconds: u64, load: f64) {
        let capacity: f64 = self.servers.iter().map(|server| server.workers as f64 / server.service_ms).sum();
        let end = self.now + Duration::from_secs(seconds);
        self.latencies_ms.clear();
        (self.failed, self.cancelled) = (0, 0);
        self.picks.fill(0);
        while self.now < end {
            let next_end = self.ends.peek().map_or(self.next_call, |Reverse((at, _))| *at);
            if next_end < self.next_call {
                self.end_call();
            } else {
                self.now = self.next_call;
                self.begin_call(false);
                let until_next = self.exponential(1.0 / (load * capacity));
                self.next_call += until_next;
            }
        }
    }

    fn begin_call(&mut self, is_of_failing_client: bool) {
        let pick = pick(&mut self.balancer, self.now);
        let number = self.balancer.endpoints.index(pick.endpoint).expect("a member");
        let server = self.servers[number];
        self.picks[number] += 1;
        let fails = self.random.f64() < server.failing;
        let fails_fast = is_of_failing_client || self.random.f64() < server.failing_fast;
        let service = self.exponential(server.service_ms);
        let free = self.free[number].peek().map_or(self.now, |Reverse(at)| *at).max(self.now);
        let wait_ms = (free - self.now).as_secs_f64() * 1e3;
        let rejects = server.most_wait_ms.is_some_and(|most_ms| wait_ms > most_ms);
        let outcome = if server.hangs {
            Outcome::Cancelled { waited: 1000 * MS }
        } else if fails_fast || rejects {
            failure(None)
        } else {
            let latency = free + service - self.now;
            self.free[number].pop();
            self.free[number].push(Reverse(free + service));
            if fails { Outcome::Failure { latency, pushback: None } } else { success(latency) }
        };
        let latency = match outcome {
            Outcome::Success { latency } | Outcome::Failure { latency, .. } => latency,
            Outcome::Cancelled { waited } => waited,
            Outcome::NotSent => Duration::ZERO,
        };
        self.ends.push(Reverse((self.now + latency, self.calls.len())));
        self.calls.push(Some(End { pick, started: self.now, outcome, is_of_failing_client }));
    }

    fn end_call(&mut self) {
        let Some(Reverse((at, number))) = self.ends.pop() else { return };
        self.now = at;
        let End { mut pick, started, outcome, is_of_failing_client } = self.calls[number].take().expect("in flight");
        // A failure ends with its response headers.
        if let Outcome::Success { latency } = outcome {
            self.balancer.answered(at, &mut pick, latency);
        }
        self.balancer.finish(at, pick, outcome);
        match outcome {
            Outcome::Success { .. } => self.latencies_ms.push((at - started).as_secs_f64() * 1e3),
            Outcome::Failure { .. } => self.failed += 1,
            Outcome::Cancelled { .. } | Outcome::NotSent => self.cancelled += 1,
        }
        if is_of_failing_client {
            self.begin_call(true);
        }
    }

    fn p99_ms(&mut self) -> f64 {
        self.latencies_ms.sort_by(f64::total_cmp);
        self.latencies_ms[self.latencies_ms.len() * 99 / 100]
    }

    fn good_part(&self) -> f64 {
        let good = self.latencies_ms.len() as f64;
        good / (good + (self.failed + self.cancelled) as f64)
    }

    fn share(&self, server: usize) -> f64 {
        self.picks[server] as f64 / self.picks.iter().sum::<usize>() as f64
    }

    /// Makes calls for `seconds`. Returns the fraction of this time for which an endpoint was in the state, on average
    /// over the endpoints.
    fn part_in_state(&mut self, state: &str, seconds: u64, load: f64) -> f64 {
        let (mut found, mut all) = (0, 0);
        for _ in 0..seconds {
            self.run(1, load);
            let states = self.balancer.explain(self.now);
            found += states.iter().filter(|endpoint| endpoint.state == state).count();
            all += states.len();
        }
        f64::from(found as u32) / f64::from(all as u32)
    }
}

/// A rollout may bring a version that fails a part of its calls. Without the endpoints of this version, the others would
/// be overloaded.
#[test]
fn many_endpoints_that_fail_a_part_of_their_calls_keep_enough_calls() {
    let cases = [(3, 2, 0.15, 0.5), (5, 4, 0.15, 0.5), (10, 5, 0.15, 0.6), (10, 9, 0.3, 0.5), (10, 3, 0.6, 0.8)];
    for (endpoints, failing, part, load) in cases {
        let mut cluster = Cluster::with_failing(endpoints, failing, part, 1);
        cluster.run(10, load);
        let with_equal_shares = 1.0 - part * failing as f64 / endpoints as f64;
        let (good, p99_ms) = (cluster.good_part(), cluster.p99_ms());
        assert!(good > with_equal_shares - 0.01, "{failing} of {endpoints} fail {part}: {good}");
        assert!(p99_ms < 250.0, "{failing} of {endpoints} fail {part}: {p99_ms} ms");
    }
}

#[test]
fn several_endpoints_that_fail_most_of_their_calls_get_only_probes() {
    for (endpoints, failing, part, load) in [(5, 3, 1.0, 0.3), (5, 4, 0.8, 0.15), (10, 3, 0.6, 0.5)] {
        let mut cluster = Cluster::with_failing(endpoints, failing, part, 1);
        cluster.run(5, load);
        cluster.run(10, load);
        assert!(cluster.good_part() > 0.97, "{failing} of {endpoints} fail {part}: {}", cluster.good_part());
    }
}

/// A server that rejects calls because of its load has the fewest calls in flight, and fails most by chance. Without
/// this server, the others would reject still more.
#[test]
fn servers_that_reject_calls_because_of_their_load_all_keep_their_calls() {
    let shedding = Server { most_wait_ms: Some(50.0), ..WELL };
    for (endpoints, load) in [(3, 2.0), (5, 1.1), (5, 1.3), (20, 1.15)] {
        let mut cluster = Cluster::new(vec![shedding; endpoints], 1);
        cluster.run(3, 0.6);
        cluster.run(10, load);
        let good = cluster.good_part();
        assert!(good > 0.94 / load, "{endpoints} endpoints, load {load}: {good}");
    }
}

#[test]
fn a_peak_of_load_makes_no_endpoint_failing() {
    for (endpoints, before, peak, most_wait_ms) in [(5, 0.6, 1.3, 50.0), (10, 0.7, 1.5, 100.0)] {
        let shedding = Server { most_wait_ms: Some(most_wait_ms), ..WELL };
        let mut cluster = Cluster::new(vec![shedding; endpoints], 1);
        cluster.run(5, before);
        cluster.run(3, peak);
        let good = cluster.good_part();
        assert!(good > 0.94 / peak, "{endpoints} endpoints: {good} good during the peak");
        cluster.run(3, before);
        let good = cluster.good_part();
        assert!(good > 0.97, "{endpoints} endpoints: {good} good after the peak");
    }
}

/// The clients cancel the calls to the endpoint that hangs. The others fail a part of their calls, perhaps because all
/// of them need the same database.
#[test]
fn an_endpoint_that_hangs_gets_only_probes_while_the_others_fail() {
    for failing in [0.3, 1.0] {
        let mut cluster = Cluster::new(vec![WELL; 3], 1);
        cluster.run(5, 0.1);
        cluster.servers[0].hangs = true;
        cluster.run(3, 0.1);
        for server in &mut cluster.servers[1..] {
            server.failing = failing;
        }
        for _ in 0..5 {
            cluster.run(5, 0.1);
            assert!(cluster.share(0) < 0.02, "failing {failing}: {}", cluster.share(0));
        }
    }
}

/// The calls of one client fail at once, and it makes one after the other. An endpoint that has just failed its call
/// has the fewest calls in flight, so its next call would go to the same endpoint.
#[test]
fn a_client_whose_calls_all_fail_makes_no_endpoint_failing() {
    let mut cluster = Cluster::new(vec![Server { workers: 25, service_ms: 100.0, ..WELL }; 5], 1);
    cluster.run(5, 0.4);
    cluster.begin_call(true);
    cluster.run(1, 0.4);
    let failing = cluster.part_in_state("failing", 20, 0.4);
    assert!(failing < 0.02, "{failing}");
    assert!(cluster.p99_ms() < 600.0, "{}", cluster.p99_ms());
}

/// Fast failures lower the mean latency of an endpoint. If the median of the latencies left out the endpoints with the
/// most failures, the endpoints that fail least by chance would look slow.
#[test]
fn failures_at_all_endpoints_make_no_endpoint_slow() {
    let mut servers = vec![Server { service_ms: 20.0, failing_fast: 0.3, ..WELL }; 5];
    servers[0].service_ms = 10.0;
    servers[1].service_ms = 10.0;
    for load in [0.02, 0.2] {
        let mut cluster = Cluster::new(servers.clone(), 1);
        cluster.run(10, load);
        let slow = cluster.part_in_state("slow", 100, load);
        assert!(slow < 0.01, "load {load}: {slow}");
    }
}
