//! What Leno is to reach, and whether the runs show it.
//!
//! A goal is reached when the whole interval of its figure keeps the limit, missed when none of it does, and
//! otherwise the repeats cannot tell.

use std::fmt;

use crate::chart::number::significant;
use crate::experiment::record::{Scenario, TargetKind};

use super::figures::{self, Figure};
use super::group::{Group, Load, Results};
use super::ratio::ratio;
use super::spread::{Estimate, LEAST_REPEATS};
use super::words;

/// A ratio to the fewest connections that is less sure than this could hide anything.
const FLAT_PLUS_MINUS: f64 = 0.2;

/// A goal and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Goal {
    pub(super) name: String,
    pub(super) load: Load,
    pub(super) verdict: Verdict,
    /// The figure that decided, how sure it is, and where.
    pub(super) figure: String,
}

/// Ascending by how much they decide among several figures of one goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Reached,
    CannotTell,
    Missed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reached => "reached",
            Self::CannotTell => "cannot tell",
            Self::Missed => "missed",
        })
    }
}

/// On which side of a limit a figure has to be, and what it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// A ratio.
    RatioAtMost(f64),
    /// A ratio.
    RatioAtLeast(f64),
    PercentAtMost(f64),
    SecondsAtMost(f64),
}

/// One figure of a goal: what it says, and where it was found.
struct Finding {
    verdict: Verdict,
    /// How far the figure is from keeping the limit; larger is worse.
    badness: f64,
    text: String,
}

/// The goals that `scenario` decides on, for Leno; none when it was not measured.
pub(super) fn goals(results: &Results, scenario: Scenario) -> Vec<Goal> {
    if scenario == Scenario::Connections {
        return flat_over_connections(results);
    }
    let mut goals = Vec::new();
    for load in results.loads(scenario) {
        let groups: Vec<&Group> =
            results.of(scenario).filter(|group| group.target == TargetKind::Leno && group.load == load).collect();
        let mut add = |name: &str, findings: Vec<Finding>| goals.extend(worst(name, load, findings));
        let skewed = || groups.iter().copied().filter(|group| group.skew_ms > 0);
        let each = |limit: Limit, estimate: fn(&Group) -> Option<Estimate>| -> Vec<Finding> {
            groups.iter().map(|group| limit.judge(estimate(group), group)).collect()
        };
        let beside_healthy = |limit: Limit, figure: Figure| -> Vec<Finding> {
            let judge = |group: &Group| limit.judge_beside(results.healthy(group), group, figure);
            skewed().map(judge).collect()
        };
        let share = |group: &Group| Some(group.spread(figures::share_percent)?.estimate());
        match scenario {
            Scenario::SlowPod => {
                add("p99 at every skew ≤ 1.10 × healthy", beside_healthy(Limit::RatioAtMost(1.1), figures::p99_ms));
                let shares = skewed().map(|group| Limit::PercentAtMost(0.5).judge(share(group), group));
                add("calls to the slow pod ≤ 0.5 %", shares.collect());
                add("calls/s at every skew ≥ 0.95 × healthy", beside_healthy(Limit::RatioAtLeast(0.95), figures::rps));
                add("sd of p50 over repeats ≤ 5 %", each(Limit::PercentAtMost(5.0), sd_percent));
            }
            Scenario::FastFail => add("calls to the failing pod ≤ 0.5 %", each(Limit::PercentAtMost(0.5), share)),
            Scenario::Recover => {
                let after = |group: &Group| Some(group.spread(figures::recovered_s)?.estimate());
                add("fair share again ≤ 5 s", each(Limit::SecondsAtMost(5.0), after));
            }
            Scenario::Memory => {
                let kept = |group: &Group| Some(group.spread(figures::kept)?.estimate());
                add("memory after ≤ 1.10 × before", each(Limit::RatioAtMost(1.1), kept));
            }
            Scenario::Connections => {}
        }
    }
    goals
}

fn sd_percent(group: &Group) -> Option<Estimate> {
    let sd = group.spread(figures::p50_ms)?.relative_sd()?;
    let percent = |(least, most)| (least * 100.0, most * 100.0);
    Some(Estimate { value: sd.value * 100.0, interval: sd.interval.map(percent), ..sd })
}

/// The goal of several figures: the worst decides.
fn worst(name: &str, load: Load, findings: Vec<Finding>) -> Option<Goal> {
    let order = |a: &Finding, b: &Finding| a.verdict.cmp(&b.verdict).then(a.badness.total_cmp(&b.badness));
    let Finding { verdict, text: figure, .. } = findings.into_iter().max_by(order)?;
    Some(Goal { name: name.to_owned(), load, verdict, figure })
}

impl Limit {
    /// Judges a group's figure over that of the same target's `healthy` group.
    fn judge_beside(self, healthy: Option<&Group>, group: &Group, figure: Figure) -> Finding {
        let Some(healthy) = healthy else {
            let text = "skew 0 was not measured".to_owned();
            return Finding { verdict: Verdict::CannotTell, badness: 0.0, text };
        };
        self.judge(ratio(group, healthy, figure), group)
    }

