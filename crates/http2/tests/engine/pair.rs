//! A client and a server of the engine in virtual time, with a wire that splits bytes at random.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use leno_http2::{Limits, Role};

use crate::endpoint::Endpoint;

/// The seeds of a test; each seed splits the bytes on the wire in another way.
pub(crate) fn seeds() -> leno_testing::Seeds {
    leno_testing::seeds(0..12)
}

const LATENCY: Duration = Duration::from_millis(1);

pub(crate) struct Pair {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    to_server: Wire,
    to_client: Wire,
    now: Instant,
    rng: fastrand::Rng,
    seed: u64,
}

/// Bytes in transit, with their arrival times.
#[derive(Default)]
struct Wire(VecDeque<(Instant, Vec<u8>)>);

impl Pair {
    /// Two engines with the limits of production, after the exchange of settings.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_limits(seed, Limits::client(), Limits::server())
    }

    pub(crate) fn with_limits(seed: u64, client: Limits, server: Limits) -> Self {
        let mut pair = Self::unacquainted(seed, client, server);
        pair.run();
        pair.client.take();
        pair.server.take();
        pair
    }

    /// Two engines that have not yet read each other's settings.
    pub(crate) fn unacquainted(seed: u64, client: Limits, server: Limits) -> Self {
        let now = Instant::now();
        Self {
            client: Endpoint::new(Role::Client, client, now),
            server: Endpoint::new(Role::Server, server, now),
            to_server: Wire::default(),
            to_client: Wire::default(),
            now,
            rng: fastrand::Rng::with_seed(seed),
            seed,
        }
    }

    /// Moves bytes both ways until no bytes are in transit.
    pub(crate) fn run(&mut self) {
        while self.step() {}
    }

    /// Writes the output of both sides, and advances the time to the next arrival. Returns `false` if no bytes are in
    /// transit.
    pub(crate) fn step(&mut self) -> bool {
        let arrives = self.now + LATENCY;
        self.to_server.write(&mut self.client, arrives, &mut self.rng);
        self.to_client.write(&mut self.server, arrives, &mut self.rng);
        let Some(next) = self.to_server.next_arrival().into_iter().chain(self.to_client.next_arrival()).min() else {
            return false;
        };
        self.wait(next.saturating_duration_since(self.now));
        self.to_server.deliver(&mut self.server);
        self.to_client.deliver(&mut self.client);
        true
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now += time;
        self.client.now = self.now;
        self.server.now = self.now;
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the pair's seed was {}", self.seed);
        }
    }
}

impl Wire {
    /// Takes a random part of the output, as a socket does: often the whole output, sometimes a single byte.
    fn write(&mut self, from: &mut Endpoint, arrives: Instant, rng: &mut fastrand::Rng) {
        let output = from.http2.output();
        if output.is_empty() {
            return;
        }
        let n = match rng.u8(..) {
            0..8 => 1,
            8..128 => rng.usize(1..=output.len()),
            _ => output.len(),
        };
        self.0.push_back((arrives, output[..n].to_vec()));
        from.http2.advance_output(n);
    }

    fn next_arrival(&self) -> Option<Instant> {
        self.0.front().map(|(arrives, _)| *arrives)
    }

    fn deliver(&mut self, to: &mut Endpoint) {
        while let Some((arrives, bytes)) = self.0.pop_front() {
            if arrives > to.now {
                self.0.push_front((arrives, bytes));
                return;
            }
            to.feed(&bytes);
        }
    }
}
