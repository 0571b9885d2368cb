//! `leno stat`: what proxies counted within a few seconds: calls by workload, by method, by route, and by pair of caller
//! and workload. `leno stat top` counts again and again, and shows the methods in a live table.

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
use leno_model::settings::parse_duration;
use serde::Serialize;

use super::block_on;
use super::source::{Measured, Source};
use super::table::{Output, show};

/// Longest measurement: 1 h.
const WINDOW_MAX: Duration = Duration::from_secs(60 * 60);

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
    /// How long to count calls: 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_window)]
    window: Duration,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
}

impl Measurement {
    /// Measures the selected proxies, and shows the rows of all groups.
    fn show<R: Serialize>(
        &self,
        source: &Source,
        rows: impl Fn(&Measured, Duration) -> Vec<R>,
        table: impl FnOnce(&[R], Duration) -> String,
    ) -> Result<(), Box<dyn Error>> {
        let measured = block_on(source.measure(self.window))??;
        let rows: Vec<R> = measured.iter().flat_map(|measured| rows(measured, self.window)).collect();
        show(self.output, &rows, |rows| table(rows, self.window))?;
        Ok(())
    }
}

/// The first columns of a table: namespace and name of workloads, or the addresses of proxies, which have no namespace.
struct Names {
    has_namespace: bool,
}

impl Names {
    /// The columns for groups of these namespaces.
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

/// A direction of the metrics, as tables show it.
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

fn parse_window(text: &str) -> Result<Duration, String> {
    let window = parse_duration(text).filter(|window| (Duration::from_secs(1)..=WINDOW_MAX).contains(window));
    window.ok_or_else(|| "write a duration of 1s to 1h, as 10s".to_owned())
}

#[cfg(test)]
#[path = "stat_tests.rs"]
mod tests;
