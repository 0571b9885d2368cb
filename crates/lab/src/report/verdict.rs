//! The result of each target, as a figure and in one sentence.

use crate::chart::number::{grouped, significant};
use crate::experiment::record::{Scenario, TargetKind};

use super::figures::{self, Figure};
use super::group::{Group, Load, Results};
use super::labels;
use super::ratio::ratio;
use super::spread::{Estimate, Spread};

/// How a target copes with the scenario's fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// Larger is worse.
    pub(super) value: f64,
    /// The figure with its unit.
    pub(super) figure: String,
    /// The load and the basis of the figure.
    pub(super) detail: String,
    pub(super) certainty: Certainty,
}

/// The certainty of an outcome, given the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Certainty {
    /// The figure is certain.
    Told,
    /// The outcome cannot be distinguished from its reference: the result without a fault, or over the fewest
    /// connections. The value here is the uncertainty, as a fraction of 1.
    Same(f64),
    /// Undecided: too few repeats.
    TooFew,
}

/// If shares differ by more than this between repeats, they depend on luck: the target balances connections, not calls.
const ALL_OR_NOTHING_PERCENT: f64 = 50.0;

/// The name of the figure in [`outcome`].
pub(super) fn outcome_name(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::SlowPod => "tail under failure",
        Scenario::Connections => "tail with more connections",
        Scenario::FastFail => "calls that fail",
        Scenario::Recover => "recovery",
        Scenario::Memory => "memory kept",
        Scenario::Tcp => "CPU per MB, up",
        Scenario::Handshakes => "CPU per handshake",
        Scenario::Ladder => "tail at the highest rate",
        Scenario::Capacity => "sustained",
        Scenario::Crowd => "memory per connection",
    }
}

/// The worst result of `target` under `load`. In the scenario `connections`: the worst with any number of connections,
/// at the same rate.
pub(super) fn outcome(results: &Results, scenario: Scenario, load: Load, target: TargetKind) -> Option<Outcome> {
    let same_load = |group: &Group| match scenario {
        Scenario::Connections => group.load.rate_per_s == load.rate_per_s,
        _ => group.load == load,
    };
    let groups = results.of(scenario).filter(|group| group.target == target && same_load(group));
    let outcomes = groups.filter_map(|group| match scenario {
        Scenario::SlowPod => tail(results, group),
        Scenario::Connections => tail_beside_fewest(results, group),
        Scenario::FastFail => {
            let spread = group.spread(figures::share_percent)?;
            if spread.max - spread.min > ALL_OR_NOTHING_PERCENT {
                return Some(Outcome::share_by_luck(spread));
            }
            Some(Outcome::plain(spread, format!("{}\u{a0}%", significant(spread.median)), "of the calls reach it"))
        }
        Scenario::Recover => {
            let spread = group.spread(figures::recovered_s)?;
            let never = spread.median.is_infinite();
            let figure = if never { "never".to_owned() } else { format!("{}\u{a0}s", significant(spread.median)) };
            Some(Outcome::plain(spread, figure, "until its fair share"))
        }
        Scenario::Memory => {
            let spread = group.spread(figures::kept)?;
            Some(Outcome::plain(spread, format!("{}\u{a0}×", significant(spread.median)), "of the memory before"))
        }
        Scenario::Tcp => Outcome::of_cpu(group.spread(figures::up_cpu_us_per_mb)?),
        Scenario::Handshakes => Outcome::of_cpu(group.spread(figures::cpu_us)?),
        Scenario::Ladder => {
            let spread = group.spread(figures::p99_ms)?;
            Some(Outcome::plain(spread, format!("{}\u{a0}ms", significant(spread.median)), "p99"))
        }
        Scenario::Capacity => {
            let spread = group.spread(figures::sustained_per_s)?;
            Some(Outcome::plain(spread, format!("{}\u{a0}calls/s", significant(spread.median)), "errors below 0.1 %"))
        }
        Scenario::Crowd => {
            let spread = group.spread(figures::kb_per_connection)?;
            Some(Outcome::plain(spread, format!("{}\u{a0}KB", significant(spread.median)), "of all proxies together"))
        }
    });
    outcomes.max_by(|a, b| a.value.total_cmp(&b.value))
}

impl Outcome {
    fn plain(spread: Spread, figure: String, detail: &str) -> Self {
        let certainty = if spread.interval.is_some() { Certainty::Told } else { Certainty::TooFew };
        Self { value: spread.median, figure, detail: detail.to_owned(), certainty }
    }

