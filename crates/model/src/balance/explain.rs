//! Explains the balancer's state to users: its data about each endpoint, and the reason for its last pick.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Balancer;
use super::choose::{Contender, Rank, Why};
use super::endpoints::Endpoint;
use super::estimate::Estimate;
use super::health::State;
use super::probation::Probation;

/// For an endpoint that is not slow, the explanation shows two means if stalled calls have raised one of them: the mean
/// of full latencies must exceed the mean of capped latencies times this number.
const STALLS_FACTOR: f64 = 1.05;

/// The balancer's state of one endpoint, for users.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    pub address: SocketAddr,
    /// `ready`, `warming`, `slow` or `failing`. Only the `latency` policy uses the state.
    pub state: &'static str,
    /// The share of calls that the endpoint's state allows, as a fraction of a full share, 0 to 1.
    pub weight: f64,
    /// Number of calls to the endpoint that have not ended yet.
    pub in_flight: u32,
    /// The mean of recent latencies, corrected for the usual latency of each call's method; `None` before the first
    /// answer.
    pub latency_estimate_ms: Option<f64>,
    /// The balancer treats the endpoint as slow if its mean latency, with stalled calls capped, exceeds this limit.
    /// Stalled calls alone may raise `latency_estimate_ms`, which is not capped, above the limit. `None` before the
    /// endpoint's first answer, and while the cluster has no median to compare with.
    pub latency_limit_ms: Option<f64>,
    /// Fraction of the recent calls to the endpoint that failed, 0 to 1.
    pub failure_rate: f64,
    /// Fraction of the cluster's last 1,024 picks that chose this endpoint, 0 to 1.
    pub share: f64,
    /// Number of the cluster's last 1,024 picks that chose this endpoint.
    pub recent_picks: usize,
    /// Number of calls sent to the endpoint since the balancer added the endpoint.
    pub picks: u64,
    /// Number of calls to the endpoint that have failed since the balancer added the endpoint.
    pub failures: u64,
    /// An explanation of the state, in words and numbers.
    pub reason: String,
    /// The reason for the cluster's most recent pick, if that pick chose this endpoint; otherwise `None`.
    pub last_pick: Option<String>,
}

/// The reason why a pick chose its endpoint. [`fmt::Display`] describes it in words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PickReason {
    why: Why,
    /// The second-best endpoint of the comparison. `None` if the pick compared no endpoints or only one, or if the
    /// second-best endpoint has been removed since.
    runner_up: Option<SocketAddr>,
}

impl Balancer {
    /// Explains every endpoint, in ascending order of addresses.
    pub fn explain(&self, now: Instant) -> Vec<Explanation> {
        self.endpoints.list.iter().map(|endpoint| self.explain_endpoint(now, endpoint)).collect()
    }

    /// Returns the reason for the most recent pick, in words; `None` before the first pick.
    pub fn explain_last_pick(&self) -> Option<String> {
        self.last_reason().map(|reason| reason.to_string())
    }

    /// Returns the reason for the most recent pick; `None` before the first pick.
    pub fn last_reason(&self) -> Option<PickReason> {
        self.last_pick.map(|(_, why)| self.reason(why))
    }

    fn reason(&self, why: Why) -> PickReason {
        let runner_up = match why {
            Why::Fewest { runner_up: Some(other), .. } => self.address(other.id),
            Why::Fewest { .. } | Why::NextInTurn | Why::Drawn | Why::Probe { .. } => None,
        };
        PickReason { why, runner_up }
    }

    fn explain_endpoint(&self, now: Instant, endpoint: &Endpoint) -> Explanation {
        let health = &endpoint.health;
        let (recent_picks, of) = self.recent.count(endpoint.id.slot());
        let last_pick =
            self.last_pick.filter(|(id, _)| *id == endpoint.id).map(|(_, why)| self.reason(why).to_string());
        Explanation {
            address: endpoint.address,
            state: state_name(&health.state),
            weight: health.weight(now),
            in_flight: endpoint.calls.in_flight,
            latency_estimate_ms: health.latency.map(|estimate| estimate.full_mean_ms),
            latency_limit_ms: health.latency.and_then(|estimate| self.latency.baseline.limit_ms(&estimate)),
            failure_rate: health.failure_rate.mean,
            share: recent_picks as f64 / of.max(1) as f64,
            recent_picks,
            picks: endpoint.picks,
            failures: endpoint.failures,
            reason: self.explain_state(now, endpoint),
            last_pick,
        }
    }

