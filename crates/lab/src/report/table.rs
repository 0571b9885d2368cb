//! The full table of a scenario as text cells, for both Markdown and HTML.

use crate::experiment::record::{Condition, Fault, Scenario, TargetKind};

use super::figures::{self, Figure};
use super::group::{Group, Load, Results};
use super::labels;
use super::load_columns::{of_cluster, of_load};
use super::ratio::ratio;
use super::spread::Spread;

/// A table. The first cell of every row is the row's target.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    /// The names of the columns, with units. The first column contains the targets.
    pub(super) columns: Vec<String>,
    pub(super) sections: Vec<Section>,
    /// Targets that have no figures, each with the reason.
    pub(super) skipped: Vec<(TargetKind, String)>,
}

/// The rows of all targets under one load, skew and condition.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Section {
    pub(super) load: Load,
    pub(super) skew_ms: u32,
    pub(super) condition: Condition,
    pub(super) rows: Vec<(TargetKind, Vec<String>)>,
}

/// The name of a column, and the function that formats its cell for a group.
pub(super) type Column<'a> = (String, Box<dyn Fn(&Group) -> String + 'a>);

pub(super) fn table(results: &Results, scenario: Scenario) -> Table {
    let columns = columns(results, scenario);
    let mut sections: Vec<Section> = Vec::new();
    for group in results.of(scenario) {
        let row = (group.target, columns.iter().map(|(_, cell)| cell(group)).collect());
        match sections.last_mut() {
            Some(last) if (last.load, last.skew_ms, last.condition) == (group.load, group.skew_ms, group.condition) => {
                last.rows.push(row);
            }
            _ => {
                let Group { load, skew_ms, condition, .. } = *group;
                sections.push(Section { load, skew_ms, condition, rows: vec![row] });
            }
        }
    }
    let names = columns.into_iter().map(|(name, _)| name);
    let skipped = results.experiment.skipped.iter().map(|skipped| (skipped.target, skipped.why.clone()));
    Table { columns: std::iter::once("target".to_owned()).chain(names).collect(), sections, skipped: skipped.collect() }
}

fn columns<'a>(results: &'a Results, scenario: Scenario) -> Vec<Column<'a>> {
    let beside_healthy = |figure: Figure| {
        move |group: &Group| {
            let has_fault = group.skew_ms > 0 || group.condition.fault != Fault::None;
            let healthy = results.healthy(group).filter(|_| has_fault);
            figures::ratio(healthy.and_then(|healthy| ratio(group, healthy, figure)))
        }
    };
    if scenario == Scenario::Tcp {
        return of_bytes();
    }
    let skewed = results.skews(scenario).iter().any(|&skew| skew > 0);
    let with_tail = scenario == Scenario::Tail;
    let mut columns: Vec<Column> = vec![
        ("p50 ± sd, ms".to_owned(), Box::new(|group| figures::with_sd(group.spread(figures::p50_ms)))),
        ("p90, ms".to_owned(), Box::new(|group| figures::median(group.spread(|run| Some(run.p90_ms))))),
        ("p99, ms".to_owned(), Box::new(|group| figures::with_range(group.spread(figures::p99_ms)))),
    ];
    if skewed || with_tail {
        columns.push(("p99 ÷ healthy".to_owned(), Box::new(beside_healthy(figures::p99_ms))));
    }
    columns.push(("p99.9, ms".to_owned(), Box::new(|group| figures::median(group.spread(|run| Some(run.p999_ms))))));
    if with_tail {
        columns.push(("p99.9 ÷ healthy".to_owned(), Box::new(beside_healthy(figures::p999_ms))));
    }
    columns.push((
        labels::rate_name(scenario).to_owned(),
        Box::new(|group| figures::with_range(group.spread(figures::rps))),
    ));
    if skewed {
        columns.push(("calls/s ÷ healthy".to_owned(), Box::new(beside_healthy(figures::rps))));
    }
    let per = if scenario == Scenario::Handshakes { "handshake" } else { "call" };
    // Include runs in which no call succeeds, as in some chains: their calls cost CPU time too.
    let cpu = |group: &Group| figures::median(group.spread_of_all(figures::cpu_us));
    columns.push((format!("CPU per {per}, µs"), Box::new(cpu)));
    if results.targets(scenario).into_iter().any(TargetKind::is_mesh) && scenario.has_calls() {
        let cell = |group: &Group| figures::median(group.spread(figures::server_cpu_us));
        let servers = if results.experiment.workload.is_some() { "the servers" } else { "backends" };
        columns.push((format!("of it in front of {servers}, µs"), Box::new(cell)));
    }
    columns.push(("memory peak, MB".to_owned(), Box::new(|group| figures::median(group.spread(figures::peak_mb)))));
    // Omit the columns about a slow or failing server for a user's workload, because the lab does not make its servers
    // slow or failing.
    if results.experiment.workload.is_none() {
        columns.extend(of_scenario(scenario));
    }
    columns.extend(of_condition(results, scenario));
    columns.extend(of_load(scenario));
    columns.extend(of_cluster(results.experiment));
    columns.push(("marks".to_owned(), Box::new(|group| labels::marks(group.marks()))));
    columns
}

