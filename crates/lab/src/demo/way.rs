//! The balancing modes that the demo compares.

use std::fmt;

use super::row::Row;
use crate::load::Snapshot;

/// A balancing mode: how calls are distributed over servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Five clients, each with one connection to one server, as with kube-proxy.
    Pinned,
    /// One client through leno-proxy; each call goes to the next server.
    RoundRobin,
    /// One client through leno-proxy with its default balancer.
    Leno,
}

impl Way {
    /// All modes in the demo's order.
    pub(super) const ALL: [Self; 3] = [Self::Pinned, Self::RoundRobin, Self::Leno];

    /// Number of modes that the demo still has to show, this mode included.
    pub(super) fn and_later(self) -> u32 {
        match self {
            Self::Pinned => 3,
            Self::RoundRobin => 2,
            Self::Leno => 1,
        }
    }

    /// A one-line explanation.
    pub(super) fn explanation(self) -> &'static str {
        match self {
            Self::Pinned => "5 clients, 1 connection each, spread by connection as kube-proxy does",
            Self::RoundRobin => "1 client, 1 connection to leno-proxy, each call to the next server",
            Self::Leno => "1 client, 1 connection to leno-proxy, each call to the best server",
        }
    }

    /// Returns the rows of the table for this mode. [`Self::Pinned`] has two rows, for its best and its worst client.
    /// The other modes have one row.
    pub(super) fn rows(self, snapshot: &Snapshot) -> Vec<Row> {
        if self != Self::Pinned {
            return vec![Row::of_all(self.to_string(), snapshot)];
        }
        let by_p99 = |&(_, a): &(usize, f64), &(_, b): &(usize, f64)| a.total_cmp(&b);
        let p99 = || snapshot.servers.iter().map(|server| server.p99_ms).enumerate();
        let (Some((best, _)), Some((worst, _))) = (p99().min_by(by_p99), p99().max_by(by_p99)) else {
            return Vec::new();
        };
        // Client n is connected to server n, so the calls of client n have the latency of server n.
        let row = |index: usize, which: &str| {
            let label = format!("{self}, {which} client (s{})", index + 1);
            Row::of_server(label, snapshot, index)
        };
        vec![row(best, "best"), row(worst, "worst")]
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pinned => "pinned",
            Self::RoundRobin => "round robin",
            Self::Leno => "Leno",
        })
    }
}

#[cfg(test)]
#[path = "way_tests.rs"]
mod tests;
