//! The statistics of latencies, and the one rule for the failed calls that they hide.
//!
//! A failed call has no latency, so each statistic covers only the answered calls. A target that fails its slow calls
//! would look faster. The rule: a failed call counts as infinitely slow. A statistic can be compared only while it
//! would stay finite with the failed calls, and while at most 1 % of the calls failed.

use std::fmt;

use crate::chart::number::{short, significant};

use super::figures::{self, Figure};
use super::group::Group;
use super::ratio::{added, ratio};
use super::spread::Estimate;

/// A statistic of the latencies of a run's answered calls, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistic {
    P50,
    P99,
    P999,
    Mean,
    /// The latency of the slowest call.
    Worst,
}

impl Statistic {
    pub(crate) const ALL: [Self; 5] = [Self::P50, Self::P99, Self::P999, Self::Mean, Self::Worst];

    pub(crate) const fn figure(self) -> Figure {
        match self {
            Self::P50 => figures::p50_ms,
            Self::P99 => figures::p99_ms,
            Self::P999 => figures::p999_ms,
            Self::Mean => figures::mean_ms,
            Self::Worst => figures::max_ms,
        }
    }

    /// The largest fraction of failed calls with which the statistic can be compared.
    pub(crate) const fn failed_max(self) -> f64 {
        match self {
            // A p50 would stay finite with more failed calls, but it would then describe other calls.
            Self::P50 | Self::P99 => 0.01,
            Self::P999 => 0.001,
            Self::Mean | Self::Worst => 0.0,
        }
    }

    /// Returns the reason if the groups cannot be compared by this statistic: too many calls of a group failed. `None` if
    /// the groups can be compared.
    pub(super) fn why_not<'r, 'a: 'r>(self, groups: impl IntoIterator<Item = &'r Group<'a>>) -> Option<String> {
        let failed = groups.into_iter().map(Group::failed).fold(0.0, f64::max);
        let [percent, limit] = [significant(failed * 100.0), short(self.failed_max() * 100.0)];
        let why = format!("{percent} % of the calls failed, and a {self} can be compared with at most {limit} %");
        (failed > self.failed_max()).then_some(why)
    }

    /// The ratio that [`ratio()`] returns for this statistic; `None` if the statistic cannot be compared.
    pub(super) fn ratio(self, group: &Group, base: &Group) -> Option<Estimate> {
        if self.why_not([group, base]).is_some() { None } else { ratio(group, base, self.figure()) }
    }

    /// The difference that [`added()`] returns for this statistic; `None` if the statistic cannot be compared.
    pub(super) fn added(self, group: &Group, base: &Group) -> Option<Estimate> {
        if self.why_not([group, base]).is_some() { None } else { added(group, base, self.figure()) }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Mean => "mean",
            Self::Worst => "worst call",
        })
    }
}

#[cfg(test)]
#[path = "statistic_tests.rs"]
mod tests;
