//! The balancers that the simulation compares, behind one trait.
//!
//! Leno's own balancers are the proxy's code, unchanged. The others are reimplemented from their authors' publications;
//! each file lists its simplifications.

mod least_request;
mod leno;
mod peak_ewma;
mod prequal;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use leno_model::balance::{Outcome, Pick, Policy};

/// One client's balancer for servers, which are numbered from 0.
pub(super) trait Balance: Send {
    /// Replaces the endpoints by `servers`, which are in ascending order.
    fn set_endpoints(&mut self, now: Instant, servers: &[usize]);

    /// Chooses a server for a call of the method with this number.
    fn pick(&mut self, now: Instant, method: u32) -> Ticket;

    /// Reports a stream's first answer, while the stream continues.
    fn answered(&mut self, now: Instant, ticket: &mut Ticket, latency: Duration);

    /// Ends a call.
    fn finish(&mut self, now: Instant, ticket: Ticket, outcome: Outcome);

    /// Returns the next server to probe. Called after each pick until it returns `None`.
    fn probe(&mut self) -> Option<usize> {
        None
    }

    /// Reports the answer to a probe.
    fn probed(&mut self, _now: Instant, _server: usize, _report: Report) {}

    /// The balancer's name for a server's state; empty if the balancer has no such names.
    fn state(&self, _now: Instant, _server: usize) -> &'static str {
        ""
    }
}

/// A call in flight.
pub(super) struct Ticket {
    pub(super) server: usize,
    /// Leno's own handle of the call.
    pick: Option<Pick>,
    /// Whether the call still counts as in flight. Used only by balancers that count a call until its first answer.
    counted: bool,
}

impl Ticket {
    fn to(server: usize) -> Self {
        Self { server, pick: None, counted: true }
    }
}

/// A server's answer to a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Report {
    /// Unfinished calls of all clients at the server.
    pub(super) in_flight: u32,
    /// Median of recent latencies with a similar number of calls in flight; `None` without recent answers.
    pub(super) latency_ms: Option<f64>,
}

/// A balancer, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Leno's balancer with this policy.
    Leno(Policy),
    /// Power of two choices on peak EWMA latency, as in Linkerd.
    PeakEwma,
    /// Power of two choices on calls in flight, as in Envoy.
    TwoLeastRequest,
    /// Probes tell cold servers from hot servers; calls go to cold servers first.
    Prequal,
}

impl Kind {
    /// Leno's default balancer, the subject of the comparison.
    pub const OURS: Self = Self::Leno(Policy::Latency);
    /// Every balancer, Leno's default first.
    pub const ALL: [Self; 7] = [
        Self::OURS,
        Self::PeakEwma,
        Self::TwoLeastRequest,
        Self::Prequal,
        Self::Leno(Policy::LeastRequest),
        Self::Leno(Policy::RoundRobin),
        Self::Leno(Policy::Random),
    ];
    /// The balancers in a comparison by default.
    pub const COMPARED: [Self; 5] =
        [Self::OURS, Self::PeakEwma, Self::TwoLeastRequest, Self::Prequal, Self::Leno(Policy::RoundRobin)];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leno(policy) => policy.name(),
            Self::PeakEwma => "p2c-peak-ewma",
            Self::TwoLeastRequest => "p2c-least-request",
            Self::Prequal => "prequal",
        }
    }

    pub(super) fn make(self, seed: u64) -> Box<dyn Balance> {
        match self {
            Self::Leno(policy) => Box::new(leno::Leno::new(policy, seed)),
            Self::PeakEwma => Box::new(peak_ewma::PeakEwma::new(seed)),
            Self::TwoLeastRequest => Box::new(least_request::LeastRequest::new(seed)),
            Self::Prequal => Box::new(prequal::Prequal::new(seed)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| format!("not a balancer; use {}", names()))
    }
}

#[cfg(test)]
#[path = "balancers_tests.rs"]
mod tests;
