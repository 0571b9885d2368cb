//! CPU time at one moment: of the proxy, of all programs of the experiment, and of the whole machine.

use std::time::{Duration, Instant};

use crate::backends::Backends;
use crate::error::Result;
use crate::procfs;
use crate::targets::Target;

/// A reading of the CPU times that the programs have used so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    at: Instant,
    proxy: Option<Duration>,
    /// CPU time of a mesh's proxies in front of the backends. It is included in `proxy`.
    server_proxy: Option<Duration>,
    /// CPU time of the lab with its load, of the backends and of the proxies.
    ours: Duration,
    machine: Duration,
}

impl Meter {
    /// Reads all counters.
    pub(super) fn read(target: &Target, backends: &Backends) -> Result<Self> {
        let proxy = target.cpu_time()?;
        let servers = backends.cpu_time()? + target.services_cpu_time()?;
        let ours = procfs::cpu_time(std::process::id())? + proxy.unwrap_or_default() + servers;
        let server_proxy = target.server_cpu_time()?;
        Ok(Self { at: Instant::now(), proxy, server_proxy, ours, machine: procfs::machine_cpu_time()? })
    }

    /// CPU time of the proxy since an earlier reading; `None` without a proxy.
    pub(super) fn proxy_since(&self, earlier: &Self) -> Option<Duration> {
        Some(self.proxy?.saturating_sub(earlier.proxy?))
    }

    /// CPU time of a mesh's proxies in front of the backends since an earlier reading; `None` without a mesh.
    pub(super) fn server_proxy_since(&self, earlier: &Self) -> Option<Duration> {
        Some(self.server_proxy?.saturating_sub(earlier.server_proxy?))
    }

    /// Seconds since an earlier reading.
    pub(super) fn seconds_since(&self, earlier: &Self) -> f64 {
        (self.at - earlier.at).as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// CPUs that programs outside the experiment have used since an earlier reading.
    pub(super) fn foreign_since(&self, earlier: &Self) -> f64 {
        let ours = self.ours.saturating_sub(earlier.ours);
        // The kernel counts the machine's time and the programs' times in different ways, so avoid a negative
        // difference.
        let foreign = self.machine.saturating_sub(earlier.machine).saturating_sub(ours);
        foreign.as_secs_f64() / self.seconds_since(earlier)
    }
}

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
