//! The names and descriptions of the scenarios, and the names of the protocols.

use std::fmt;

use super::record::{Protocol, Scenario};

impl Scenario {
    /// Every scenario.
    pub const ALL: [Self; 18] = [
        Self::SlowPod,
        Self::Connections,
        Self::FastFail,
        Self::Recover,
        Self::Memory,
        Self::Tcp,
        Self::Handshakes,
        Self::Ladder,
        Self::Capacity,
        Self::Crowd,
        Self::Footprint,
        Self::Steady,
        Self::Rollout,
        Self::Streams,
        Self::Methods,
        Self::Graph,
        Self::RetryStorm,
        Self::Tail,
    ];

    /// Returns whether the scenario makes calls, so that targets can balance them.
    pub fn has_calls(self) -> bool {
        !matches!(self, Self::Tcp | Self::Handshakes)
    }

    /// Returns whether the scenario compares several conditions: faults of the servers, and policies of the proxies.
    pub(crate) fn has_conditions(self) -> bool {
        matches!(self, Self::RetryStorm | Self::Tail)
    }

    /// Returns whether each run in a cluster needs new proxies. The scenario measures how much a load adds to the
    /// memory of the proxies, so no earlier run may have used them.
    pub(crate) fn has_fresh_proxies(self) -> bool {
        matches!(self, Self::Crowd | Self::Footprint)
    }

    /// Returns the page about the scenario: what it measures, its cases, and what it cannot show. `None` if the line of
    /// [`Self::what`] is the whole description.
    pub(crate) fn page(self) -> Option<&'static str> {
        match self {
            Self::RetryStorm => Some(include_str!("pages/retry-storm.txt")),
            Self::Tail => Some(include_str!("pages/tail.txt")),
            _ => None,
        }
    }

    /// A one-line description.
    pub fn what(self) -> &'static str {
        match self {
            Self::SlowPod => "one backend answers every call later than the others: who notices?",
            Self::Connections => "the same with 1, 2, 4 and 8 client connections: do more connections help?",
            Self::FastFail => "one backend fails every call at once: does it attract calls?",
            Self::Recover => "one backend is slow and then well again: how long until it has its fair share?",
            Self::Memory => "10,000 connections make a burst of calls and leave: what memory stays?",
            Self::Tcp => "bytes without any meaning, up and then down: how many, and what do they cost?",
            Self::Handshakes => "clients connect with mutual TLS again and again: how often in a second of CPU?",
            Self::Ladder => {
                "HTTP/1.1 requests at 100, 500, 1,000 and 5,000 a second: what do latency and memory become?"
            }
            Self::Capacity => "more and more calls a second: at which rate do 0.1 % of them fail?",
            Self::Crowd => "10,000 client connections call at a steady rate: what do they cost?",
            Self::Footprint => "idle, under a load, with 1,000 connections, after a burst: how much memory is it?",
            Self::Steady => "calls from the start of a proxy on: how long until the latency is steady?",
            Self::Rollout => "the backends restart one by one, gracefully and then abruptly: how many calls are lost?",
            Self::Streams => "long bidirectional streams: do they end up unevenly on the backends?",
            Self::Methods => "a fast and a slow method of one service, and one slow backend: does the fast one suffer?",
            Self::Graph => "services that call services, each behind its own proxies: what does a call take?",
            Self::RetryStorm => "servers fail calls that proxies retry: how many calls succeed, and how many arrive?",
            Self::Tail => "servers are slow at random, and proxies hedge: what becomes of the tail?",
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SlowPod => "slow-pod",
            Self::Connections => "connections",
            Self::FastFail => "fast-fail",
            Self::Recover => "recover",
            Self::Memory => "memory",
            Self::Tcp => "tcp",
            Self::Handshakes => "handshakes",
            Self::Ladder => "ladder",
            Self::Capacity => "capacity",
            Self::Crowd => "crowd",
            Self::Footprint => "footprint",
            Self::Steady => "steady",
            Self::Rollout => "rollout",
            Self::Streams => "streams",
            Self::Methods => "methods",
            Self::Graph => "graph",
            Self::RetryStorm => "retry-storm",
            Self::Tail => "tail",
        })
    }
}

impl Protocol {
    /// The protocol's name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::Tcp => "tcp",
        }
    }
}
