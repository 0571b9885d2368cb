//! Writes summary.md: every figure in words, and whether the figures meet their goals.

use std::fmt::Write as _;

use super::plan::Plan;
use super::record::{Changes, Load, Record};
use crate::report::Verdict;
use crate::units::mb;

const SMALL_MB_MAX: f64 = 25.0;
const LARGE_MB_MAX: f64 = 100.0;
const P99_MS_MAX: f64 = 100.0;
const CHANGES_PER_S_MIN: f64 = 50.0;
/// Smallest measured rate that meets the goal, as a fraction of the fixed rate. The measured time includes the duration
/// of the last change, so the measured rate is slightly lower than the fixed rate.
const RATE_TOLERANCE: f64 = 0.99;
const PROXY_MB_MORE_MAX: f64 = 1.0;
/// The mesh to which the goals apply.
const GOAL: Plan = Plan { services: 1_000, endpoints: 10, proxies: 1_000, subscriptions: 1 };

/// A goal, the measured figure, and whether the figure meets it.
#[derive(Debug)]
struct Finding {
    goal: String,
    figure: String,
    verdict: Verdict,
}

/// The whole report in Markdown, which is readable on a terminal too.
pub(super) fn text(records: &[Record]) -> String {
    let mut text = String::from("| goal | measured | |\n|---|---|---|\n");
    for Finding { goal, figure, verdict } in findings(records) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {goal} | {figure} | {verdict} |");
    }
    for record in records {
        if let Record::Changes(changes) = record {
            let _ = write!(text, "\n{}", details(changes));
        }
    }
    text
}

/// Returns the line that describes a measurement.
pub(super) fn line(record: &Record) -> String {
    match record {
        Record::ControlMemory { mesh, memory } => {
            format!(
                "leno-control with {}: {:.1} MB, {:.1} MB at most",
                size(mesh),
                mb(memory.resident_bytes()),
                mb(memory.peak_bytes())
            )
        }
        Record::ProxyMemory { mesh, memory } => {
            format!("leno-proxy that calls 2 of {} Services: {:.2} MB", mesh.services, mb(memory.resident_bytes()))
        }
        Record::Changes(changes) => {
            let Changes { since_sent, lost, coalesced, .. } = &**changes;
            format!(
                "{}: p50 {:.1} ms, p99 {:.1} ms, {coalesced} coalesced, {lost} lost",
                of(changes.load),
                since_sent.p50_ms,
                since_sent.p99_ms
            )
        }
    }
}

fn findings(records: &[Record]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = records.iter().filter_map(finding).collect();
    findings.extend(proxies_compared(records));
    findings
}

fn finding(record: &Record) -> Option<Finding> {
    Some(match record {
        Record::ControlMemory { mesh, memory } => {
            let is_large = mesh.services > mesh.small().services;
            let most = if is_large { LARGE_MB_MAX } else { SMALL_MB_MAX };
            let resident = mb(memory.resident_bytes());
            Finding {
                goal: format!("leno-control with {}: at most {most} MB", size(mesh)),
                figure: format!("{resident:.1} MB ({:.1} at most)", mb(memory.peak_bytes())),
                verdict: verdict(resident <= most, !is_large || is_of_goal(mesh), false),
            }
        }
        Record::ProxyMemory { .. } => return None,
        Record::Changes(changes) => {
            let p99_ms = changes.since_sent.p99_ms;
            let is_fast = p99_ms <= P99_MS_MAX && changes.lost == 0;
            let times = format!(
                "p50 {:.1} ms, p99 {p99_ms:.1} ms, {} of {} lost",
                changes.since_sent.p50_ms, changes.lost, changes.deliveries
            );
            let (goal, figure, is_kept, is_asked) = match changes.load {
                Load::Single => {
                    let goal =
                        format!("a change reaches {} proxies: p99 at most {P99_MS_MAX} ms", changes.mesh.proxies);
                    (goal, times, is_fast, true)
                }
                Load::Steady { per_s } => {
                    let rate = changes.rate_per_s();
                    let goal = format!("{per_s} changes/s, none lost, p99 at most {P99_MS_MAX} ms");
                    let is_kept = is_fast && rate >= f64::from(per_s) * RATE_TOLERANCE;
                    (goal, format!("{rate:.1} changes/s, {times}"), is_kept, f64::from(per_s) >= CHANGES_PER_S_MIN)
                }
            };
            let verdict = verdict(is_kept, is_asked && is_of_goal(&changes.mesh), changes.at_ceiling);
            Finding { goal, figure, verdict }
        }
    })
}

