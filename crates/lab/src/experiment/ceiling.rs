//! The ceiling: the highest rate that the load reaches without a proxy. Figures near the ceiling measure the lab rather
//! than the target.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::options::Settings;
use super::record::{Ceiling, Protocol};
use crate::backends::{Backends, Trouble, start_server};
use crate::child::free_address;
use crate::error::Result;
use crate::load::{Client, Load, Pattern, Plan, Shape, Traffic};

/// Figures above this fraction of the ceiling are marked.
const NEAR: f64 = 0.8;
const WARM_UP: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3);
const IN_FLIGHT: u32 = 200;
const BARE: &str = "bare";

impl fmt::Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { load_rps, backends_rps } = self;
        write!(
            f,
            "ceiling: the load alone makes {load_rps:.0} calls/s of one CPU, and {backends_rps:.0} directly to "
        )?;
        write!(f, "the backends; a closed loop above {:.0} % of the lower is marked", NEAR * 100.0)
    }
}

impl Ceiling {
    /// Measures the ceiling for a few seconds.
    pub(super) fn measure(settings: &Settings, backends: &Backends, logs: &Path) -> Result<Self> {
        backends.set(0, Trouble::NONE)?;
        Ok(Self { load_rps: load_rps(settings, logs)?, backends_rps: backends_rps(settings, backends)? })
    }

    /// The ceiling, in calls per second: the lower one of `load_rps` and `backends_rps`. No target can reach more.
    pub(super) fn lowest_rps(&self) -> f64 {
        self.load_rps.min(self.backends_rps)
    }

    /// Returns whether the rate of a closed loop, in calls per second, is at least 80 % of the ceiling.
    pub(super) fn is_near(&self, rps: f64) -> bool {
        rps >= self.lowest_rps() * NEAR
    }
}

/// Duration of the measurement of a ceiling.
pub(super) fn usual_length(settings: &Settings) -> Duration {
    (WARM_UP + settings.measured.min(LONGEST)) * 2
}

/// Measures the load on one CPU, with a minimal backend on another CPU if the machine has two.
fn load_rps(settings: &Settings, logs: &Path) -> Result<f64> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let pinned = |cpu| if cpus < 2 { Vec::new() } else { vec![cpu] };
    let (address, http1) = (free_address()?, free_address()?);
    let (called, mode) = match settings.protocol {
        Protocol::Http1 | Protocol::Http2 => (http1, format!("--http1={http1}")),
        Protocol::Grpc | Protocol::Tcp => (address, "--bare".to_owned()),
    };
    let mut backend = start_server("bare-backend", address, &[mode, format!("--name={BARE}")], logs, &pinned(1))?;
    backend.wait_for_listener(called)?;
    // The minimal backend answers only unary calls.
    let traffic = Traffic { shape: Shape::Unary, ..settings.traffic };
    rps(Plan { cpus: pinned(0), traffic, ..plan(settings, &[called], vec![BARE.to_owned()]) })
}

/// Measures the load over connections that are spread evenly over the experiment's backends.
fn backends_rps(settings: &Settings, backends: &Backends) -> Result<f64> {
    rps(plan(settings, backends.addresses(), backends.names()))
}

fn plan(settings: &Settings, addresses: &[SocketAddr], servers: Vec<String>) -> Plan {
    // An HTTP/1.1 connection has one request at a time, so each request in flight needs a connection.
    let connections = match settings.protocol {
        Protocol::Http1 => IN_FLIGHT as usize,
        Protocol::Grpc | Protocol::Http2 | Protocol::Tcp => addresses.len(),
    };
    let client = |&address: &SocketAddr| Client { address, authority: address.to_string() };
    let clients = addresses.iter().map(client).cycle().take(connections).collect();
    Plan {
        clients,
        servers,
        exchange: settings.exchange(),
        traffic: settings.traffic,
        pattern: Pattern::Closed { in_flight: IN_FLIGHT },
        warm_up: WARM_UP,
        measured: settings.measured.min(LONGEST),
        cpus: settings.cpus.others.clone(),
        seed: settings.seed,
    }
}

fn rps(plan: Plan) -> Result<f64> {
    Load::start(plan).finish().map(|snapshot| snapshot.calls_per_second())
}

#[cfg(test)]
#[path = "ceiling_tests.rs"]
mod tests;
