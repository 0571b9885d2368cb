//! The CPUs for the processes of a measurement.

use crate::error::{Error, Result};

/// The CPUs for the proxy, and the CPUs for all other processes. An empty list allows all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// CPUs of the proxy.
    pub(crate) proxy: Vec<usize>,
    /// CPUs of the load and of the backends.
    pub(crate) others: Vec<usize>,
}

impl Cpus {
    /// Selects one CPU for the proxy, and the rest for all other processes. On a machine with one CPU, all processes
    /// share this CPU.
    ///
    /// # Errors
    /// If the CPU `proxy` does not exist. `flag` is the option with which the user selected it.
    pub(crate) fn split(proxy: usize, flag: &str) -> Result<Self> {
        let known = std::thread::available_parallelism().map_or(1, usize::from);
        if known < 2 {
            return Ok(Self::default());
        }
        if proxy >= known {
            return Err(Error::Usage(format!("{flag} is 0 to {} here", known - 1)));
        }
        Ok(Self { proxy: vec![proxy], others: (0..known).filter(|&cpu| cpu != proxy).collect() })
    }
}
