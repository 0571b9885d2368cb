//! Many well-behaved clients, and the results of their calls.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::backend::Backend;
use crate::client::{Call, Client};
use crate::messages;

/// A payload of the size of an ordinary unary call's payload.
const PAYLOAD: &[u8] = b"seventy bytes of payload are about what an ordinary unary call carries";

/// One call that succeeded.
#[derive(Debug, Clone, Copy)]
struct Success {
    start: Instant,
    time: Duration,
}

/// The result of one call, or why it was lost.
type Outcome = Result<Success, String>;

/// The results of some calls.
#[derive(Debug, Default)]
pub struct Report {
    /// The successful calls, in the order of their start.
    successes: Vec<Success>,
    /// For each call that failed, the reason.
    pub lost: Vec<String>,
}

impl Report {
    fn of(outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        let mut report = Self::default();
        for outcome in outcomes {
            match outcome {
                Ok(success) => report.successes.push(success),
                Err(why) => report.lost.push(why),
            }
        }
        report.successes.sort_unstable_by_key(|success| success.start);
        report
    }

    pub fn succeeded(&self) -> usize {
        self.successes.len()
    }

    /// Returns a percentile of the times of the successful calls, for example the median for 50.
    pub fn percentile(&self, per_cent: usize) -> Duration {
        percentile(&self.successes, per_cent)
    }

    /// Returns the median of the 99th percentiles of all half seconds. A single stall of the machine raises only one of
    /// these percentiles, so it does not fail a test.
    pub fn p99_of_the_median_half_second(&self) -> Duration {
        let start = self.successes.first().expect("some calls succeeded").start;
        let half = |success: &Success| (success.start - start).as_millis() / 500;
        let halves = self.successes.chunk_by(|a, b| half(a) == half(b));
        let mut p99s: Vec<Duration> = halves.map(|half| percentile(half, 99)).collect();
        p99s.sort_unstable();
        p99s[p99s.len() / 2]
    }

    /// Panics unless every call succeeded.
    pub fn assert_nothing_lost(&self) {
        let Self { successes, lost } = self;
        let some = &lost[..lost.len().min(5)];
        assert!(lost.is_empty(), "{} of {} calls were lost: {some:#?}", lost.len(), lost.len() + successes.len());
    }
}

fn percentile(successes: &[Success], per_cent: usize) -> Duration {
    let mut times: Vec<Duration> = successes.iter().map(|success| success.time).collect();
    times.sort_unstable();
    let last = times.len().checked_sub(1).expect("some calls succeeded");
    times[last.min(times.len() * per_cent / 100)]
}

/// Pause of a caller after a lost call, and pause of [`Load::wait_for_more`] between two checks.
const REST: Duration = Duration::from_millis(5);

/// Calls that continue until they are stopped.
#[derive(Debug)]
pub struct Load {
    ending: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    callers: JoinSet<Vec<Outcome>>,
}

impl Load {
    /// Number of calls that have succeeded so far.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until `calls` more calls have succeeded.
    ///
    /// # Panics
    /// If that takes longer than `timeout`.
    pub async fn wait_for_more(&self, calls: usize, timeout: Duration) {
        let (enough, deadline) = (self.answered() + calls, Instant::now() + timeout);
        while self.answered() < enough {
            assert!(Instant::now() < deadline, "not {calls} more answers within {timeout:?}");
            tokio::time::sleep(REST).await;
        }
    }

    /// Begins no more calls, waits until the open calls have finished, and returns all results.
    pub async fn finish(self) -> Report {
        self.ending.store(true, Ordering::Relaxed);
        Report::of(self.callers.join_all().await.into_iter().flatten())
    }
}

/// Clients that each have one connection.
#[derive(Debug)]
pub struct Clients {
    clients: Vec<Arc<Client>>,
}

impl Clients {
    /// Connects `count` clients.
    pub async fn connect(address: SocketAddr, authority: &str, count: usize) -> Self {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(Arc::new(Client::connect(address, authority).await));
        }
        Self { clients }
    }

    /// Makes `per_second` calls per second for `duration`, spread evenly over the clients and over time. A call does
    /// not wait for earlier answers.
    pub async fn paced(&self, per_second: u32, duration: Duration) -> Report {
        let every = Duration::from_secs(1) / per_second;
        let total = (duration.as_secs_f64() * f64::from(per_second)) as usize;
        let mut clock = tokio::time::interval(every);
        let mut calls = JoinSet::new();
        for client in self.clients.iter().cycle().take(total) {
            clock.tick().await;
            let client = client.clone();
            calls.spawn(async move { echo(&client).await });
        }
        Report::of(calls.join_all().await)
    }

    /// Keeps `in_flight` calls open, spread over all clients: each answer is followed by the next call. A client's
    /// calls stop when its connection ends, or at [`Load::finish`].
    pub fn keep_calling(&self, in_flight: usize) -> Load {
        let (ending, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut callers = JoinSet::new();
        for client in self.clients.iter().cycle().take(in_flight) {
            callers.spawn(call_until(ending.clone(), client.clone(), answered.clone()));
        }
        Load { ending, answered, callers }
    }

    /// Makes `total` calls, and keeps `in_flight` of them open at a time: each answer is followed by the next call.
    pub async fn busy(&self, total: usize, in_flight: usize) -> Report {
        let left = Arc::new(AtomicUsize::new(total));
        let mut callers = JoinSet::new();
        for client in self.clients.iter().cycle().take(in_flight) {
            callers.spawn(call_while_some_are_left(client.clone(), left.clone()));
        }
        Report::of(callers.join_all().await.into_iter().flatten())
    }

    /// Makes rounds of 100 calls until, in one round, each server gets exactly its number of calls in `shares`.
    ///
    /// # Panics
    /// If that takes longer than `timeout`, or a call is lost.
    pub async fn busy_until_shares_are<const N: usize>(
        &self,
        shares: [u64; N],
        backends: [&Backend; N],
        timeout: Duration,
    ) {
        let deadline = Instant::now() + timeout;
        loop {
            let before = backends.map(Backend::calls);
            self.busy(100, 4).await.assert_nothing_lost();
            let now: [u64; N] = std::array::from_fn(|server| backends[server].calls() - before[server]);
            if now == shares {
                return;
            }
            assert!(Instant::now() < deadline, "the servers still got {now:?}");
        }
    }
}

async fn call_while_some_are_left(client: Arc<Client>, left: Arc<AtomicUsize>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        outcomes.push(echo(&client).await);
    }
    outcomes
}

async fn call_until(ending: Arc<AtomicBool>, client: Arc<Client>, answered: Arc<AtomicUsize>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    while !ending.load(Ordering::Relaxed) && !client.is_closed() {
        let outcome = echo(&client).await;
        match &outcome {
            Ok(_) => _ = answered.fetch_add(1, Ordering::Relaxed),
            Err(_) => tokio::time::sleep(REST).await,
        }
        outcomes.push(outcome);
    }
    outcomes
}

/// Makes one call and checks its answer.
async fn echo(client: &Client) -> Outcome {
    let start = Instant::now();
    let answer = client.try_call(&Call::new("Echo"), PAYLOAD).await?;
    match answer.grpc_status() {
        Some(0) if answer.body == messages::message(PAYLOAD) => Ok(Success { start, time: start.elapsed() }),
        Some(0) => Err("the echo is not what was sent".to_owned()),
        status => Err(format!("grpc-status {status:?}: {:?}", answer.field("grpc-message"))),
    }
}