    fn of_cpu(spread: Spread) -> Option<Self> {
        Some(Self::plain(spread, format!("{}\u{a0}µs", significant(spread.median)), "of all proxies together"))
    }

    /// The p99 of `group` relative to that of `base`.
    fn of_p99(base: &Group, group: &Group, place: &str) -> Option<Self> {
        let ratio = ratio(group, base, figures::p99_ms)?;
        let [from, to] = [base, group].map(|group| figures::median(group.spread(figures::p99_ms)));
        Some(Self {
            value: ratio.value,
            figure: format!("{}\u{a0}×", significant(ratio.value)),
            detail: format!("p99 {from} → {to}\u{a0}ms {place}"),
            certainty: match ratio.plus_minus() {
                None => Certainty::TooFew,
                Some(part) if ratio.may_be(1.0) => Certainty::Same(part),
                Some(_) => Certainty::Told,
            },
        })
    }

    /// Returns the outcome of the largest share, because the median would hide the unlucky connections: most are lucky.
    fn share_by_luck(spread: Spread) -> Self {
        let [least, most] = [spread.min, spread.max].map(significant);
        Self {
            value: spread.max,
            figure: format!("up to {most}\u{a0}%"),
            detail: format!("{least} to {most}\u{a0}%, by luck"),
            certainty: Certainty::Told,
        }
    }
}

/// p99 compared with the p99 while all backends are healthy.
fn tail(results: &Results, group: &Group) -> Option<Outcome> {
    let healthy = results.healthy(group).filter(|_| group.skew_ms > 0)?;
    if is_request_level(results, group.target) == Some(false) {
        return by_luck(healthy, group);
    }
    Outcome::of_p99(healthy, group, &format!("at {}\u{a0}ms", group.skew_ms))
}

/// p99 compared with the p99 over the fewest connections; `None` for targets that balance connections, because luck
/// decides to which backends a few connections lead.
fn tail_beside_fewest(results: &Results, group: &Group) -> Option<Outcome> {
    let fewest = results.fewest_connections(group).filter(|fewest| fewest.load != group.load)?;
    let share = fewest.spread(figures::share_percent)?;
    let by_luck = share.max - share.min > ALL_OR_NOTHING_PERCENT;
    let place = format!("over {} → {} connections", fewest.load.connections, group.load.connections);
    Outcome::of_p99(fewest, group, &place).filter(|_| !by_luck)
}

/// The p99 of a target that balances connections. The worst repeat counts, because the median would hide the unlucky
/// connections.
fn by_luck(healthy: &Group, group: &Group) -> Option<Outcome> {
    let (base, spread) = (healthy.spread(figures::p99_ms)?.median, group.spread(figures::p99_ms)?);
    let value = spread.max / base;
    let [from, to] = [spread.min, spread.max].map(significant);
    Some(Outcome {
        value,
        figure: format!("up to {}\u{a0}×", significant(value)),
        detail: format!("p99 {from} to {to}\u{a0}ms at {}\u{a0}ms, by luck", group.skew_ms),
        certainty: Certainty::Told,
    })
    .filter(|_| value.is_finite())
}

/// Whether a target distributes the calls of one connection over the backends, according to its runs. `None` if no run
/// can show it: only a run over one connection with healthy backends can.
pub(super) fn is_request_level(results: &Results, target: TargetKind) -> Option<bool> {
    let tells = |group: &&Group| {
        let well = matches!(group.scenario, Scenario::SlowPod | Scenario::Connections) && group.skew_ms == 0;
        group.target == target && group.load.connections == 1 && well
    };
    let group = results.groups.iter().find(tells)?;
    // With two or more backends, a share of all or nothing means that the target chooses by connection.
    let spread = |share: f64| (0.01..0.99).contains(&share);
    group.alive().next()?;
    Some(group.alive().all(|run| spread(run.slow_share)))
}

/// The load for the headline: a closed loop before an open one, few connections before many. In the scenario `ladder`:
/// the highest rate.
pub(super) fn main_load(results: &Results, scenario: Scenario) -> Option<Load> {
    let mut loads = results.loads(scenario).into_iter();
    if scenario == Scenario::Ladder { loads.next_back() } else { loads.next() }
}

