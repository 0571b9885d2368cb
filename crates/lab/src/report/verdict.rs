//! The result of an experiment in one sentence, and Leno's figures compared with the figures of other targets.

use crate::chart::number::{grouped, short, significant};
use crate::experiment::record::{Scenario, TargetKind};

use super::figures::{self, Figure};
use super::group::{Group, Load, Results};
use super::labels;
use super::outcome::{Certainty, Outcome, compared, worst};
use super::ratio::ratio;
use super::spread::Estimate;
use super::statistic::Statistic;

/// Chooses the load for the headline: the highest rate in the scenarios `ladder` and `retry-storm`. In the other
/// scenarios, a closed loop if there is one, otherwise the lowest rate; among several such loads, the fewest
/// connections.
pub(super) fn main_load(results: &Results, scenario: Scenario) -> Option<Load> {
    let mut loads = results.loads(scenario).into_iter();
    // In `retry-storm`, the chains of proxies run at the lowest rate, and the failing servers at the highest rate. The
    // headline describes the failing servers.
    if matches!(scenario, Scenario::Ladder | Scenario::RetryStorm) { loads.next_back() } else { loads.next() }
}

/// The result of the experiment in one sentence. If the result is a statistic of the latencies, a second sentence names
/// the targets that are omitted because too many of their calls failed.
pub(super) fn sentence(results: &Results, scenario: Scenario) -> String {
    let (load, statistic) = (main_load(results, scenario), statistic(scenario));
    // Failed calls make only a statistic of the latencies misleading, because it covers only the answered calls.
    let failed = |target| match (load, statistic) {
        (Some(load), Some(_)) => compared(results, scenario, load, target).map(Group::failed).fold(0.0, f64::max),
        _ => 0.0,
    };
    let can_be_compared = |target: &TargetKind| statistic.is_none_or(|it| failed(*target) <= it.failed_max());
    let (targets, failing): (Vec<TargetKind>, Vec<TargetKind>) =
        results.targets(scenario).into_iter().partition(can_be_compared);
    let left_out = left_out(statistic, &failing.into_iter().map(TargetKind::name).collect::<Vec<_>>());
    let outcomes: Vec<(&Group, Outcome)> = load.map_or_else(Vec::new, |load| {
        let of = |target| worst(results, scenario, load, target);
        let mut outcomes: Vec<_> = targets.into_iter().filter_map(of).collect();
        outcomes.sort_by_key(|(group, _)| !group.target.is_leno());
        outcomes
    });
    let Some(((first, head), others)) = outcomes.split_first() else {
        return format!("{}: nothing was measured that could be compared.{left_out}", labels::scenario(scenario));
    };
    let answered = |group: &Group| if failed(group.target) > 0.0 { " of the answered calls" } else { "" };
    let (backends, name, figure) = (results.experiment.backends, first.target.name(), &head.figure);
    let p99 = format!("p99{}", answered(first));
    let skews = results.skews(scenario);
    let most = skews.last().copied().unwrap_or_default();
    // State the skew of each target, because the worst skew may differ between targets.
    let at = |skew_ms: u32| match scenario {
        Scenario::Capacity if most > 0 => format!(" at a skew of {skew_ms}\u{a0}ms"),
        _ => String::new(),
    };
    let slow = format!("one of {backends} pods up to {most}\u{a0}ms slow");
    let (tail, base) = match scenario {
        Scenario::Methods => (format!("With {slow}, the {p99} of the fast method through {name}"), "the healthy one"),
        Scenario::Connections => {
            let connections = connections(results);
            let slow = if results.experiment.workload.is_some() { String::new() } else { format!(" and {slow},") };
            (format!("With {connections} connections,{slow} {name}’s {p99}"), "that over the fewest")
        }
        _ => (format!("With {slow}, {name}’s {p99}"), "its healthy one"),
    };
    let head = match scenario {
        Scenario::SlowPod | Scenario::Connections | Scenario::Methods => match head.certainty {
            Certainty::Told => format!("{tail} is {figure} {base}"),
            Certainty::TooFew => format!("{tail} is {figure} {base}, with too few repeats to be sure"),
            Certainty::Same(part) => {
                let percent = significant(part * 100.0);
                format!("{tail} cannot be told from {base} ({figure}, ±\u{a0}{percent}\u{a0}%)")
            }
        },
        Scenario::FastFail => format!("With one of {backends} pods failing, {figure} of {name}’s calls reach it"),
        Scenario::Recover if head.value.is_infinite() => {
            format!("A pod that is well again never has its fair share of {name}’s calls")
        }
        Scenario::Recover => format!("A pod that is well again has its fair share of {name}’s calls after {figure}"),
        Scenario::Tcp => format!("{name} takes {figure} of CPU for each MB"),
        Scenario::Handshakes => format!("{name} takes {figure} of CPU for each handshake"),
        Scenario::Memory => format!("After the burst, {name} keeps {figure} its memory of before"),
        Scenario::Ladder | Scenario::Graph => {
            let rate = load.and_then(|load| load.rate_per_s).unwrap_or_default();
            format!("At {} calls/s, {name}’s {p99} is {figure}", grouped(rate.into()))
        }
        Scenario::Capacity if !has_found_a_rate(first) => {
            format!(
                "No rate through {name} kept the limit, not even the lowest that the search tried{}",
                at(first.skew_ms)
            )
        }
        Scenario::Capacity if head.value == 0.0 => {
            format!("No rate through {name} was confirmed with fewer than 0.1 % errors{}", at(first.skew_ms))
        }
        Scenario::Capacity => {
            format!("With fewer than 0.1 % errors, the limit of {name} is {figure}{}", at(first.skew_ms))
        }
        Scenario::Crowd => format!("The proxies of {name} take {figure} of memory for each connection"),
        Scenario::Footprint => format!("Under the load, the proxies of {name} take {figure} of memory"),
        Scenario::Steady if head.value.is_infinite() => {
            format!("The latency through {name} does not become steady within the run")
        }
        Scenario::Steady => format!("The latency through {name} is steady {figure} after the start"),
        Scenario::Rollout => format!("While backends restart gracefully, {name} loses {figure} of the calls"),
        Scenario::RetryStorm => {
            format!("With servers that fail at random, and with retries, {figure} of {name}’s calls fail")
        }
        Scenario::Tail => {
            let answered = answered(first);
            format!(
                "With servers that are slow at random, {name}’s hedged p99.9{answered} is at most {figure} its healthy \
                 one"
            )
        }
        Scenario::Streams => format!("The busiest backend behind {name} gets {figure} the messages of the mean one"),
    };
    let others = others.iter().map(|(group, outcome)| {
        format!("{}’s {}{}{}", group.target.name(), outcome.figure, answered(group), at(group.skew_ms))
    });
    let others = others.collect::<Vec<_>>().join(", ");
    if others.is_empty() { format!("{head}.{left_out}") } else { format!("{head}; {others}.{left_out}") }
}

