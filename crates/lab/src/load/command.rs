//! `leno lab load`: runs one load for a coordinator, the process of `leno lab run --cluster`. Not for direct use.

use std::io::{self, BufRead, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::gate::{Gate, START, gate};
use super::{Event, Load, Plan};
use crate::echo::until_told_to_stop;
use crate::error::{Error, Result, io as io_error};

/// Interval between two events [`Event::Running`]. If the output is closed, the next of these writes fails. So the load
/// ends within this time.
const RUNNING: Duration = Duration::from_secs(1);
/// Interval between two checks for new events, and so the longest delay of an event.
const NOTICE: Duration = Duration::from_millis(10);

/// Options of `leno lab load`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Do nothing until SIGTERM or SIGINT: the main process of a Pod in which loads run
    #[arg(long)]
    pub stand_by: bool,
    /// Connect, write the event `ready`, and begin when the line `start` arrives on standard input
    #[arg(long, conflicts_with = "stand_by")]
    pub await_start: bool,
}

/// The start gate of a load. `waits` receives a message when the load has connected and waits for the start signal.
struct Awaited {
    gate: Gate,
    waits: oneshot::Receiver<()>,
}

/// Reads a plan from standard input, runs it at once or after the start signal, and writes events to standard output.
/// Ends early if standard input is closed. With the option `stand_by`, does nothing until SIGTERM or SIGINT.
///
/// # Errors
/// If standard output is closed, or the process cannot watch for signals. Other errors are events on standard output.
pub fn run(options: &Options) -> Result<()> {
    if options.stand_by {
        return stand_by();
    }
    let plan = Plan::read(io::stdin().lock());
    let (awaited, signal) = if options.await_start {
        let (gate, waits, signal) = gate();
        (Some(Awaited { gate, waits }), Some(signal))
    } else {
        (None, None)
    };
    thread::spawn(|| end_with_input(signal));
    serve(plan, awaited, &mut io::stdout())
}

/// Ends the process when standard input is closed, because the coordinator has then ended. A closed output would not be
/// a reliable sign: a container's runtime may keep the output open.
fn end_with_input(signal: Option<oneshot::Sender<()>>) {
    if let Err(error) = follow(io::stdin().lock(), signal) {
        // Ignore a failed write to the standard error: the exit code still shows the failure.
        let _ = writeln!(io::stderr(), "error: {error}");
    }
    std::process::exit(1)
}

/// Gives the start signal when the line [`START`] arrives, and reads the input to its end.
///
/// # Errors
/// If another line arrives, or the input cannot be read.
fn follow(mut input: impl BufRead, signal: Option<oneshot::Sender<()>>) -> Result<()> {
    const READING: &str = "reading the start signal of a load";
    if let Some(signal) = signal {
        let mut line = Vec::new();
        input.by_ref().take(START.len() as u64).read_until(b'\n', &mut line).map_err(io_error(READING))?;
        match &line[..] {
            [] => return Ok(()),
            // Ignore the error: a load that has failed no longer waits for the signal.
            line if line == START.as_bytes() => drop(signal.send(())),
            other => {
                let why = format!("expected {START:?}, got {:?}", String::from_utf8_lossy(other));
                return Err(Error::Message { what: READING.to_owned(), why });
            }
        }
    }
    io::copy(&mut input, &mut io::sink()).map(drop).map_err(io_error(READING))
}

fn stand_by() -> Result<()> {
    super::runtime()?.block_on(async {
        until_told_to_stop()?.await;
        Ok(())
    })
}

/// Runs a plan.
fn serve(plan: Result<Plan>, awaited: Option<Awaited>, output: &mut impl Write) -> Result<()> {
    let gone = || io_error("writing the events of a load");
    let ended = match plan {
        Ok(plan) => {
            let (load, waits) = match awaited {
                Some(Awaited { gate, waits }) => (Load::start_at(plan, gate), Some(waits)),
                None => (Load::start(plan), None),
            };
            report(&load, waits, output).map_err(gone())?;
            load.record()
        }
        Err(error) => Err(error),
    };
    let last = match ended {
        Ok(recording) => Event::Finished { recording: Box::new(recording) },
        Err(error) => Event::Failed { why: error.to_string() },
    };
    last.write(output).map_err(gone())
}

/// Writes the events of a load, except its last event, until the load has ended.
fn report(load: &Load, mut waits: Option<oneshot::Receiver<()>>, output: &mut impl Write) -> io::Result<()> {
    let (mut connected, mut measuring) = (false, false);
    let mut running_at = Instant::now() + RUNNING;
    loop {
        // Read `finished` before the other state. If the load ends after this line, the loop runs once more, so that no
        // event is missing.
        let finished = load.is_finished();
        let measured_from = load.measured_from();
        if waits.as_mut().is_some_and(|waits| waits.try_recv().is_ok()) {
            Event::Ready.write(output)?;
            waits = None;
        }
        if !connected && measured_from.is_some() {
            Event::Connected.write(output)?;
            connected = true;
        }
        let now = Instant::now();
        if !measuring && measured_from.is_some_and(|from| now >= from) {
            Event::Measuring.write(output)?;
            measuring = true;
        }
        if finished {
            return Ok(());
        }
        if now >= running_at {
            Event::Running { answered: load.snapshot().answered }.write(output)?;
            running_at = now + RUNNING;
        }
        // Wake up at the exact end of the warm-up: the coordinator then takes its first readings.
        let until_measuring = measured_from.filter(|_| !measuring).map(|from| from.saturating_duration_since(now));
        thread::sleep(until_measuring.unwrap_or(NOTICE).min(NOTICE));
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
