//! `leno stat`: shows the calls that proxies count within a few seconds, by workload, by method, by route, or by pair
//! of caller and workload. `leno stat top` reads the counts periodically, and shows the methods in a live table.

pub(crate) mod counts;
mod edges;
pub(crate) mod methods;
pub(crate) mod objective;
pub(crate) mod peer;
pub(crate) mod routes;
pub(crate) mod streams;
mod top;
mod workloads;

use std::error::Error;
use std::time::Duration;

use clap::{Args, Subcommand};
use leno_model::settings::{format_duration, parse_duration};
use serde::Serialize;

use super::block_on;
use super::connect::ClusterError;
use super::prometheus::{self, Wanted};
use super::source::{Measured, Source};
use super::table::{Output, show};

/// Maximum window of a command that reads the metrics of proxies directly, without Prometheus.
const LIVE_MAX: Duration = Duration::from_secs(60 * 60);
const LIVE_DEFAULT: Duration = Duration::from_secs(10);

/// Minimum window of a query to Prometheus: `increase()` needs two scrapes within the window.
const RECORDED_MIN: Duration = Duration::from_secs(60);
const RECORDED_MAX: Duration = Duration::from_secs(30 * DAY_S);
const RECORDED_DEFAULT: Duration = Duration::from_secs(60 * 60);

const DAY_S: u64 = 24 * 60 * 60;

/// Options of `leno stat`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    workloads: workloads::Options,
}

/// What to show instead of workloads
#[derive(Subcommand)]
enum What {
    /// Show calls by method: of gRPC by service and method, of other HTTP by request method and route
    Methods(methods::Options),
    /// Show who calls whom: calls to workloads by the identity of the caller
    Edges(edges::Options),
    /// Show calls by route and backend, with retries and hedges
    Routes(routes::Options),
    /// Show the calls and streams that are open now, the oldest first
    Streams(streams::Options),
    /// Show calls by method in a table that is updated every few seconds; keys sort, filter and pause it
    Top(top::Options),
}

/// Options of every measurement.
#[derive(Args)]
struct Measurement {
    #[command(flatten)]
    prometheus: prometheus::Options,
    /// How long to count calls: 1s to 1h, by default 10s; with --prometheus the last 1m to 30d, by default 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_window)]
    window: Option<Duration>,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
}

impl Measurement {
    /// Measures the selected proxies, and shows a table. `rows` returns the rows of each selected group of Pods, and
    /// `wanted` names every metric and label that `rows` reads.
    fn show<R: Serialize>(
        &self,
        source: &Source,
        wanted: &Wanted,
        rows: impl Fn(&Measured, Duration) -> Vec<R>,
        table: impl FnOnce(&[R], Duration) -> String,
    ) -> Result<(), Box<dyn Error>> {
        let window = self.window()?;
        let measured = match self.prometheus.is_given() {
            true => block_on(self.prometheus.measure(source.choice(), wanted, window))??,
            false => block_on(source.measure(window))??,
        };
        let rows: Vec<R> = measured.iter().flat_map(|measured| rows(measured, window)).collect();
        show(self.output, &rows, |rows| table(rows, window))?;
        Ok(())
    }

    /// Returns the window in which calls are counted: `--window`, or the default.
    fn window(&self) -> Result<Duration, ClusterError> {
        let is_recorded = self.prometheus.is_given();
        let window = self.window.unwrap_or(if is_recorded { RECORDED_DEFAULT } else { LIVE_DEFAULT });
        let given = format_duration(window);
        match is_recorded {
            true if window < RECORDED_MIN => Err(ClusterError::new(
                format!("--window {given} is too short for --prometheus, which counts between readings of the proxies"),
                "write 1m to 30d, or ask the proxies themselves without --prometheus",
            )),
            false if window > LIVE_MAX => Err(ClusterError::new(
                format!("--window {given} is longer than 1h, the most that a command counts itself"),
                "write 1s to 1h, or let --prometheus URL count longer",
            )),
            _ => Ok(window),
        }
    }
}

/// The first columns of a table: namespace and name of a workload, or only the address of a proxy.
struct Names {
    has_namespace: bool,
}

impl Names {
    /// Chooses the first columns of a table. `namespaces` has the namespace of each row. The table has a column
    /// for the namespace only if one of them is not empty.
    fn of<'a>(mut namespaces: impl Iterator<Item = &'a str>) -> Self {
        Self { has_namespace: namespaces.any(|namespace| !namespace.is_empty()) }
    }

    fn heads(&self) -> &'static [&'static str] {
        if self.has_namespace { &["NAMESPACE", "NAME"] } else { &["PROXY"] }
    }

    fn cells(&self, namespace: &str, name: &str) -> Vec<String> {
        if self.has_namespace { vec![namespace.to_owned(), name.to_owned()] } else { vec![name.to_owned()] }
    }
}

/// Returns the text that tables show for a direction in the metrics.
fn side(direction: &str) -> &'static str {
    if direction == "inbound" { "in" } else { "out" }
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        match &self.what {
            Some(What::Methods(options)) => options.run(),
            Some(What::Edges(options)) => options.run(),
            Some(What::Routes(options)) => options.run(),
            Some(What::Streams(options)) => options.run(),
            Some(What::Top(options)) => options.run(),
            None => self.workloads.run(),
        }
    }
}

/// Formats a window of time: in days if it is a whole number of at least 2 days (`30 d`), otherwise in hours if it is a
/// whole number of hours (`6 h`), otherwise in seconds (`10 s`).
fn span(window: Duration) -> String {
    match window.as_secs() {
        _ if window.subsec_nanos() > 0 => seconds(window),
        seconds if seconds >= 2 * DAY_S && seconds.is_multiple_of(DAY_S) => format!("{} d", seconds / DAY_S),
        seconds if seconds >= 3_600 && seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        _ => seconds(window),
    }
}

/// Formats a duration in seconds, with the fraction of a second if there is one (`1.5 s`).
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// Parses a duration that may begin with days, for example `1d12h`.
fn parse_window(text: &str) -> Result<Duration, String> {
    let (days, rest) = text.split_once('d').unwrap_or(("0", text));
    let days = days.parse::<u16>().ok().map(|days| Duration::from_secs(u64::from(days) * DAY_S));
    let rest = if rest.is_empty() && text.ends_with('d') { Some(Duration::ZERO) } else { parse_duration(rest) };
    let window = days.zip(rest).map(|(days, rest)| days + rest);
    let window = window.filter(|window| (Duration::from_secs(1)..=RECORDED_MAX).contains(window));
    window.ok_or_else(|| {
        "write a duration of 1s to 1h, for example 10s; with --prometheus of 1m to 30d, for example 6h or 7d".to_owned()
    })
}

#[cfg(test)]
#[path = "stat_tests.rs"]
mod tests;
