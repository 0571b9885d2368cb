//! The load: unary gRPC calls over a few connections, timed by the load's own clock.
//!
//! In an open loop calls are sent at fixed times, as by clients that do not know of each other, and are
//! timed from when they should have been sent: a target that stalls cannot slow the load down and so
//! hide itself (coordinated omission). In a closed loop so many calls are in flight at any time.
//!
//! It runs on one thread of its own, on the `h2` crate; nothing of Leno's data plane is in it. One task
//! polls everything, and a call costs it no task, no channel and no timer.

mod call;
mod channel;
mod channels;
mod crowd;
mod open;
mod pace;
mod ready;
mod recorder;
mod run;
#[cfg(test)]
mod scripted;
mod snapshot;
mod stats;
mod timer;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use channels::Channels;
pub use crowd::{Crowd, CrowdReport};
use recorder::{Recorder, lock};
use run::Run;
pub use snapshot::{Latency, Slice, Snapshot};
pub use stats::SLICE;
use stats::Stats;

use crate::child::pin;
use crate::error::{Error, Result, io};
pub(crate) use call::framed;

/// One client connection.
#[derive(Debug, Clone)]
pub struct Client {
    /// Where it connects.
    pub address: SocketAddr,
    /// Whom it asks for (`:authority`).
    pub authority: String,
}

/// What to send.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The clients, at least one; each sends an equal part. One that loses its connection opens another.
    pub clients: Vec<Client>,
    /// The names that the servers answer with.
    pub servers: Vec<String>,
    /// When calls are sent.
    pub pattern: Pattern,
    /// Time before anything but failures is counted.
    pub warm_up: Duration,
    /// Time in which sent calls are counted.
    pub measured: Duration,
    /// The CPUs that the load's thread may use; empty for all.
    pub cpus: Vec<usize>,
}

/// When calls are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// So many calls in flight at any time, over all clients evenly: the next is sent when one is answered.
    Closed {
        /// Calls in flight, at least one.
        in_flight: u32,
    },
    /// Calls at a fixed rate, whether or not earlier ones were answered; latency counts from the intended
    /// time of sending.
    Open {
        /// Calls per second of all clients together, at least one, evenly spaced.
        rate_per_s: u32,
        /// Calls that may wait for an answer; one more is not sent and counts as failed.
        max_in_flight: u32,
    },
}

/// A load that runs.
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

    /// Whether everything was sent, and answered or given up.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The numbers so far, without curve and timeline. The load does not wait while they are made.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.stats).snapshot(Instant::now())
    }

    /// Waits for the end: the plan's time, and at most 5 s for the last answers.
    ///
    /// # Errors
    /// When a client could not connect at the start, or the operating system refuses something. Calls
    /// that fail are counted in the numbers instead.
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
        let channels = Channels::connect(&plan.clients).await?;
        let start = Instant::now();
        let measure_from = start + plan.warm_up;
        let end = measure_from + plan.measured;
        lock(stats).measure(measure_from, end);
        let recorder = Recorder::new(&plan.servers, stats);
        Run::new(plan, channels, recorder, start, end)?.finish().await
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("starting the load"))
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
