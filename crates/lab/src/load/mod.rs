//! The load: gRPC calls, gRPC streams and HTTP/2 requests over a few connections, HTTP/1.1 requests over many, or TLS connections themselves, timed
//! by the load's own clock.
//!
//! In an open loop calls are sent at fixed times, as if the clients did not know of each other. They are timed from
//! their scheduled time, so a target that stalls cannot slow the load down and thereby hide the stall (coordinated
//! omission). In a closed loop the number of calls in flight is constant.
//!
//! The load runs on its own thread, and uses the crates `h2`, `httparse` and `rustls`, but no code of Leno's data
//! plane. One task polls all gRPC calls: a call needs no task, no channel and no timer of its own.

pub(crate) mod bulk;
mod call;
mod channel;
mod channels;
mod connect;
mod crowd;
mod failure;
mod handshake;
pub(crate) mod http1;
mod inbox;
mod open;
mod pace;
mod plain;
mod ready;
mod recorder;
mod run;
#[cfg(test)]
mod scripted;
mod snapshot;
mod stats;
mod timer;
mod traffic;
mod windows;
mod workers;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use channels::Channels;
pub use crowd::{Crowd, CrowdReport};
pub use failure::{Failure, FailureClass};
use futures_util::{StreamExt, TryStreamExt, stream};
pub use handshake::{Hello, NAMELESS};
use pace::Pace;
use recorder::{Recorder, lock};
use run::Run;
pub use snapshot::{Latency, Slice, Snapshot};
pub use stats::SLICE;
use stats::Stats;
pub use traffic::{Arrivals, Shape, Traffic, WarmUpRate};
pub use windows::{WINDOW, Window};
use workers::Worker;

use crate::child::pin;
use crate::error::{Error, Result, io};
pub(crate) use call::{PREFIX_BYTES, check_head, check_status, framed};
pub(crate) use crowd::allow_open_files;
pub(crate) use stats::{histogram, us};

/// Maximum number of connections that open at the same time, so that no server's listen queue overflows.
pub(crate) const CONNECTING_AT_A_TIME: usize = 64;
/// Longest time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Shortest time between a client's failed attempt and its next one.
const RETRY_GAP: Duration = Duration::from_millis(100);
/// Longest time for the last calls to be answered.
pub(crate) const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// One client connection.
#[derive(Debug, Clone)]
pub struct Client {
    /// Address to connect to.
    pub address: SocketAddr,
    /// The `:authority` of the client's calls.
    pub authority: String,
}

/// The description of a load.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The clients, at least one; each sends an equal share. A client that loses its connection opens another.
    pub clients: Vec<Client>,
    /// The names that the servers have in their answers.
    pub servers: Vec<String>,
    /// The exchange that clients repeat.
    pub exchange: Exchange,
    /// The size of the exchanges, and further properties.
    pub traffic: Traffic,
    /// When calls are sent.
    pub pattern: Pattern,
    /// Time before counting begins. Failures count during this time too.
    pub warm_up: Duration,
    /// Time during which sent calls are counted.
    pub measured: Duration,
    /// The CPUs that the load's thread may use; empty for all.
    pub cpus: Vec<usize>,
    /// Seed of random arrivals.
    pub seed: u64,
}

/// The exchange that a client repeats.
#[derive(Debug, Clone)]
pub enum Exchange {
    /// A gRPC call, of the traffic's shape; as many at a time as the pattern allows.
    Grpc,
    /// An HTTP/1.1 request; one at a time for each client.
    Http1,
    /// An HTTP/2 request without gRPC; as many at a time as the pattern allows.
    Http2,
    /// A TLS connection that opens and closes; one at a time for each client.
    Handshake(Hello),
}

/// When calls are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// A constant number of calls in flight, evenly over all clients: each answer triggers the next call. With
    /// [`Exchange::Http1`] and [`Exchange::Handshake`], each client has one call in flight, and `in_flight` has no
    /// effect.
    Closed {
        /// Calls in flight, at least one.
        in_flight: u32,
    },
    /// Calls at a fixed rate, whether or not earlier calls were answered; latency counts from the scheduled time of
    /// sending.
    Open {
        /// Calls per second of all clients together, at least one. The traffic has their arrivals.
        rate_per_s: u32,
        /// Maximum number of calls in flight; with [`Exchange::Http1`] and [`Exchange::Handshake`], of calls that wait
        /// for a free client. A further call is not sent and counts as failed.
        max_in_flight: u32,
    },
}

impl Plan {
    /// The schedule of an open loop that starts at `start`.
    fn pace(&self, start: Instant, rate_per_s: u32) -> Pace {
        let measured_from = start + self.warm_up;
        Pace::new((start, measured_from, measured_from + self.measured), rate_per_s, &self.traffic, self.seed)
    }
}

/// A running load.
pub struct Load {
    thread: thread::JoinHandle<Result<()>>,
    stats: Arc<Mutex<Stats>>,
}

impl Load {
    /// Starts sending.
    pub fn start(plan: Plan) -> Self {
        let stats = Arc::new(Mutex::new(Stats::new(plan.servers.len())));
        let shared = Arc::clone(&stats);
        Self { thread: thread::spawn(move || run(&plan, &shared)), stats }
    }

    /// Whether every call was sent, and answered or cancelled.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The numbers so far, without curve and timeline. Taking them never delays the load.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.stats).snapshot(Instant::now())
    }

    /// Waits for the end: the plan's time, and at most 5 s for the last answers.
    ///
    /// # Errors
    /// If a client could not connect at the start, or a request to the operating system fails. Failed calls are counted
    /// in the numbers instead.
    pub fn finish(self) -> Result<Snapshot> {
        match self.thread.join() {
            Ok(result) => result?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(lock(&self.stats).finish(Instant::now()))
    }
}

fn run(plan: &Plan, stats: &Arc<Mutex<Stats>>) -> Result<()> {
    if plan.clients.is_empty() {
        return Err(Error::Usage("a load needs at least one client".to_owned()));
    }
    pin(&plan.cpus).map_err(io(format!("pinning the load to the CPUs {:?}", plan.cpus)))?;
    runtime()?.block_on(async {
        match plan.exchange {
            Exchange::Grpc | Exchange::Http2 => {
                let channels = Channels::connect(&plan.clients, &plan.exchange, &plan.traffic).await?;
                let (recorder, start, end) = begin(plan, stats);
                Run::new(plan, channels, recorder, start, end)?.finish().await
            }
            Exchange::Http1 | Exchange::Handshake(_) => {
                let clients = stream::iter(&plan.clients).enumerate();
                let connecting = clients.map(|(index, client)| Worker::connect(client, index, plan));
                let workers = connecting.buffered(CONNECTING_AT_A_TIME).try_collect().await?;
                let (recorder, start, end) = begin(plan, stats);
                workers::run(workers, plan, recorder, start, end).await
            }
        }
    })
}

/// Starts counting. Returns the start and the end of the counted time.
fn begin(plan: &Plan, stats: &Arc<Mutex<Stats>>) -> (Recorder, Instant, Instant) {
    let start = Instant::now();
    let measure_from = start + plan.warm_up;
    let end = measure_from + plan.measured;
    lock(stats).measure(start, measure_from, end);
    (Recorder::new(&plan.servers, stats), start, end)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("starting the load"))
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
