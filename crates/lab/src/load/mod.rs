//! The load: unary calls at a fixed rate, whether or not earlier ones were answered.
//!
//! Clients in production do not wait for each other, so neither does this one; a server that is
//! slow cannot slow the load down and so hide itself (coordinated omission). It runs on a thread of
//! its own with its own gRPC client (tonic); nothing of Leno's data plane is in it.

mod pace;
mod stats;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tonic::transport::{Channel, Endpoint};

use crate::echo::proto::EchoRequest;
use crate::echo::proto::echo_client::EchoClient;
use crate::error::{Error, Result, io};
use pace::Pace;
use stats::Stats;
pub use stats::{Latency, Snapshot};

/// How often calls are sent: the finest that tokio's timer has.
const TICK: Duration = Duration::from_millis(1);
/// Calls that the load itself is later with are not sent: a burst of them would look like a slow server.
const MAX_LATE: Duration = Duration::from_millis(100);
/// How long the last calls may take to be answered.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PAYLOAD_BYTES: usize = 50;

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
    /// The clients; they take turns, so each sends an equal part.
    pub clients: Vec<Client>,
    /// The names that the servers answer with.
    pub servers: Vec<String>,
    /// Calls per second, of all clients together.
    pub rate: u32,
    /// Calls that may wait for an answer; one more is not sent and counts as failed.
    pub max_in_flight: usize,
    /// Time before anything is counted.
    pub warm_up: Duration,
    /// Time in which sent calls are counted.
    pub measured: Duration,
}

/// A load that runs.
pub struct Load {
    thread: thread::JoinHandle<Result<()>>,
    stats: Arc<Mutex<Stats>>,
}

impl Load {
    /// Starts sending.
    pub fn start(plan: Plan) -> Self {
        let stats = Arc::new(Mutex::new(Stats::new(&plan.servers)));
        let recorder = Arc::clone(&stats);
        Self { thread: thread::spawn(move || run(&plan, &recorder)), stats }
    }

    /// Whether everything was sent and answered.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The numbers so far.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.stats).snapshot(Instant::now())
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When a client could not connect. Calls that fail are counted in the numbers instead.
    pub fn finish(self) -> Result<Snapshot> {
        match self.thread.join() {
            Ok(result) => result?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        let end = Instant::now();
        Ok(lock(&self.stats).snapshot(end))
    }
}

/// Numbers stay whole whatever a thread that panicked was doing with them: each is one assignment.
fn lock(stats: &Mutex<Stats>) -> MutexGuard<'_, Stats> {
    stats.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(plan: &Plan, stats: &Arc<Mutex<Stats>>) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("starting the load"))?;
    runtime.block_on(send_all(plan, stats))
}

async fn send_all(plan: &Plan, stats: &Arc<Mutex<Stats>>) -> Result<()> {
    let mut clients = Vec::new();
    for client in &plan.clients {
        clients.push(connect(client).await?);
    }
    let room = Arc::new(Semaphore::new(plan.max_in_flight));
    let mut turns = clients.iter().cycle();
    let start = Instant::now();
    let measure_from = start + plan.warm_up;
    let end = measure_from + plan.measured;
    lock(stats).measure(measure_from, end);

    let mut pace = Pace::new(start, end, plan.rate);
    let mut ticks = tokio::time::interval(TICK);
    while !pace.is_over() {
        ticks.tick().await;
        let now = Instant::now();
        for due in pace.due(now) {
            if now - due > MAX_LATE {
                lock(stats).miss(now - due);
                continue;
            }
            let Some(client) = turns.next() else {
                return Ok(());
            };
            match Arc::clone(&room).try_acquire_owned() {
                Err(_) => lock(stats).fail("too many calls wait for an answer"),
                Ok(permit) => {
                    let call = call(client.clone(), pace::timed_from(due, now), Arc::clone(stats));
                    tokio::spawn(async move {
                        call.await;
                        drop(permit);
                    });
                }
            }
        }
    }
    wait_for_last_answers(&room, plan.max_in_flight, stats).await;
    Ok(())
}

async fn call(mut client: EchoClient<Channel>, sent: Instant, stats: Arc<Mutex<Stats>>) {
    let request = EchoRequest { payload: vec![b'x'; PAYLOAD_BYTES], ..EchoRequest::default() };
    let answer = client.unary(request).await;
    let latency = sent.elapsed();
    let mut stats = lock(&stats);
    match answer {
        Ok(response) => stats.record(sent, &response.get_ref().server, latency),
        Err(status) => stats.fail(&format!("{:?}: {}", status.code(), status.message())),
    }
}

async fn wait_for_last_answers(room: &Semaphore, max_in_flight: usize, stats: &Mutex<Stats>) {
    let everything = u32::try_from(max_in_flight).unwrap_or(u32::MAX);
    let all_back = room.acquire_many(everything);
    if tokio::time::timeout(LAST_ANSWERS, all_back).await.is_err() {
        let waiting = max_in_flight.saturating_sub(room.available_permits());
        lock(stats).fail_unanswered(waiting as u64, LAST_ANSWERS);
    }
}

async fn connect(client: &Client) -> Result<EchoClient<Channel>> {
    let cannot_connect =
        |why: String| Error::Connect { target: client.authority.clone(), address: client.address, why };
    let origin = format!("http://{}", client.authority);
    let origin = origin.parse().map_err(|e: http::uri::InvalidUri| cannot_connect(e.to_string()))?;
    let channel = Endpoint::from_shared(format!("http://{}", client.address))
        .map_err(|error| cannot_connect(error.to_string()))?
        .origin(origin)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .connect()
        .await
        .map_err(|error| cannot_connect(error.to_string()))?;
    Ok(EchoClient::new(channel))
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
