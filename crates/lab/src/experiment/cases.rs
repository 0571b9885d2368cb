//! The cases of an experiment.

use std::time::Duration;

use super::options::{Options, Rate};
use super::record::{Condition, Protocol, Scenario};
use crate::error::{Error, Result};
use crate::load::Pattern;

/// One load with one state of the backends. Each repeat of the experiment runs the case with every target that supports
/// the case's condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    /// Additional latency of one backend.
    pub(super) skew_ms: u32,
    /// Client connections.
    pub(super) connections: u32,
    /// Number of calls in flight, summed over all connections. In an open loop, this is the maximum number.
    pub(super) concurrency: u32,
    /// Calls per second of an open loop. `None` for a closed loop, or if the scenario finds the rate itself.
    pub(super) rate_per_s: Option<u32>,
    /// The random faults of the backends, and the policy of the proxies.
    pub(super) condition: Condition,
}

impl Case {
    /// The pattern in which the load sends its calls.
    pub(super) fn pattern(self) -> Pattern {
        match self.rate_per_s {
            None => Pattern::Closed { in_flight: self.concurrency },
            Some(rate_per_s) => Pattern::Open { rate_per_s, max_in_flight: self.concurrency },
        }
    }

    /// Returns how many of `at_most` load Pods get at least one connection.
    pub(super) fn load_pods(self, at_most: usize) -> usize {
        self.pattern().parts(self.connections as usize, at_most)
    }

    /// Returns the same load under `condition`. A chain gets the rate divided by [`CHAIN_PART`].
    fn under(self, condition: Condition) -> Self {
        let part = if condition.fault.is_chain() { CHAIN_PART } else { 1 };
        Self { rate_per_s: self.rate_per_s.map(|rate| (rate / part).max(1)), condition, ..self }
    }
}

/// Scenario `retry-storm`: divisor of the rate for a chain. Three layers of three attempts turn one call into 27 calls,
/// and Leno's largest budget allows 1,000 retries per second in each layer.
const CHAIN_PART: u32 = 4;
/// Scenario `recover`: time for which the backend stays slow while calls are counted.
pub(super) const SLOW_FOR: Duration = Duration::from_secs(3);
/// Scenario `memory`: calls in flight on each connection in the burst.
pub(super) const BURST_CALLS: u32 = 10;
/// Default for the maximum number of calls in flight in an open loop. If a target leaves more calls unanswered, further
/// calls fail.
const OPEN_CONCURRENCY: u32 = 1000;
const CLOSED_CONCURRENCY: u32 = 200;
/// Number of calls in flight in scenarios without calls.
const NO_CALLS: u32 = 0;

/// Returns all cases: every combination of a skew, a number of connections, a rate and a condition.
pub(super) fn of(options: &Options) -> Result<Vec<Case>> {
    let scenario = options.scenario;
    let usual_skews_ms = match options.cluster.workload.service {
        // The lab cannot make a user's servers slow.
        Some(_) => &[0],
        None => usual_skews_ms(scenario),
    };
    let skews = options.skew_ms.clone().unwrap_or_else(|| usual_skews_ms.to_vec());
    let connections =
        options.connections.clone().unwrap_or_else(|| usual_connections(scenario, options.protocol()).to_vec());
    let rates: Vec<Option<Rate>> =
        options.rates().map_or_else(|| vec![None], |rates| rates.into_iter().map(Some).collect());
    let mut cases = Vec::new();
    for &rate in &rates {
        for &skew_ms in &skews {
            for &connections in &connections {
                let case = case(options, skew_ms, connections, rate)?;
                let conditions = options.conditions.conditions(scenario);
                cases.extend(conditions.into_iter().map(|condition| case.under(condition)));
            }
        }
    }
    Ok(cases)
}

fn case(options: &Options, skew_ms: u32, connections: u32, rate: Option<Rate>) -> Result<Case> {
    let is_closed = rate == Some(Rate::Max);
    let (rate_per_s, usual) = match rate {
        Some(Rate::Max) => (None, CLOSED_CONCURRENCY),
        Some(Rate::PerSecond(rate)) => (Some(rate), OPEN_CONCURRENCY),
        None => (None, OPEN_CONCURRENCY),
    };
    let one_each = options.protocol() == Protocol::Http1 && is_closed;
    let concurrency = match options.scenario {
        Scenario::Memory => connections * BURST_CALLS,
        Scenario::Tcp | Scenario::Handshakes => NO_CALLS,
        _ if one_each => connections,
        _ => options.concurrency.unwrap_or(usual),
    };
    if options.scenario.has_calls() && is_closed && concurrency < connections {
        let what = format!(
            "--concurrency {concurrency} is less than --connections {connections}: each connection needs a call; use \
             --concurrency {connections} or more"
        );
        return Err(Error::Usage(what));
    }
    Ok(Case { skew_ms, connections, concurrency, rate_per_s, condition: Condition::default() })
}

fn usual_skews_ms(scenario: Scenario) -> &'static [u32] {
    match scenario {
        Scenario::SlowPod => &[0, 50, 200],
        Scenario::Connections | Scenario::Recover => &[50],
        Scenario::Methods => &[0, 50],
        _ => &[0],
    }
}

fn usual_connections(scenario: Scenario, protocol: Protocol) -> &'static [u32] {
    match scenario {
        Scenario::Connections => &[1, 2, 4, 8],
        Scenario::Memory | Scenario::Crowd => &[10_000],
        Scenario::Footprint => &[1000],
        Scenario::Ladder => &[64],
        Scenario::Handshakes | Scenario::Capacity | Scenario::Rollout | Scenario::Steady | Scenario::Graph => &[16],
        Scenario::SlowPod | Scenario::FastFail | Scenario::Recover if protocol == Protocol::Http1 => &[200],
        _ => &[1],
    }
}

#[cfg(test)]
#[path = "cases_tests.rs"]
pub(super) mod tests;
