//! CPU time that is used while changes are made: by leno-control, by the lab, and by all others.

use std::time::{Duration, Instant};

use super::control::Control;
use crate::error::Result;
use crate::procfs;

/// The readings at one moment.
pub(super) struct Usage {
    at: Instant,
    control: Duration,
    lab: Duration,
    machine: Duration,
}

/// CPU time between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    /// Between the two.
    pub(super) time: Duration,
    pub(super) control: Duration,
    pub(super) lab: Duration,
    /// The API server and etcd among them.
    pub(super) others: Duration,
    pub(super) machine_cpus: u32,
}

impl Usage {
    /// Reads them now.
    ///
    /// # Errors
    /// When leno-control has ended.
    pub(super) fn read(control: &Control) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            control: control.cpu_time()?,
            lab: procfs::cpu_time(std::process::id())?,
            machine: procfs::machine_cpu_time()?,
        })
    }

    /// What was used since an earlier moment.
    pub(super) fn since(&self, earlier: &Self) -> Used {
        let control = self.control.saturating_sub(earlier.control);
        let lab = self.lab.saturating_sub(earlier.lab);
        // The kernel counts the machine's time and the programs' in different ways.
        let others = self.machine.saturating_sub(earlier.machine).saturating_sub(control + lab);
        let machine_cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        Used { time: self.at - earlier.at, control, lab, others, machine_cpus }
    }
}

impl Used {
    /// So much CPU time as a number of CPUs that were busy all the time.
    pub(super) fn cpus(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}