/// The columns for scenarios without calls.
fn of_bytes<'a>() -> Vec<Column<'a>> {
    let with_range = |name: &str, figure: Figure| -> Column<'a> {
        (name.to_owned(), Box::new(move |group: &Group| figures::with_range(group.spread(figure))))
    };
    vec![
        with_range("up, MB/s", figures::up_mb_per_s),
        with_range("down, MB/s", figures::down_mb_per_s),
        with_range("CPU per MB up, µs", figures::up_cpu_us_per_mb),
        with_range("CPU per MB down, µs", figures::down_cpu_us_per_mb),
        with_range("memory peak, MB", figures::peak_mb),
        ("marks".to_owned(), Box::new(|group| labels::marks(group.marks()))),
    ]
}

/// The columns that only some scenarios have.
fn of_scenario<'a>(scenario: Scenario) -> Vec<Column<'a>> {
    match scenario {
        Scenario::SlowPod | Scenario::Connections | Scenario::FastFail | Scenario::Tail => {
            let name = format!("to the {}, %", labels::pod(scenario));
            vec![(name, Box::new(|group: &Group| share(group.spread(figures::share_percent))))]
        }
        Scenario::Recover => {
            // Include runs in which no call succeeds: the server of such a run never gets its share again.
            let cell = |group: &Group| seconds(group.spread_of_all(figures::recovered_s));
            vec![("fair share again after, s".to_owned(), Box::new(cell))]
        }
        Scenario::Handshakes => {
            let cell = |group: &Group| figures::with_range(group.spread(figures::per_cpu_s));
            vec![("handshakes in a second of CPU".to_owned(), Box::new(cell))]
        }
        Scenario::Memory => vec![
            ("memory before, MB".to_owned(), Box::new(|group| figures::median(group.spread(figures::before_mb)))),
            ("memory after, MB".to_owned(), Box::new(|group| figures::with_range(group.spread(figures::after_mb)))),
        ],
        _ => Vec::new(),
    }
}

/// The columns about retries and hedges. The scenarios `retry-storm` and `tail` always have such columns. Another
/// scenario has them only if some of its runs had faulty servers, retries or hedges (`Condition::is_usual`).
fn of_condition<'a>(results: &Results, scenario: Scenario) -> Vec<Column<'a>> {
    match scenario {
        Scenario::RetryStorm => vec![
            range_of_all("success, %", figures::success_percent),
            range_of_all("calls at the servers ÷ calls", figures::attempts_per_call),
        ],
        _ if scenario == Scenario::Tail || results.conditions(scenario).iter().any(|it| !it.is_usual()) => {
            vec![range_of_all("further attempts, %", figures::further_attempts_percent)]
        }
        _ => Vec::new(),
    }
}

/// The median and the range of a figure that even a run without an answered call has.
pub(super) fn range_of_all<'a>(name: &str, figure: Figure) -> Column<'a> {
    (name.to_owned(), Box::new(move |group: &Group| figures::with_range(group.spread_of_all(figure))))
}

/// Formats the faulty backend's share of the calls. If the share varies by more than 5 percentage points between
/// repeats, adds the range. For example, a target that balances connections sends that backend all calls in some
/// repeats, and none in others.
fn share(spread: Option<Spread>) -> String {
    let wide = spread.is_some_and(|spread| spread.max - spread.min > 5.0);
    if wide { figures::with_range(spread) } else { figures::median(spread) }
}

fn seconds(spread: Option<Spread>) -> String {
    match spread {
        Some(spread) if spread.median.is_infinite() => "never".to_owned(),
        Some(spread) if spread.max.is_infinite() => format!("{}, not always", figures::median(Some(spread))),
        spread => figures::with_range(spread),
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
