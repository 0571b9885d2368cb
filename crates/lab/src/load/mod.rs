//! The load: the client side of an experiment. It sends gRPC calls, gRPC streams or HTTP/2 requests over a few
//! connections, or HTTP/1.1 requests over many connections, or it only opens TLS connections. The load measures all
//! latencies with its own clock.
//!
//! In an open loop, the load sends calls at scheduled times, as independent clients would. A call's latency counts from
//! its scheduled time, so a target that stalls cannot slow the load down and thereby hide the stall (coordinated
//! omission). In a closed loop, the number of calls in flight is constant.
//!
//! The load runs on its own thread, and uses the crates `h2`, `httparse` and `rustls`, but no code of Leno's data
//! plane. One task polls all gRPC calls: a call needs no task, no channel and no timer of its own.

pub(crate) mod bulk;
mod call;
mod channel;
mod channels;
pub mod command;
mod connect;
mod crowd;
mod event;
mod exchange;
mod failure;
mod gate;
mod handshake;
pub(crate) mod http1;
mod http1_content;
mod inbox;
mod nanoseconds;
mod open;
mod pace;
mod plain;
mod plan;
mod ready;
mod recorder;
mod recording;
mod run;
#[cfg(test)]
mod scripted;
mod shares;
mod snapshot;
mod sparse;
mod stats;
mod tally;
mod timer;
mod traceparent;
mod traffic;
mod windows;
mod workers;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use channels::Channels;
pub use crowd::{Crowd, CrowdReport};
pub use exchange::{Exchange, NAMELESS, UnaryCall};
pub use failure::{Failure, FailureClass};
use gate::Gate;
pub use handshake::Hello;
pub use plan::{Client, Pattern, Plan};
use recorder::{Recorder, lock};
use run::Run;
pub use snapshot::{Latency, Slice, Snapshot};
pub use stats::SLICE;
use stats::Stats;
pub use traffic::{Arrivals, Shape, Traffic, WarmUpRate};
pub use windows::{WINDOW, Window};

use crate::child::pin;
use crate::error::{Error, Result, io};
pub(crate) use call::{PREFIX_BYTES, check_head, check_status, framed};
pub(crate) use crowd::allow_open_files;
pub(crate) use event::Event;
pub(crate) use exchange::{CALL_MAX_BYTES, parse_path};
pub(crate) use gate::START;
pub(crate) use recording::Recording;
pub(crate) use stats::{histogram, us};

/// Maximum number of connections that open at the same time, so that no server's listen queue overflows.
pub(crate) const CONNECTING_AT_A_TIME: usize = 64;
/// Longest time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Shortest time between a failed attempt of a client and the client's next attempt.
const RETRY_GAP: Duration = Duration::from_millis(100);
/// Maximum wait, after the planned time, for the answers to the last calls.
pub(crate) const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// A running load.
pub struct Load {
    thread: thread::JoinHandle<Result<()>>,
    stats: Arc<Mutex<Stats>>,
}

impl Load {
    /// Connects, and starts sending.
    pub fn start(plan: Plan) -> Self {
        Self::spawn(plan, None)
    }

    /// Connects, and starts sending when the gate opens.
    fn start_at(plan: Plan, gate: Gate) -> Self {
        Self::spawn(plan, Some(gate))
    }

    fn spawn(plan: Plan, gate: Option<Gate>) -> Self {
        let stats = Arc::new(Mutex::new(Stats::new(plan.servers.len())));
        let shared = Arc::clone(&stats);
        Self { thread: thread::spawn(move || run(&plan, &shared, gate)), stats }
    }

    /// Returns whether the load has ended: every call was sent, and answered or cancelled, or the load has failed.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The numbers so far, without curve, timeline and windows. A snapshot never delays the load.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.stats).snapshot(Instant::now())
    }

    /// The beginning of the measured time; `None` until all clients have connected.
    fn measured_from(&self) -> Option<Instant> {
        lock(&self.stats).measured_from()
    }

    /// Waits for the end of the load, and returns its numbers. After the plan's time, the load waits at most 5 s for
    /// the last answers.
    ///
    /// # Errors
    /// If a client could not connect at the start, or a request to the operating system fails. Failed calls are counted
    /// in the numbers instead.
    pub fn finish(self) -> Result<Snapshot> {
        let stats = self.join()?;
        let snapshot = lock(&stats).finish();
        Ok(snapshot)
    }

    /// Like [`Load::finish`], but returns the numbers for another process.
    ///
    /// # Errors
    /// The same errors as [`Load::finish`].
    pub(crate) fn record(self) -> Result<Recording> {
        let stats = self.join()?;
        let recording = lock(&stats).recording();
        Ok(recording)
    }

    fn join(self) -> Result<Arc<Mutex<Stats>>> {
        match self.thread.join() {
            Ok(result) => result.map(|()| self.stats),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn run(plan: &Plan, stats: &Arc<Mutex<Stats>>, gate: Option<Gate>) -> Result<()> {
    if plan.clients.is_empty() {
        return Err(Error::Usage("a load needs at least one client".to_owned()));
    }
    pin(&plan.cpus).map_err(io(format!("pinning the load to the CPUs {:?}", plan.cpus)))?;
    runtime()?.block_on(async {
        match plan.exchange {
            Exchange::Grpc | Exchange::TracedGrpc | Exchange::Http2 | Exchange::Call(_) | Exchange::Http2Get(_) => {
                let mut channels = Channels::connect(&plan.clients, &plan.exchange, &plan.traffic).await?;
                if let Some(gate) = gate {
                    channels.drive_until(gate.wait()).await?;
                }
                let (recorder, start, end) = begin(plan, stats);
                Run::new(plan, channels, recorder, start, end)?.finish().await
            }
            Exchange::Http1 | Exchange::Http1Get(_) | Exchange::Handshake(_) => {
                let workers = workers::connect(plan).await?;
                if let Some(gate) = gate {
                    gate.wait().await?;
                }
                let (recorder, start, end) = begin(plan, stats);
                workers::run(workers, plan, recorder, start, end).await
            }
        }
    })
}

/// Begins the warm-up. Returns the recorder, the beginning of the warm-up, and the end of the measured time.
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
