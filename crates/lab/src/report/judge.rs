//! Compares a figure with a limit, and describes the result.
//!
//! If the figure's whole interval keeps the limit, the goal is reached. If no part of the interval keeps the limit, the
//! goal is missed. Otherwise the repeats cannot decide.

use std::fmt;

use crate::chart::number::significant;
use crate::experiment::record::Scenario;

use super::figures::Figure;
use super::group::Group;
use super::labels;
use super::ratio::ratio;
use super::spread::{Estimate, LEAST_REPEATS};
use super::statistic::Statistic;

/// The result of a goal. If a goal has several figures, the verdict that is listed last here decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
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

/// An upper or lower limit for a figure. The variant determines the direction and the unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    RatioAtMost(f64),
    RatioAtLeast(f64),
    PercentAtMost(f64),
    SecondsAtMost(f64),
    MicrosecondsAtMost(f64),
    MegabytesAtMost(f64),
    /// Events per second.
    PerSecondAtLeast(f64),
}

/// A figure of a goal, and the result of comparing it with the goal's limit.
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    /// A number that is larger for a worse figure. It can be compared only with the badness of the same goal's other
    /// figures.
    pub(super) badness: f64,
    pub(super) text: String,
}

impl Finding {
    /// A finding without a figure. It is worse than every figure with the same verdict. `text` is the reason.
    pub(super) fn unknown(text: String) -> Self {
        Self { verdict: Verdict::CannotTell, badness: f64::INFINITY, text }
    }
}

impl Limit {
    /// Compares a group's figure with the same figure of the target's `healthy` group.
    pub(super) fn judge_beside(self, healthy: Option<&Group>, group: &Group, figure: Figure) -> Finding {
        let Some(healthy) = healthy else {
            return Finding::unknown("skew 0 was not measured".to_owned());
        };
        self.judge(ratio(group, healthy, figure), group)
    }

    /// Compares a statistic of a group's latencies with the same statistic of the `healthy` group. Cannot tell if too
    /// many calls of one of the groups failed.
    pub(super) fn judge_latency(self, healthy: Option<&Group>, group: &Group, statistic: Statistic) -> Finding {
        let judge = || self.judge_beside(healthy, group, statistic.figure());
        statistic.why_not(healthy.into_iter().chain([group])).map_or_else(judge, Finding::unknown)
    }

    pub(super) fn judge(self, estimate: Option<Estimate>, group: &Group) -> Finding {
        let (verdict, badness) = estimate.map_or((Verdict::CannotTell, 0.0), |estimate| self.decide(&estimate));
        let mut text = estimate.map_or_else(|| "nothing was measured".to_owned(), |it| self.text(&it, verdict));
        if matches!(group.scenario, Scenario::SlowPod | Scenario::Recover) {
            text.push_str(&format!(", skew {} ms", group.skew_ms));
        }
        if group.scenario.has_conditions() {
            text.push_str(&format!(", {}", group.condition.policy));
        }
        let marks = labels::marks(group.marks());
        if !marks.is_empty() {
            text.push_str(&format!(" ({marks})"));
        }
        Finding { verdict, badness, text }
    }

    fn decide(self, estimate: &Estimate) -> (Verdict, f64) {
        let (limit, badness) = match self {
            Self::RatioAtMost(limit)
            | Self::PercentAtMost(limit)
            | Self::SecondsAtMost(limit)
            | Self::MicrosecondsAtMost(limit)
            | Self::MegabytesAtMost(limit) => (limit, estimate.value),
            Self::RatioAtLeast(limit) | Self::PerSecondAtLeast(limit) => (limit, -estimate.value),
        };
        // `kept`: the worse end of the interval keeps the limit. `broken`: even the better end breaks the limit.
        let (kept, broken) = match (self, estimate.interval) {
            (_, None) => return (Verdict::CannotTell, badness),
            (Self::RatioAtLeast(_) | Self::PerSecondAtLeast(_), Some((least, most))) => (least >= limit, most < limit),
            (_, Some((least, most))) => (most <= limit, least > limit),
        };
        let verdict = match (kept, broken) {
            (true, _) => Verdict::Reached,
            (_, true) => Verdict::Missed,
            _ => Verdict::CannotTell,
        };
        (verdict, badness)
    }

    /// Formats the figure in its unit, with its uncertainty.
    fn text(self, estimate: &Estimate, verdict: Verdict) -> String {
        let unit = match self {
            Self::RatioAtMost(_) | Self::RatioAtLeast(_) => "×",
            Self::PercentAtMost(_) => "%",
            Self::SecondsAtMost(_) => "s",
            Self::MicrosecondsAtMost(_) => "µs",
            Self::MegabytesAtMost(_) => "MB",
            Self::PerSecondAtLeast(_) => "/s",
        };
        sure_text(estimate, unit, verdict == Verdict::CannotTell)
    }
}

/// Formats a figure with its interval and, if `say_noise`, its noise: `1.04 × [0.98 – 1.12], ± 7 %`.
pub(super) fn sure_text(estimate: &Estimate, unit: &str, say_noise: bool) -> String {
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
