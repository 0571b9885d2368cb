//! Measures the CPU time that leno-control, the lab and all other programs use during a load of changes.

use std::time::{Duration, Instant};

use super::control::Control;
use crate::error::Result;
use crate::procfs;

/// A reading of the CPU times that the programs have used so far.
pub(super) struct Usage {
    at: Instant,
    control: Duration,
    lab: Duration,
    machine: Duration,
}

/// The CPU times that the programs used between two readings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    pub(super) time: Duration,
    pub(super) control: Duration,
    pub(super) lab: Duration,
    /// CPU time of all other programs, such as the API server and etcd.
    pub(super) others: Duration,
    pub(super) machine_cpus: u32,
}

impl Usage {
    /// Reads the counters.
    ///
    /// # Errors
    /// If leno-control has ended.
    pub(super) fn read(control: &Control) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            control: control.cpu_time()?,
            lab: procfs::cpu_time(std::process::id())?,
            machine: procfs::machine_cpu_time()?,
        })
    }

    /// Returns the CPU time that was used since an earlier reading.
    pub(super) fn since(&self, earlier: &Self) -> Used {
        let control = self.control.saturating_sub(earlier.control);
        let lab = self.lab.saturating_sub(earlier.lab);
        // The kernel counts the machine's time and the programs' times in different ways, so a plain difference could
        // be negative.
        let others = self.machine.saturating_sub(earlier.machine).saturating_sub(control + lab);
        let machine_cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        Used { time: self.at - earlier.at, control, lab, others, machine_cpus }
    }
}

impl Used {
    /// CPU time as a number of fully busy CPUs.
    pub(super) fn cpus(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}
