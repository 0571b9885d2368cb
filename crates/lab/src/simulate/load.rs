//! The load of a simulation: the pattern of its calls, and the methods that are called.

use std::fmt;
use std::str::FromStr;

use super::service_time::ServiceTime;

/// The pattern of calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Load {
    /// `callers` callers, each of which makes one call at a time.
    Closed { callers: usize },
    /// Calls arrive at random (Poisson), whether or not earlier calls have ended.
    Open { calls_per_s: f64 },
}

/// A method of the simulated service.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Method {
    /// The method's weight: calls are distributed over the methods in proportion to their weights.
    pub(super) weight: f64,
    pub(super) service: ServiceTime,
    /// Mean time that a stream stays open after its first answer; `None` for unary calls.
    pub(super) open_s: Option<f64>,
}

impl Method {
    /// Creates a method for a service that has no other methods.
    pub(super) fn only(service: ServiceTime) -> Self {
        Self { weight: 1.0, service, open_s: None }
    }
}

/// A load as the user writes it. A rate may be relative to the capacity of the healthy servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadSpec {
    /// `closed:200`: 200 callers, each with one call at a time.
    Closed {
        /// Callers, at least 1.
        callers: usize,
    },
    /// `open:60%`: calls arrive at random at this fraction of the healthy servers' capacity.
    Share {
        /// Percentage, above 0 and below 100.
        percent: f64,
    },
    /// `open:2000/s`: calls arrive at random at this rate.
    Rate {
        /// Rate, above 0.
        calls_per_s: f64,
    },
}

impl LoadSpec {
    /// Converts this specification into a load. The healthy servers can process `capacity_per_s` calls per second.
    pub(super) fn load(self, capacity_per_s: f64) -> Load {
        match self {
            Self::Closed { callers } => Load::Closed { callers },
            Self::Share { percent } => Load::Open { calls_per_s: capacity_per_s * percent / 100.0 },
            Self::Rate { calls_per_s } => Load::Open { calls_per_s },
        }
    }

    /// Number of workers of each server. In a closed loop, the healthy servers have in total at least a quarter more
    /// workers than there are callers. In an open loop, each server has only 8 workers, so that queues form.
    pub(super) fn workers(self, healthy: usize) -> usize {
        match self {
            Self::Closed { callers } => (callers * 5).div_ceil(healthy * 4).max(2),
            Self::Share { .. } | Self::Rate { .. } => 8,
        }
    }
}

impl fmt::Display for LoadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { callers } => write!(f, "closed:{callers}"),
            Self::Share { percent } => write!(f, "open:{percent}%"),
            Self::Rate { calls_per_s } => write!(f, "open:{calls_per_s}/s"),
        }
    }
}

impl FromStr for LoadSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| "not a load; write closed:200, open:60% or open:2000/s".to_owned())
    }
}

fn parse(text: &str) -> Option<LoadSpec> {
    if let Some(callers) = text.strip_prefix("closed:") {
        let callers = callers.parse().ok().filter(|callers| (1..=1_000_000).contains(callers))?;
        return Some(LoadSpec::Closed { callers });
    }
    let open = text.strip_prefix("open:")?;
    let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    if let Some(percent) = open.strip_suffix('%') {
        return number(percent).filter(|percent| *percent < 100.0).map(|percent| LoadSpec::Share { percent });
    }
    number(open.strip_suffix("/s")?).map(|calls_per_s| LoadSpec::Rate { calls_per_s })
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
