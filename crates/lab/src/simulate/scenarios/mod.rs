//! The scenarios of the simulation.

mod equal;
mod fast_fail;
mod herd;
mod low_rate;
mod methods;
mod newcomer;
mod overload;
mod recover;
mod slow_pod;
mod streams;
mod trial;

use clap::ValueEnum;

use super::Options;
use super::row::Row;

/// A scenario: a set of cases, each with its goals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// One endpoint is slower than the others, and then recovers
    SlowPod,
    /// Endpoints that fail at once
    FastFail,
    /// One endpoint was slow for a long time, and has recovered
    Recover,
    /// An endpoint joins busy endpoints
    Newcomer,
    /// The healthy endpoints are at capacity
    Overload,
    /// Fast and slow methods on one service
    Methods,
    /// A hundred proxies share a hundred endpoints
    Herd,
    /// Streams that stay open for a long time
    Streams,
    /// All endpoints are equal
    Equal,
    /// Few calls, one slow endpoint: the cost of probing
    LowRate,
    /// All scenarios
    All,
}

impl Scenario {
    /// The scenarios that the user selected, without duplicates.
    pub(super) fn expand(scenarios: &[Self]) -> Vec<Self> {
        let meant = |each: &Self| *each != Self::All && (scenarios.contains(each) || scenarios.contains(&Self::All));
        Self::value_variants().iter().copied().filter(meant).collect()
    }

    /// The scenario's name on the command line and in the output.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(super) fn run(self, options: &Options) -> Vec<Row> {
        match self {
            Self::SlowPod => slow_pod::run(options),
            Self::FastFail => fast_fail::run(options),
            Self::Recover => recover::run(options),
            Self::Newcomer => newcomer::run(options),
            Self::Overload => overload::run(options),
            Self::Methods => methods::run(options),
            Self::Herd => herd::run(options),
            Self::Streams => streams::run(options),
            Self::Equal => equal::run(options),
            Self::LowRate => low_rate::run(options),
            Self::All => Self::expand(&[self]).into_iter().flat_map(|each| each.run(options)).collect(),
        }
    }
}

#[cfg(test)]
#[path = "goals_tests.rs"]
mod tests;
