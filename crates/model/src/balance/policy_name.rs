//! The names of the balancing policies in manifests, on the command line and in output.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The policy that chooses a call's endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Policy {
    /// Fewest calls in flight among the endpoints that are neither slow nor failing.
    #[default]
    Latency,
    /// Fewest calls in flight.
    LeastRequest,
    /// Each endpoint in turn.
    RoundRobin,
    /// A uniformly random endpoint.
    Random,
}

impl Policy {
    /// Every policy, in the order in which error messages list them.
    pub const ALL: [Self; 4] = [Self::Latency, Self::LeastRequest, Self::RoundRobin, Self::Random];

    /// The policy's name in manifests, on the command line and in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::LeastRequest => "least-request",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The error of parsing a text that is not the name of a [`Policy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a balancer; use latency, least-request, round-robin or random")]
pub struct UnknownPolicy;

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|policy| policy.name() == text).ok_or(UnknownPolicy)
    }
}

#[cfg(test)]
#[path = "policy_name_tests.rs"]
mod tests;
