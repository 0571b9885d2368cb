//! The gRPC client of `leno call`: it calls an echo server at a fixed rate and prints the results.
//!
//! The client is meant for examples and demonstrations, in which a client starts before its servers and outlives them.
//! Therefore, calls that fail before the first answer get a line of their own. Experiments use another client,
//! [`crate::load`], which counts exactly, and ends if its servers do not run at the start.

mod count;

use std::error::Error as _;
use std::io::{self, Write};
use std::iter::successors;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::echo::proto::EchoRequest;
use crate::echo::proto::echo_client::EchoClient;
use crate::echo::until_told_to_stop;
use crate::error::{Error, Result, io as io_error};
use count::{Count, Outcome};

/// Longest time for a call.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Longest time to establish a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Maximum number of calls in flight. A further call is not sent and counts as failed.
const IN_FLIGHT_MAX: usize = 1_000;

/// Options of `leno call`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Address of the echo server, as echo:50051; all calls share one connection
    #[arg(value_name = "HOST:PORT")]
    pub to: String,
    /// Calls per second, evenly spaced
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// Seconds between two lines of results
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub report_s: u32,
    /// End after this many lines; default: at SIGTERM or SIGINT
    #[arg(long, value_name = "N")]
    pub reports: Option<u32>,
}

/// Sends calls until SIGTERM or SIGINT, or until it has printed [`Options::reports`] lines. A failed call is counted,
/// and does not end the run.
///
/// # Errors
/// If the address is invalid, or standard output is closed.
pub fn run(options: &Options) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io_error("starting the client"))?;
    runtime.block_on(async {
        let stop = until_told_to_stop()?;
        call(options, stop, &mut io::stdout()).await
    })
}

async fn call(options: &Options, stop: impl Future<Output = ()>, output: &mut impl Write) -> Result<()> {
    let client = EchoClient::new(channel(&options.to)?);
    let mut stop = pin!(stop);
    let report = Duration::from_secs(options.report_s.into());
    let mut due = interval(Duration::from_secs(1) / options.rate);
    // If the client is delayed, it skips the missed calls instead of sending them in a burst.
    due.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut reports = interval_at(Instant::now() + report, report);
    let room = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    // Each call in flight sends one outcome, so the channel has room for all of them.
    let (sender, mut outcomes) = mpsc::channel(IN_FLIGHT_MAX);
    let (mut count, mut reported) = (Count::default(), 0);
    // The calls that failed before the first answer; `None` from the first answer on.
    let mut early = Some(Count::default());
    let mut print = |line: String| writeln!(output, "{line}").map_err(io_error("standard output"));
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            _ = due.tick() => match Arc::clone(&room).try_acquire_owned() {
                Ok(place) => {
                    let (client, sender) = (client.clone(), sender.clone());
                    tokio::spawn(async move {
                        // Sending fails only after the end of the run, when outcomes are no longer counted.
                        let _ = sender.send(one(client).await).await;
                        drop(place);
                    });
                }
                Err(_) => count.note(Outcome::Failed(format!("{IN_FLIGHT_MAX} calls wait for an answer"))),
            },
            Some(outcome) = outcomes.recv() => {
                match (&outcome, &mut early) {
                    (Outcome::Failed(why), Some(early)) => early.note(Outcome::Failed(why.clone())),
                    (Outcome::Answered { .. }, Some(failed)) => {
                        failed.line_before_the_first_answer().map_or(Ok(()), &mut print)?;
                        (early, count) = (None, Count::default());
                        reports.reset();
                    }
                    (_, None) => {}
                }
                count.note(outcome);
            }
            _ = reports.tick() => {
                print(std::mem::take(&mut count).line(report))?;
                reported += 1;
                if options.reports == Some(reported) {
                    return Ok(());
                }
            }
        }
    }
}

/// A connection that opens with the first call, and reopens after a loss.
fn channel(to: &str) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{to}"))
        .map_err(|error| Error::Usage(format!("{to}: {error}; write a host and a port, as echo:50051")))?;
    Ok(endpoint.connect_timeout(CONNECT_MAX).connect_lazy())
}

async fn one(mut client: EchoClient<Channel>) -> Outcome {
    let start = Instant::now();
    let mut request = Request::new(EchoRequest::default());
    request.set_timeout(CALL_MAX);
    match client.unary(request).await {
        Ok(answer) => Outcome::Answered { server: answer.into_inner().server, latency: start.elapsed() },
        Err(status) => Outcome::Failed(reason(&status)),
    }
}

/// Returns the code, the message and the root cause of a failure. If a connection fails, the message names only the failed
/// step, such as the TCP connect. A status that a server sent has no cause.
fn reason(status: &Status) -> String {
    let (code, message) = (status.code(), status.message());
    let cause = successors(status.source(), |&error| error.source()).last().map(ToString::to_string);
    match cause.filter(|cause| !message.contains(cause.as_str())) {
        Some(cause) => format!("{code:?}: {message}: {cause}"),
        None => format!("{code:?}: {message}"),
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