    fn judge(self, estimate: Option<Estimate>, group: &Group) -> Finding {
        let (verdict, badness) = estimate.map_or((Verdict::CannotTell, 0.0), |estimate| self.decide(&estimate));
        let mut text = estimate.map_or_else(|| "nothing was measured".to_owned(), |it| self.text(&it, verdict));
        if matches!(group.scenario, Scenario::SlowPod | Scenario::Recover) {
            text.push_str(&format!(", skew {} ms", group.skew_ms));
        }
        let marks = words::marks(group.marks());
        if !marks.is_empty() {
            text.push_str(&format!(" ({marks})"));
        }
        Finding { verdict, badness, text }
    }

    fn decide(self, estimate: &Estimate) -> (Verdict, f64) {
        let (limit, badness) = match self {
            Self::RatioAtMost(limit) | Self::PercentAtMost(limit) | Self::SecondsAtMost(limit) => {
                (limit, estimate.value)
            }
            Self::RatioAtLeast(limit) => (limit, -estimate.value),
        };
        // The better and the worse end.
        let (kept, broken) = match (self, estimate.interval) {
            (_, None) => return (Verdict::CannotTell, badness),
            (Self::RatioAtLeast(_), Some((least, most))) => (least >= limit, most < limit),
            (_, Some((least, most))) => (most <= limit, least > limit),
        };
        let verdict = match (kept, broken) {
            (true, _) => Verdict::Reached,
            (_, true) => Verdict::Missed,
            _ => Verdict::CannotTell,
        };
        (verdict, badness)
    }

    /// The figure in its unit, and how sure it is.
    fn text(self, estimate: &Estimate, verdict: Verdict) -> String {
        let unit = match self {
            Self::RatioAtMost(_) | Self::RatioAtLeast(_) => "×",
            Self::PercentAtMost(_) => "%",
            Self::SecondsAtMost(_) => "s",
        };
        sure_text(estimate, unit, verdict == Verdict::CannotTell)
    }
}

/// `1.04 × [0.98 – 1.12], ± 7 %`
fn sure_text(estimate: &Estimate, unit: &str, say_noise: bool) -> String {
    let bound = |value: f64| if value.is_infinite() { "never".to_owned() } else { significant(value) };
    let value = match estimate.value {
        value if value.is_infinite() => "never".to_owned(),
        value => format!("{} {unit}", significant(value)),
    };
    let Some((least, most)) = estimate.interval else {
        let plural = if estimate.repeats == 1 { "" } else { "s" };
        return format!("{value}; {} repeat{plural}, {LEAST_REPEATS} are needed", estimate.repeats);
    };
    let noise = estimate.plus_minus().filter(|_| say_noise).map(|part| format!(", ± {} %", significant(part * 100.0)));
    format!("{value} [{} – {}]{}", bound(least), bound(most), noise.unwrap_or_default())
}

/// More connections change neither p50 nor p99 by more than what the repeats differ anyway.
fn flat_over_connections(results: &Results) -> Vec<Goal> {
    let scenario = Scenario::Connections;
    let groups: Vec<&Group> = results.of(scenario).filter(|group| group.target == TargetKind::Leno).collect();
    let mut goals = Vec::new();
    for skew_ms in results.skews(scenario) {
        // Ascending by connections, as loads are.
        let mut of_skew = groups.iter().filter(|group| group.skew_ms == skew_ms);
        let Some(fewest) = of_skew.next() else { continue };
        let more: Vec<&&Group> = of_skew.filter(|group| group.load.rate_per_s == fewest.load.rate_per_s).collect();
        for (name, figure) in [("p50", figures::p50_ms as Figure), ("p99", figures::p99_ms)] {
            let findings = more.iter().map(|group| flat(group, fewest, figure)).collect();
            let name = format!("{name} the same with more connections, skew {skew_ms} ms");
            goals.extend(worst(&name, fewest.load, findings));
        }
    }
    goals
}

/// Whether a figure is within the spread that it has with the fewest connections.
fn flat(group: &Group, fewest: &Group, figure: Figure) -> Finding {
    let spreads = group.spread(figure).zip(fewest.spread(figure));
    let Some(((spread, base), ratio)) = spreads.zip(ratio(group, fewest, figure)) else {
        return Finding { verdict: Verdict::CannotTell, badness: 0.0, text: "nothing was measured".to_owned() };
    };
    let within = (base.min..=base.max).contains(&spread.median);
    let sure = ratio.plus_minus().is_some_and(|part| part <= FLAT_PLUS_MINUS);
    let verdict = match (within, ratio.may_be(1.0)) {
        (true, _) if sure => Verdict::Reached,
        (false, false) => Verdict::Missed,
        _ => Verdict::CannotTell,
    };
    let figure = sure_text(&ratio, "×", true);
    let (many, few) = (group.load.connections, fewest.load.connections);
    Finding { verdict, badness: (ratio.value - 1.0).abs(), text: format!("{figure}, {many} beside {few}") }
}

#[cfg(test)]
#[path = "goals_tests.rs"]
mod tests;
