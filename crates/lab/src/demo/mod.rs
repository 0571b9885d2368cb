//! The demo: five real gRPC servers, one of them slow, and the results of three balancing modes.

mod closing;
mod lines;
mod row;
mod screen;
mod stage;
mod way;

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::error::{Error, Result, io as io_error};
use crate::foreground::Foreground;
use crate::load::{Exchange, Load, Pattern, Plan, Snapshot, Traffic};
use lines::Lines;
use row::Row;
use screen::Screen;
use stage::Stage;
use tokio::time::sleep;
use way::Way;

/// Warm-up of each mode before counting begins: connections open, and balancers learn.
const WARM_UP: Duration = Duration::from_secs(2);
/// Interval between two frames.
const REFRESH: Duration = Duration::from_millis(100);

/// Options of `leno demo`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Measured time of each balancing mode, in seconds
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds_per_phase: u32,
    /// Additional latency of the slow server, in ms
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub slow_ms: u32,
    /// Calls per second, sent whether or not earlier calls were answered
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..=20_000))]
    pub rate: u32,
    /// Maximum number of calls in flight; a further call is not sent and counts as failed
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub concurrency: u32,
    /// Print plain lines, also on a terminal
    #[arg(long)]
    pub plain: bool,
}

impl Options {
    fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds_per_phase.into())
    }
}

/// The state that a view shows.
struct Moment<'a> {
    options: &'a Options,
    /// The current mode.
    way: Way,
    /// The current mode's numbers so far.
    snapshot: &'a Snapshot,
    /// The rows of earlier modes.
    done: &'a [Row],
    /// Time until the last mode ends.
    time_left: Duration,
}

/// The demo's output: a live screen, or lines of text.
enum View {
    Screen(Screen),
    Lines(Lines),
}

impl View {
    /// Opens the live screen on a terminal, else a view that prints lines.
    fn open(options: &Options) -> Self {
        let terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if options.plain || !terminal || dumb {
            return Self::Lines(Lines::default());
        }
        // Some terminals cannot report the cursor position; use lines there.
        Screen::open().map_or_else(|_| Self::Lines(Lines::default()), Self::Screen)
    }

    fn show(&mut self, moment: &Moment<'_>) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.show(moment),
            Self::Lines(lines) => lines.show(moment, &mut io::stdout()),
        }
    }

    /// Returns whether the user asked to quit.
    fn is_left(&self) -> io::Result<bool> {
        match self {
            Self::Screen(screen) => screen.is_left(),
            Self::Lines(_) => Ok(false),
        }
    }
}

/// Runs the demo on the terminal.
///
/// # Errors
/// If a started process fails, any call failed, or a signal ended the demo.
pub fn run(options: &Options) -> Result<()> {
    // Handle signals from now on: a signal that ended the process at once would leave the stage's temporary directory
    // behind.
    let mut foreground = Foreground::new()?;
    let mut stage = Stage::set_up(options)?;
    let mut view = View::open(options);
    let mut rows = Vec::new();
    let mut failures = Vec::new();
    let mut held_up = Duration::ZERO;
    for way in Way::ALL {
        let Some(snapshot) = run_way(way, options, (&mut stage, &mut foreground), &mut view, &rows)? else {
            return Ok(());
        };
        rows.extend(way.rows(&snapshot));
        failures.extend(failure(way, &snapshot));
        held_up = held_up.max(snapshot.held_up);
    }
    drop(view);
    let colours = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let text = closing::text(&rows, options, held_up, colours);
    write!(io::stdout(), "{text}").map_err(cannot_print())?;
    failures.into_iter().next().map_or(Ok(()), Err)
}

/// Runs one mode and returns its numbers; `None` if the user quit.
fn run_way(
    way: Way,
    options: &Options,
    (stage, foreground): (&mut Stage, &mut Foreground),
    view: &mut View,
    done: &[Row],
) -> Result<Option<Snapshot>> {
    let load = Load::start(Plan {
        clients: stage.clients(way),
        servers: stage.server_names(),
        exchange: Exchange::Grpc,
        traffic: Traffic::default(),
        pattern: Pattern::Open { rate_per_s: options.rate, max_in_flight: options.concurrency },
        warm_up: WARM_UP,
        measured: options.measured(),
        cpus: Vec::new(),
        seed: 0,
    });
    let one_way = WARM_UP + options.measured();
    let end = Instant::now() + one_way * way.and_later();
    while !load.is_finished() {
        let moment = Moment {
            options,
            way,
            snapshot: &load.snapshot(),
            done,
            time_left: end.saturating_duration_since(Instant::now()),
        };
        view.show(&moment).map_err(cannot_print())?;
        if view.is_left().map_err(io_error("reading the keyboard"))? {
            return Ok(None);
        }
        stage.ensure_running()?;
        foreground.wait(async {
            sleep(REFRESH).await;
            Ok(())
        })?;
    }
    load.finish().map(Some)
}

fn failure(way: Way, snapshot: &Snapshot) -> Option<Error> {
    let why = snapshot.first_failure.clone()?;
    Some(Error::CallsFailed {
        target: way.to_string(),
        failed: snapshot.failed,
        calls: snapshot.failed + snapshot.total.calls,
        why,
    })
}

fn cannot_print() -> impl FnOnce(io::Error) -> Error {
    io_error("writing to the terminal")
}
