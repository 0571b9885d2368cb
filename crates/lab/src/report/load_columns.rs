//! The table columns of the scenarios that measure the cost of a load, for example `ladder` and `footprint`.

use crate::experiment::record::{Experiment, Run, Scenario};

use super::figures::{self, Figure};
use super::group::Group;
use super::mean::Mean;
use super::table::{Column, range_of_all};

/// The columns of `scenario`; empty for scenarios that do not measure the cost of a load.
pub(super) fn of_load<'a>(scenario: Scenario) -> Vec<Column<'a>> {
    let mut columns = match scenario {
        Scenario::Ladder => vec![
            mean("p50, mean [95 %], ms", figures::p50_ms),
            mean("p99, mean [95 %], ms", figures::p99_ms),
            seconds_until_steady(),
        ],
        Scenario::Graph => vec![
            mean("p50, mean [95 %], ms", figures::p50_ms),
            mean("p99, mean [95 %], ms", figures::p99_ms),
            range("longest call, ms", figures::max_ms),
        ],
        Scenario::Capacity => vec![
            mean_of_all("sustained calls/s, mean [95 %]", figures::sustained_per_s),
            median("found by the search, calls/s", figures::found_per_s),
        ],
        Scenario::Crowd => vec![median("memory for each connection, KB", figures::kb_per_connection)],
        Scenario::Footprint => vec![
            median("memory for each connection, KB", figures::kb_per_connection),
            median("memory of all proxies after the burst, MB", figures::after_burst_mb),
        ],
        Scenario::Steady => vec![seconds_until_steady()],
        Scenario::Rollout => vec![
            range_of_all("graceful restarts", figures::graceful_restarts),
            range_of_all("calls lost, graceful", figures::lost_gracefully),
            range_of_all("abrupt restarts", figures::abrupt_restarts),
            range_of_all("calls lost, abrupt", figures::lost_abruptly),
        ],
        Scenario::Streams => vec![
            range("messages/s", figures::messages_per_s),
            range("busiest ÷ mean backend", figures::busiest_over_mean),
            range("quietest ÷ mean backend", figures::quietest_over_mean),
        ],
        Scenario::Methods => vec![median("p99 of the slow method, ms", figures::slow_method_p99_ms)],
        _ => return Vec::new(),
    };
    columns.extend([
        errors(),
        median("CPU of all proxies, mCPU", figures::millicores),
        median("memory of all proxies idle, MB", figures::idle_mb),
        median("memory of all proxies loaded, MB", figures::loaded_mb),
    ]);
    columns
}

/// The columns that only experiments in a cluster have.
pub(super) fn of_cluster<'a>(experiment: &Experiment) -> Vec<Column<'a>> {
    if experiment.cluster.is_none() {
        return Vec::new();
    }
    vec![
        median("CPU of all proxies idle, mCPU", figures::idle_millicores),
        median("memory of the control plane, MB", figures::control_plane_mb),
        median("CPU of the control plane, mCPU", figures::control_plane_millicores),
    ]
}

/// Whether the table of `scenario` has columns with means. All other columns have medians.
pub(super) fn has_means(scenario: Scenario) -> bool {
    matches!(scenario, Scenario::Ladder | Scenario::Graph | Scenario::Capacity)
}

fn median<'a>(name: &str, figure: Figure) -> Column<'a> {
    (name.to_owned(), Box::new(move |group: &Group| figures::median(group.spread(figure))))
}

/// The percentage of failed calls. Includes runs without an answered call, because all calls of such a run failed.
fn errors<'a>() -> Column<'a> {
    let cell = |group: &Group| figures::median(group.spread_of_all(figures::errors_percent));
    ("errors, %".to_owned(), Box::new(cell))
}

fn range<'a>(name: &str, figure: Figure) -> Column<'a> {
    (name.to_owned(), Box::new(move |group: &Group| figures::with_range(group.spread(figure))))
}

/// A mean with its 95 % interval. The cell is a dash if a repeat with answered calls lacks the figure.
fn mean<'a>(name: &str, figure: Figure) -> Column<'a> {
    (name.to_owned(), Box::new(move |group: &Group| mean_text(group.alive(), figure)))
}

/// A mean with its 95 % interval. The cell is a dash if a repeat lacks the figure, also if no call of this repeat was
/// answered.
fn mean_of_all<'a>(name: &str, figure: Figure) -> Column<'a> {
    (name.to_owned(), Box::new(move |group: &Group| mean_text(group.runs.iter().copied(), figure)))
}

fn mean_text<'r>(runs: impl Iterator<Item = &'r Run>, figure: Figure) -> String {
    let values: Option<Vec<f64>> = runs.map(figure).collect();
    figures::with_interval(values.and_then(|values| Mean::of(values.into_iter())))
}

/// The seconds until the latency is steady. A run without answered calls never becomes steady.
fn seconds_until_steady<'a>() -> Column<'a> {
    let cell = |group: &Group| {
        let spread = group.spread_of_all(figures::steady_s);
        let (found, all) = (spread.map_or(0, |spread| spread.count), group.runs.len());
        let text = figures::with_range(spread);
        if found == all { text } else { format!("{text}, in {found} of {all} runs") }
    };
    ("steady after, s".to_owned(), Box::new(cell))
}

#[cfg(test)]
#[path = "load_columns_tests.rs"]
mod tests;
