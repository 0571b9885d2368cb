//! A gRPC client, as `leno call` runs it: it calls an echo server at a fixed rate for as long as it runs, and prints what it got.
//!
//! It is for examples and demonstrations, in which a client must be there before its servers and outlive them. The load of experiments
//! ([`crate::load`]) counts exactly, and ends when its servers are not there at the start.

mod count;

use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::echo::proto::EchoRequest;
use crate::echo::proto::echo_client::EchoClient;
use crate::echo::until_told_to_stop;
use crate::error::{Error, Result, io as io_error};
use count::{Count, Outcome};

/// How long a call may take.
const CALL_MAX: Duration = Duration::from_secs(5);
/// How long a connection may take to be established.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Calls that may wait for an answer. One more is not sent and counts as failed.
const IN_FLIGHT_MAX: usize = 1_000;

/// Options of `leno call`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The echo server to call, as echo:50051; all calls share one connection
    #[arg(value_name = "HOST:PORT")]
    pub to: String,
    /// Calls per second, evenly spaced
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// How often a line says what the calls got, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub report_s: u32,
    /// End after this many lines; without it, at SIGTERM or SIGINT
    #[arg(long, value_name = "N")]
    pub reports: Option<u32>,
}

/// Calls until it is told to stop. Calls that fail are counted, and end nothing.
///
/// # Errors
/// When the address is none, or standard output cannot be written to.
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
    // A client that was held up goes on at its rate, and does not make up for it with a burst.
    due.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut reports = interval_at(Instant::now() + report, report);
    let room = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    // Each call in flight sends one outcome.
    let (sender, mut outcomes) = mpsc::channel(IN_FLIGHT_MAX);
    let (mut count, mut reported) = (Count::default(), 0);
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            _ = due.tick() => match Arc::clone(&room).try_acquire_owned() {
                Ok(place) => {
                    let (client, sender) = (client.clone(), sender.clone());
                    tokio::spawn(async move {
                        // The receiver goes with the process.
                        let _ = sender.send(one(client).await).await;
                        drop(place);
                    });
                }
                Err(_) => count.note(Outcome::Failed(format!("{IN_FLIGHT_MAX} calls wait for an answer"))),
            },
            Some(outcome) = outcomes.recv() => count.note(outcome),
            _ = reports.tick() => {
                writeln!(output, "{}", std::mem::take(&mut count).line(report)).map_err(io_error("standard output"))?;
                reported += 1;
                if options.reports == Some(reported) {
                    return Ok(());
                }
            }
        }
    }
}

/// A connection that is made for the first call, and again whenever it is lost.
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
        Err(status) => Outcome::Failed(format!("{:?}: {}", status.code(), status.message())),
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
