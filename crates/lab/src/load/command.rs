//! `leno lab load`: one load for a coordinator in another process. Not for direct use.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use super::{Event, Load, Plan};
use crate::echo::until_told_to_stop;
use crate::error::{Result, io as io_error};

/// Interval between two [`Event::Running`]. A closed output ends the load after this time.
const RUNNING: Duration = Duration::from_secs(1);
/// Longest delay of an event.
const NOTICE: Duration = Duration::from_millis(10);

/// Options of `leno lab load`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Do nothing until SIGTERM or SIGINT: the main process of a Pod in which loads run
    #[arg(long)]
    pub stand_by: bool,
}

/// Reads a plan from standard input, runs it, and writes events to standard output; or stands by. Ends early if standard
/// input is closed.
///
/// # Errors
/// If standard output is closed, or the process cannot watch for signals. Other errors are events on standard output.
pub fn run(options: &Options) -> Result<()> {
    if options.stand_by {
        return stand_by();
    }
    let plan = Plan::read(io::stdin().lock());
    end_with_input();
    serve(plan, &mut io::stdout())
}

/// Ends the process when standard input is closed: the coordinator has gone. A container's runtime may keep the output
/// open.
fn end_with_input() {
    thread::spawn(|| {
        let mut rest = [0; 64];
        while io::stdin().read(&mut rest).is_ok_and(|bytes| bytes > 0) {}
        std::process::exit(1)
    });
}

fn stand_by() -> Result<()> {
    super::runtime()?.block_on(async {
        until_told_to_stop()?.await;
        Ok(())
    })
}

/// Runs a plan.
fn serve(plan: Result<Plan>, output: &mut impl Write) -> Result<()> {
    let gone = || io_error("writing the events of a load");
    let ended = match plan {
        Ok(plan) => {
            let load = Load::start(plan);
            report(&load, output).map_err(gone())?;
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

/// Writes the events of a load until it has ended.
fn report(load: &Load, output: &mut impl Write) -> io::Result<()> {
    let (mut connected, mut measuring) = (false, false);
    let mut running_at = Instant::now() + RUNNING;
    loop {
        // Read first, so that a short load gets all its events.
        let finished = load.is_finished();
        let measured_from = load.measured_from();
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
        // At the exact end of the warm-up, the coordinator reads its first meters.
        let until_measuring = measured_from.filter(|_| !measuring).map(|from| from.saturating_duration_since(now));
        thread::sleep(until_measuring.unwrap_or(NOTICE).min(NOTICE));
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