/// Compares the memory of a proxy in a small mesh and in a large one.
fn proxies_compared(records: &[Record]) -> Option<Finding> {
    let mut proxies = records.iter().filter_map(|record| match record {
        Record::ProxyMemory { mesh, memory } => Some((mesh, mb(memory.resident_bytes()))),
        _ => None,
    });
    let ((small, less), (large, more)) = (proxies.next()?, proxies.next()?);
    Some(Finding {
        goal: format!(
            "leno-proxy that calls 2 of {} Services: at most {PROXY_MB_MORE_MAX} MB more than of {}",
            large.services, small.services
        ),
        figure: format!("{more:.2} MB, {less:.2} MB: {:+.2} MB", more - less),
        verdict: verdict(more - less <= PROXY_MB_MORE_MAX, large.services >= GOAL.services, false),
    })
}

/// Returns the verdict on a goal.
///
/// There are two cases of [`Verdict::CannotTell`]: the figure is good, but the mesh is smaller than [`GOAL`]; or the
/// figure is bad, but the lab was near its own capacity.
fn verdict(is_kept: bool, is_large_enough: bool, at_ceiling: bool) -> Verdict {
    match (is_kept, is_large_enough) {
        (true, true) => Verdict::Reached,
        (false, _) if !at_ceiling => Verdict::Missed,
        _ => Verdict::CannotTell,
    }
}

fn is_of_goal(mesh: &Plan) -> bool {
    let endpoints = |mesh: &Plan| u64::from(mesh.services) * u64::from(mesh.endpoints);
    mesh.services >= GOAL.services && mesh.proxies >= GOAL.proxies && endpoints(mesh) >= endpoints(&GOAL)
}

/// Returns a text with all figures of one load of changes.
fn details(changes: &Changes) -> String {
    let Changes { since_sent, since_acknowledged, .. } = changes;
    let mut text = format!(
        "{}: {} changes in {:.1} s, {} deliveries ({} by a newer change of the same Service), {} lost, {} sent late\n\n",
        of(changes.load),
        changes.changes,
        changes.took_s,
        changes.deliveries,
        changes.coalesced,
        changes.lost,
        changes.late,
    );
    let _ = writeln!(
        text,
        "| until a proxy has it | p50, ms | p90, ms | p99, ms | p99.9, ms | longest, ms |\n|---|---|---|---|---|---|"
    );
    for (from, latency) in
        [("from before it is written", since_sent), ("from the API server's answer", since_acknowledged)]
    {
        let _ = writeln!(
            text,
            "| {from} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.p999_ms, latency.max_ms
        );
    }
    let _ = writeln!(
        text,
        "\nCPUs: leno-control {:.2} ({:.1} ms a change), the lab {:.2} ({:.1} ms a change), all others with the API server \
         and etcd {:.2}{}. leno-control's memory at the end: {:.1} MB ({:.1} at most).",
        changes.control_cpus,
        changes.control_cpu_ms_per_change,
        changes.lab_cpus,
        changes.lab_cpu_ms_per_change,
        changes.other_cpus,
        if changes.at_ceiling { "; the lab or the machine was near its ceiling" } else { "" },
        mb(changes.memory.resident_bytes()),
        mb(changes.memory.peak_bytes()),
    );
    text
}

fn of(load: Load) -> String {
    match load {
        Load::Single => "one change at a time, of a Service that all proxies subscribe to".to_owned(),
        Load::Steady { per_s } => format!("{per_s} changes/s of random Services"),
    }
}

fn size(mesh: &Plan) -> String {
    let endpoints = u64::from(mesh.services) * u64::from(mesh.endpoints);
    format!("{} Services, {endpoints} endpoints, {} proxies", mesh.services, mesh.proxies)
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