/// The result of the experiment in one sentence.
pub(super) fn sentence(results: &Results, scenario: Scenario) -> String {
    let outcomes: Vec<(TargetKind, Outcome)> = main_load(results, scenario).map_or_else(Vec::new, |load| {
        let of = |target| Some((target, outcome(results, scenario, load, target)?));
        let mut outcomes: Vec<_> = results.targets(scenario).into_iter().filter_map(of).collect();
        outcomes.sort_by_key(|(target, _)| !target.is_leno());
        outcomes
    });
    let Some(((first, head), others)) = outcomes.split_first() else {
        return format!("{}: nothing was measured that could be compared.", labels::scenario(scenario));
    };
    let (backends, name, figure) = (results.experiment.backends, first.name(), &head.figure);
    let most = results.skews(scenario).into_iter().max().unwrap_or_default();
    let slow = format!("one of {backends} pods up to {most}\u{a0}ms slow");
    let (tail, base) = match scenario {
        Scenario::Connections => {
            let connections = connections(results);
            (format!("With {connections} connections, and {slow}, {name}’s p99"), "that over the fewest")
        }
        _ => (format!("With {slow}, {name}’s p99"), "its healthy one"),
    };
    let head = match scenario {
        Scenario::SlowPod | Scenario::Connections => match head.certainty {
            Certainty::Told => format!("{tail} is {figure} {base}"),
            Certainty::TooFew => format!("{tail} is {figure} {base}, with too few repeats to be sure"),
            Certainty::Same(part) => {
                let percent = significant(part * 100.0);
                format!("{tail} cannot be told from {base} ({figure}, ±\u{a0}{percent}\u{a0}%)")
            }
        },
        Scenario::FastFail => format!("With one of {backends} pods failing, {figure} of {name}’s calls reach it"),
        Scenario::Recover => format!("A pod that is well again has its fair share of {name}’s calls after {figure}"),
        Scenario::Tcp => format!("{name} takes {figure} of CPU for each MB"),
        Scenario::Handshakes => format!("{name} takes {figure} of CPU for each handshake"),
        Scenario::Memory => format!("After the burst, {name} keeps {figure} its memory of before"),
        Scenario::Ladder => {
            let rate = main_load(results, scenario).and_then(|load| load.rate_per_s).unwrap_or_default();
            format!("At {} calls/s, {name}’s p99 is {figure}", grouped(rate.into()))
        }
        Scenario::Capacity => format!("With fewer than 0.1 % errors, the limit of {name} is {figure}"),
        Scenario::Crowd => format!("The proxies of {name} take {figure} of memory for each connection"),
    };
    let others = others.iter().map(|(target, outcome)| format!("{}’s {}", target.name(), outcome.figure));
    let others = others.collect::<Vec<_>>().join(", ");
    if others.is_empty() { format!("{head}.") } else { format!("{head}; {others}.") }
}

/// The range of the numbers of connections, as `1 to 8`.
fn connections(results: &Results) -> String {
    let loads = results.loads(Scenario::Connections);
    let counts = || loads.iter().map(|load| load.connections);
    let (least, most) = (counts().min().unwrap_or_default(), counts().max().unwrap_or_default());
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// Leno's target to compare with `other`: the mesh for targets with TLS, otherwise the single proxy.
fn own_beside(other: TargetKind) -> TargetKind {
    if other.has_tls() { TargetKind::LenoMesh } else { TargetKind::Leno }
}

/// Leno's figure relative to another target's in the same repeats: `(what, ratio)`.
pub(super) fn beside(
    results: &Results,
    scenario: Scenario,
    other: TargetKind,
) -> Vec<(&'static str, Option<Estimate>)> {
    let skews = results.skews(scenario);
    let (Some(load), Some(&healthy), Some(&worst)) = (main_load(results, scenario), skews.first(), skews.last()) else {
        return Vec::new();
    };
    let over = |skew_ms, figure: Figure| {
        let leno = results.find(scenario, load, skew_ms, own_beside(other))?;
        ratio(leno, results.find(scenario, load, skew_ms, other)?, figure)
    };
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
        ("p99, least skew", over(healthy, figures::p99_ms)),
        ("p99, greatest skew", over(worst, figures::p99_ms)),
        ("calls/s, least skew", over(healthy, figures::rps)),
        ("CPU per call, least skew", over(healthy, figures::cpu_us)),
        ("memory peak, least skew", over(healthy, figures::peak_mb)),
    ]
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
