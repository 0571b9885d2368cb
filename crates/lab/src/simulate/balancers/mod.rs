//! The balancers that are compared, behind one trait.
//!
//! Leno's own come from the proxy's code unchanged. The others are written here from what their
//! authors published, to be compared with; each file says what it leaves out.

mod least_request;
mod leno;
mod peak_ewma;
mod prequal;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use leno_model::balance::{Outcome, Pick, Policy};

/// One client's choice among servers, which are numbered from 0.
pub(super) trait Balance: Send {
    /// Makes `servers` the endpoints, ascending.
    fn set_endpoints(&mut self, now: Instant, servers: &[usize]);

    /// Chooses a server for a call of the method of that number.
    fn pick(&mut self, now: Instant, method: u32) -> Ticket;

    /// Tells that a stream's first answer came, while it goes on.
    fn answered(&mut self, now: Instant, ticket: &mut Ticket, latency: Duration);

    /// Ends a call.
    fn finish(&mut self, now: Instant, ticket: Ticket, outcome: Outcome);

    /// A server to send a probe to, asked for after each pick until there is none.
    fn probe(&mut self) -> Option<usize> {
        None
    }

    /// A probe was answered.
    fn probed(&mut self, _now: Instant, _server: usize, _report: Report) {}

    /// What it thinks of a server, in its own words; empty if it has no such words.
    fn state(&self, _now: Instant, _server: usize) -> &'static str {
        ""
    }
}

/// A call on its way.
pub(super) struct Ticket {
    pub(super) server: usize,
    /// Leno's own handle of it.
    pick: Option<Pick>,
    /// Whether a balancer that counts calls until their first answer still counts it.
    counted: bool,
}

impl Ticket {
    fn to(server: usize) -> Self {
        Self { server, pick: None, counted: true }
    }
}

/// What a server says of itself when probed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Report {
    /// Calls of all clients that it has not finished.
    pub(super) in_flight: u32,
    /// The median of recent latencies with about as many calls in flight; none without recent answers.
    pub(super) latency_ms: Option<f64>,
}

/// A balancer, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of Leno's policies.
    Leno(Policy),
    /// Power of two choices on peak EWMA latency, as Linkerd.
    PeakEwma,
    /// Power of two choices on calls in flight, as Envoy.
    TwoLeastRequest,
    /// Hot and cold servers, found by probing.
    Prequal,
}

impl Kind {
    /// What this is all about.
    pub const OURS: Self = Self::Leno(Policy::Latency);
    /// Every balancer, ours first.
    pub const ALL: [Self; 7] = [
        Self::OURS,
        Self::PeakEwma,
        Self::TwoLeastRequest,
        Self::Prequal,
        Self::Leno(Policy::LeastRequest),
        Self::Leno(Policy::RoundRobin),
        Self::Leno(Policy::Random),
    ];
    /// Those that are compared when nothing else is asked for.
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