/// The statistic of the latencies that the sentence compares; `None` if it compares another figure.
fn statistic(scenario: Scenario) -> Option<Statistic> {
    match scenario {
        Scenario::SlowPod | Scenario::Connections | Scenario::Methods | Scenario::Ladder | Scenario::Graph => {
            Some(Statistic::P99)
        }
        Scenario::Tail => Some(Statistic::P999),
        _ => None,
    }
}

/// A sentence to append to a result with this statistic: it names the systems that are omitted because too many of
/// their calls failed. Empty if `names` is empty.
pub(crate) fn left_out(statistic: Option<Statistic>, names: &[&str]) -> String {
    let Some(statistic) = statistic.filter(|_| !names.is_empty()) else { return String::new() };
    let percent = short(statistic.failed_max() * 100.0);
    format!(" Left out, because more than {percent}\u{a0}% of the calls failed: {}.", names.join(", "))
}

/// Whether the search of the scenario `capacity` found a rate in at least one repeat.
fn has_found_a_rate(group: &Group) -> bool {
    group.runs.iter().any(|run| figures::found_per_s(run) > Some(0.0))
}

/// The smallest and the largest number of connections, in the form `1 to 8`.
fn connections(results: &Results) -> String {
    let loads = results.loads(Scenario::Connections);
    let counts = || loads.iter().map(|load| load.connections);
    let (least, most) = (counts().min().unwrap_or_default(), counts().max().unwrap_or_default());
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// The Leno target that is compared with `other`. It is the mesh if `other` uses TLS, and for all targets in a cluster.
/// Otherwise it is the single proxy.
fn own_beside(results: &Results, other: TargetKind) -> TargetKind {
    let is_mesh = other.has_tls() || results.experiment.cluster.is_some();
    if is_mesh { TargetKind::LenoMesh } else { TargetKind::Leno }
}

/// Leno's figures divided by another target's figures in the same repeats, as pairs of a figure's name and its ratio.
/// The ratio of a p99 is `None` if too many calls failed.
pub(super) fn beside(
    results: &Results,
    scenario: Scenario,
    other: TargetKind,
) -> Vec<(&'static str, Option<Estimate>)> {
    let skews = results.skews(scenario);
    let (Some(load), Some(&healthy), Some(&worst)) = (main_load(results, scenario), skews.first(), skews.last()) else {
        return Vec::new();
    };
    let both = |skew_ms| {
        let leno = results.find(scenario, load, skew_ms, own_beside(results, other))?;
        Some((leno, results.find(scenario, load, skew_ms, other)?))
    };
    let over = |skew_ms, figure: Figure| both(skew_ms).and_then(|(leno, other)| ratio(leno, other, figure));
    let p99 = |skew_ms| both(skew_ms).and_then(|(leno, other)| Statistic::P99.ratio(leno, other));
    if scenario == Scenario::Tcp {
        return vec![
            ("MB/s up", over(healthy, figures::up_mb_per_s)),
            ("MB/s down", over(healthy, figures::down_mb_per_s)),
            ("CPU per MB up", over(healthy, figures::up_cpu_us_per_mb)),
            ("CPU per MB down", over(healthy, figures::down_cpu_us_per_mb)),
            ("memory peak", over(healthy, figures::peak_mb)),
        ];
    }
    vec![
        ("p99, least skew", p99(healthy)),
        ("p99, greatest skew", p99(worst)),
        ("calls/s, least skew", over(healthy, figures::rps)),
        ("CPU per call, least skew", over(healthy, figures::cpu_us)),
        ("memory peak, least skew", over(healthy, figures::peak_mb)),
    ]
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
