//! The plan of a load: its clients, their exchanges, and the times of the exchanges.

use std::fmt::Display;
use std::io::BufRead;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::exchange::Exchange;
use super::nanoseconds;
use super::pace::Pace;
use super::recording::{LOAD_MAX, SERVERS_MAX};
use super::traffic::Traffic;
use crate::echo::MAX_PAYLOAD_BYTES;
use crate::error::{Error, Result, io};

/// Maximum length of a plan's line, in bytes: enough for over 100,000 clients.
const LINE_MAX_BYTES: u64 = 16 << 20;

/// One client connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Address to connect to.
    pub address: SocketAddr,
    /// The `:authority` of the client's calls.
    pub authority: String,
}

/// The description of a load. In JSON, a field that this version does not know makes the plan invalid: the load would
/// otherwise measure something else.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The clients, at least one. In an open loop, clients that can have several calls in flight take turns in sending
    /// calls. If clients make only one exchange at a time, the first free client makes the next exchange. A client that
    /// loses its connection opens another connection.
    pub clients: Vec<Client>,
    /// The names that the servers put into their answers; [`NAMELESS`](super::NAMELESS) alone if the exchange has no
    /// names.
    pub servers: Vec<String>,
    /// The exchange that clients repeat.
    pub exchange: Exchange,
    /// The pattern of gRPC messages, the message sizes, and the spacing of the calls.
    pub traffic: Traffic,
    /// When calls are sent.
    pub pattern: Pattern,
    /// Warm-up: the time from the start of the load to the measured time. Its calls count only in the windows, and in
    /// the totals since the start, such as `Snapshot::failed`.
    #[serde(rename = "warm_up_ns", with = "nanoseconds")]
    pub warm_up: Duration,
    /// Measured time: calls that are sent during this time are counted.
    #[serde(rename = "measured_ns", with = "nanoseconds")]
    pub measured: Duration,
    /// The CPUs that the load's thread may use; empty for all.
    pub cpus: Vec<usize>,
    /// Seed of random arrivals.
    pub seed: u64,
}

/// When calls are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// A constant number of calls in flight, evenly over all clients: each answer triggers the next call. With
    /// exchanges that clients make one at a time, each client has one call in flight, and `in_flight` has no effect.
    Closed {
        /// Calls in flight, at least one.
        in_flight: u32,
    },
    /// Calls at a fixed rate, whether or not earlier calls were answered; latency counts from the scheduled time of
    /// sending.
    Open {
        /// Calls per second, summed over all clients, at least one. The plan's traffic defines the calls' spacing.
        rate_per_s: u32,
        /// Maximum number of calls in flight. With exchanges that clients make one at a time, it is the maximum number
        /// of calls that wait for a free client. A further call is not sent and counts as failed. A call that still
        /// waits for a client 5 s after the end of the measured time counts in the same way.
        max_in_flight: u32,
    },
}

impl Plan {
    /// The plan as one line of JSON, for `leno lab load`.
    ///
    /// # Errors
    /// If the exchange is [`Exchange::Handshake`].
    pub(crate) fn to_line(&self) -> Result<String> {
        match serde_json::to_string(self) {
            Ok(json) => Ok(json + "\n"),
            Err(error) => Err(invalid("writing the plan of a load", error)),
        }
    }

    /// Reads the plan that [`Plan::to_line`] wrote. Does not read beyond the plan's line.
    ///
    /// # Errors
    /// If the line cannot be read, is too long or is no plan, or if the plan cannot be run or recorded.
    pub(crate) fn read(input: impl BufRead) -> Result<Self> {
        const READING: &str = "reading the plan of a load";
        let mut line = Vec::new();
        input.take(LINE_MAX_BYTES + 1).read_until(b'\n', &mut line).map_err(io(READING))?;
        if line.len() as u64 > LINE_MAX_BYTES {
            return Err(invalid(READING, format!("its line has more than {LINE_MAX_BYTES} bytes")));
        }
        let plan: Self = serde_json::from_slice(&line).map_err(|error| invalid(READING, error))?;
        plan.check().map_err(|why| invalid(READING, why))?;
        Ok(plan)
    }

    /// Rejects a plan that would make the load panic, or make its recording invalid.
    fn check(&self) -> std::result::Result<(), String> {
        if self.clients.is_empty() {
            return Err("it has no clients".to_owned());
        }
        self.exchange.check()?;
        if self.servers.len() > SERVERS_MAX {
            return Err(format!("it has {} servers, more than {SERVERS_MAX}", self.servers.len()));
        }
        if self.warm_up.saturating_add(self.measured) > LOAD_MAX {
            return Err(format!("it takes longer than {} s", LOAD_MAX.as_secs()));
        }
        let payload_bytes = self.traffic.request_bytes.max(self.traffic.response_bytes);
        if payload_bytes > MAX_PAYLOAD_BYTES {
            return Err(format!("its payload of {payload_bytes} bytes is larger than {MAX_PAYLOAD_BYTES}"));
        }
        Ok(())
    }

    /// The schedule of an open loop that starts at `start`.
    pub(super) fn pace(&self, start: Instant, rate_per_s: u32) -> Pace {
        let measured_from = start + self.warm_up;
        Pace::new((start, measured_from, measured_from + self.measured), rate_per_s, &self.traffic, self.seed)
    }
}

fn invalid(what: &str, why: impl Display) -> Error {
    Error::Message { what: what.to_owned(), why: why.to_string() }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
