//! What the balancers are put through.

mod slow_pod;

use super::Options;
use super::row::Row;

/// A set of cases, each with its goals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// One endpoint is slower than the others, and then well again
    SlowPod,
    /// All of them
    All,
}

impl Scenario {
    const EACH: [Self; 1] = [Self::SlowPod];

    /// Those that are meant, each once.
    pub(super) fn expand(scenarios: &[Self]) -> Vec<Self> {
        Self::EACH
            .into_iter()
            .filter(|each| scenarios.iter().any(|scenario| scenario == each || *scenario == Self::All))
            .collect()
    }

    /// The name that users write.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SlowPod => "slow-pod",
            Self::All => "all",
        }
    }

    pub(super) fn run(self, options: &Options) -> Vec<Row> {
        match self {
            Self::SlowPod => slow_pod::run(options),
            Self::All => Vec::new(),
        }
    }
}
