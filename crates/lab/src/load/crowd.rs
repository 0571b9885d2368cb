//! Thousands of connections that open, make a burst of calls, and close.

use std::future::poll_fn;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::channel::Ended;
use super::channels::Channels;
use super::traffic::Traffic;
use super::{Client, Exchange, runtime};
use crate::error::{Error, Result, io};

/// Longest time for a burst. Calls without an answer by then count as failures.
const BURST_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of open files that a process needs in addition to its connections.
const OTHER_FILES: u64 = 256;

/// Connections that stay open until the crowd is dropped; then each closes cleanly, after a GOAWAY.
///
/// One thread serves all of them, also between bursts, so that a server's PING gets its answer.
pub struct Crowd {
    /// `None` while the crowd closes.
    bursts: Option<UnboundedSender<Burst>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The result of a burst.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrowdReport {
    /// Calls that were answered with OK, by any server.
    pub calls: u64,
    /// Calls that were not answered with OK.
    pub failed: u64,
    /// The error of the first failed call.
    pub first_failure: Option<String>,
}

struct Burst {
    calls_each: u32,
    report: mpsc::Sender<CrowdReport>,
}

impl Crowd {
    /// Opens connections to `target`, a few at a time, and returns once all are open.
    ///
    /// # Errors
    /// If a connection cannot be opened, or the limit of open files is too low.
    pub fn gather(target: &Client, connections: u32) -> Result<Self> {
        allow_open_files(connections)?;
        let clients = vec![target.clone(); connections as usize];
        let (bursts, received) = unbounded_channel();
        let (gathered, result) = mpsc::channel();
        let thread = thread::spawn(move || match runtime() {
            Ok(runtime) => runtime.block_on(tokio::task::unconstrained(stay(&clients, received, &gathered))),
            // `result.recv` below receives this error and returns it.
            Err(error) => drop(gathered.send(Err(error))),
        });
        let crowd = Self { bursts: Some(bursts), thread: Some(thread) };
        result.recv().map_err(|_| thread_ended())??;
        Ok(crowd)
    }

    /// Makes `calls_each` calls on every connection, all at once, and waits for their answers.
    ///
    /// # Errors
    /// If the crowd's thread has ended. Failed calls are counted instead.
    pub fn burst(&self, calls_each: u32) -> Result<CrowdReport> {
        let (report, result) = mpsc::channel();
        let bursts = self.bursts.as_ref().ok_or_else(thread_ended)?;
        bursts.send(Burst { calls_each, report }).map_err(|_| thread_ended())?;
        result.recv().map_err(|_| thread_ended())
    }

    /// Closes all connections and waits until they are closed. Dropping the crowd does the same.
    pub fn leave(self) {}
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.bursts = None;
        if let Some(thread) = self.thread.take() {
            // Ignore the error: if the thread panicked, the panic's message was printed already.
            let _ = thread.join();
        }
    }
}

fn thread_ended() -> Error {
    Error::Usage("the crowd's thread ended early".to_owned())
}

/// Raises the limit of open files of this process and its children if the limit is too low for this many connections.
pub(crate) fn allow_open_files(connections: u32) -> Result<()> {
    let needed = u64::from(connections) + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = maximum.filter(|&maximum| maximum < needed) {
        let what = format!("{needed} open files are needed, and {maximum} are allowed; raise it with: ulimit -n");
        return Err(Error::Usage(what));
    }
    let raised = Rlimit { current: Some(needed), maximum };
    setrlimit(Resource::Nofile, raised).map_err(|error| io("raising the limit of open files")(error.into()))
}

/// Runs the crowd's thread: connects, serves the connections, and makes bursts until the sender is dropped.
async fn stay(clients: &[Client], mut bursts: UnboundedReceiver<Burst>, gathered: &mpsc::Sender<Result<()>>) {
    let mut channels = match Channels::connect(clients, &Exchange::Grpc, &Traffic::default()).await {
        Ok(channels) => channels,
        // The caller of `gather` receives this error.
        Err(error) => return drop(gathered.send(Err(error))),
    };
    if gathered.send(Ok(())).is_err() {
        return;
    }
    while let Some(Burst { calls_each, report }) = next_burst(&mut channels, &mut bursts).await {
        // Sending fails only if the caller no longer waits for the report.
        let _ = report.send(burst(&mut channels, calls_each).await);
    }
    channels.close().await;
}

async fn next_burst(channels: &mut Channels, bursts: &mut UnboundedReceiver<Burst>) -> Option<Burst> {
    poll_fn(|cx| {
        // No call is in flight: only the connections' own frames need processing.
        while channels.step(cx, &mut Vec::new()).is_some() {}
        bursts.poll_recv(cx)
    })
    .await
}

async fn burst(channels: &mut Channels, calls_each: u32) -> CrowdReport {
    let mut report = CrowdReport::default();
    let mut ended = Vec::new();
    let now = Instant::now();
    for channel in (0..channels.len()).flat_map(|channel| (0..calls_each).map(move |_| channel)) {
        channels.send(channel, now, &mut ended);
    }
    let answers = poll_fn(|cx| poll_answers(channels, &mut ended, &mut report, cx));
    if tokio::time::timeout(BURST_TIMEOUT, answers).await.is_err() {
        report.failed += channels.give_up() as u64;
        let why = || format!("no answer within {} s", BURST_TIMEOUT.as_secs());
        report.first_failure.get_or_insert_with(why);
    }
    report
}

fn poll_answers(
    channels: &mut Channels,
    ended: &mut Vec<Ended>,
    report: &mut CrowdReport,
    cx: &Context<'_>,
) -> Poll<()> {
    loop {
        for call in ended.drain(..) {
            match call.answer {
                Ok(_) => report.calls += 1,
                Err(failure) => {
                    report.failed += 1;
                    report.first_failure.get_or_insert(failure.why);
                }
            }
        }
        if channels.in_flight() == 0 {
            return Poll::Ready(());
        }
        if channels.step(cx, ended).is_none() {
            return Poll::Pending;
        }
    }
}

#[cfg(test)]
#[path = "crowd_tests.rs"]
mod tests;