    fn explain_state(&self, now: Instant, endpoint: &Endpoint) -> String {
        let health = &endpoint.health;
        let is_slow = matches!(health.state, State::Slow(_));
        let latency = match (health.latency, self.latency.baseline.latency_ms) {
            (None, _) => "no answer yet".to_owned(),
            (Some(estimate), None) => Mean::of(&estimate, is_slow).to_string(),
            (Some(estimate), Some(baseline_ms)) => {
                let mean = Mean::of(&estimate, is_slow);
                format!("{mean}, {:.1} x the median {baseline_ms:.1} ms", mean.compared_ms() / baseline_ms)
            }
        };
        let failures = format!("{:.0} % fail", health.failure_rate.mean * 100.0);
        match &health.state {
            State::Ready => format!("{latency}; {failures}"),
            State::Warming { .. } => {
                let share = health.weight(now) * 100.0;
                format!("{latency}; {failures}; warming up, {share:.0} % of a full share")
            }
            State::Slow(probation) | State::Failing(probation) if probation.relief > 0.0 => {
                let share = probation.relief * 100.0;
                let probing = Probing { now, probation };
                format!(
                    "{latency}; {failures}; the other endpoints are full, so it gets {share:.0} % of a full share; {probing}"
                )
            }
            State::Slow(probation) | State::Failing(probation) => {
                format!("{latency}; {failures}; {}", Probing { now, probation })
            }
        }
    }
}

impl fmt::Display for PickReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::NextInTurn => f.write_str("the next in turn"),
            Why::Drawn => f.write_str("drawn at random"),
            Why::Probe { good_answers } => write!(f, "a probe for recovery, after {good_answers} good answers"),
            Why::Fewest { winner, runner_up: None } => write!(f, "{winner}; the only one usable"),
            Why::Fewest { winner, runner_up: Some(other) } => {
                let tie = (winner.rank, winner.load) == (other.rank, other.load);
                let tie = if tie { ", won the tie" } else { "" };
                write!(f, "{winner}{tie}; beat ")?;
                match self.runner_up {
                    Some(address) => address.fmt(f)?,
                    None => f.write_str("a removed endpoint")?,
                }
                write!(f, ": {other}")
            }
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = match self.rank {
            Rank::Ready => "ready",
            Rank::Warming => "warming",
            Rank::Slow => "slow",
            Rank::Failing => "failing",
        };
        write!(f, "{rank} with {} in flight", self.in_flight)?;
        match self.load == self.in_flight {
            true => Ok(()),
            false => write!(f, ", counted as {} because of failures", self.load),
        }
    }
}

struct Probing<'a> {
    now: Instant,
    probation: &'a Probation,
}

impl fmt::Display for Probing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wait = self.probation.next_probe.saturating_duration_since(self.now);
        if wait == Duration::ZERO {
            write!(f, "next probe due")?;
        } else {
            write!(f, "next probe in {} ms", wait.as_millis())?;
        }
        write!(f, ", {} good answers so far", self.probation.good_answers)
    }
}

/// The mean latency of an endpoint, in the form that an explanation shows.
///
/// Normally, the explanation shows only the mean of full latencies, and compares it with the cluster's median. If
/// stalled calls have raised this mean and the endpoint is not slow, the explanation also shows the mean of capped
/// latencies. It then compares the capped mean with the median, because the median is taken over capped means.
struct Mean {
    full_ms: f64,
    capped_ms: Option<f64>,
}

impl Mean {
    fn of(estimate: &Estimate, is_slow: bool) -> Self {
        let Estimate { mean_ms, full_mean_ms: full_ms, .. } = *estimate;
        let has_stalls = !is_slow && full_ms > mean_ms * STALLS_FACTOR;
        Self { full_ms, capped_ms: has_stalls.then_some(mean_ms) }
    }

    fn compared_ms(&self) -> f64 {
        self.capped_ms.unwrap_or(self.full_ms)
    }
}

impl fmt::Display for Mean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} ms", self.full_ms)?;
        match self.capped_ms {
            Some(capped_ms) => write!(f, " ({capped_ms:.1} ms with stalled calls capped)"),
            None => Ok(()),
        }
    }
}

fn state_name(state: &State) -> &'static str {
    match state {
        State::Ready => "ready",
        State::Warming { .. } => "warming",
        State::Slow(_) => "slow",
        State::Failing(_) => "failing",
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
