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

/// The balancer of one client. It identifies the servers by their numbers, from 0.
pub(super) trait Balance: Send {
    /// Replaces the endpoints by `servers`, which must be in ascending order.
    fn set_endpoints(&mut self, now: Instant, servers: &[usize]);

    /// Chooses a server for a call of the method with the number `method`.
    fn pick(&mut self, now: Instant, method: u32) -> Ticket;

    /// Reports the first answer of a stream. The stream stays open until [`finish`](Self::finish).
    fn answered(&mut self, now: Instant, ticket: &mut Ticket, latency: Duration);

    /// Ends a call.
    fn finish(&mut self, now: Instant, ticket: Ticket, outcome: Outcome);

    /// Returns the next server to probe. After each pick, the simulation calls this method until it returns `None`.
    fn probe(&mut self) -> Option<usize> {
        None
    }

    /// Reports the answer to a probe.
    fn probed(&mut self, _now: Instant, _server: usize, _report: Report) {}

    /// The state of a server, in the terms of this balancer; empty if the balancer has no server states.
    fn state(&self, _now: Instant, _server: usize) -> &'static str {
        ""
    }
}

/// A call in flight.
pub(super) struct Ticket {
    pub(super) server: usize,
    /// The call's handle if Leno's balancer chose the server; `None` for other balancers.
    pick: Option<Pick>,
    /// Whether the call still counts as in flight. Only balancers that stop counting a call at its first answer read
    /// this.
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
    /// Number of open calls at the server, from all clients.
    pub(super) in_flight: u32,
    /// Median latency of recent calls that arrived while about as many calls were open as now. `None` if there are no
    /// recent calls.
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
    /// Prequal: probes distinguish cold servers from hot servers, and calls go to cold servers first.
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
    /// The balancers that a comparison has unless the user names others.
    pub const COMPARED: [Self; 5] =
        [Self::OURS, Self::PeakEwma, Self::TwoLeastRequest, Self::Prequal, Self::Leno(Policy::RoundRobin)];

    /// The balancer's name on the command line and in the output.
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
