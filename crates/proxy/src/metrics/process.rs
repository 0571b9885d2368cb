//! The operating system's metrics of this process.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, fs};

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use leno_relay::metrics::{counter, gauge};

/// The metrics `process_*`. A value that cannot be read is `None` and is not exported.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessMetrics {
    /// Processor time that all threads have used, in user mode and in system mode.
    pub(crate) cpu_seconds: Option<f64>,
    /// Memory in RAM.
    pub(crate) resident_bytes: Option<u64>,
    /// Size of the address space.
    pub(crate) virtual_bytes: Option<u64>,
    /// Number of open files and sockets.
    pub(crate) open_fds: Option<u64>,
    /// Maximum number of files and sockets that may be open.
    pub(crate) max_fds: Option<u64>,
    /// Number of threads.
    pub(crate) threads: Option<u64>,
    /// When the process started.
    pub(crate) started_since_1970: Duration,
    /// Number of times that a supervisor has started the process again.
    pub(crate) restarts: u64,
    /// Upper limit of the memory that peers can make the proxy hold, for all workers together.
    pub(crate) memory_budget_bytes: Option<u64>,
}

impl ProcessMetrics {
    /// Reads the metrics of this process, which started at `started`.
    pub(crate) fn read(started: SystemTime) -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = |field: usize| Some(statm.split(' ').nth(field)?.parse::<u64>().ok()? * page_size() as u64);
        Self {
            cpu_seconds: cpu_seconds(&stat),
            virtual_bytes: pages(0),
            resident_bytes: pages(1),
            // Subtract 1: this reading itself opens the directory.
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|fds| (fds.count() as u64).saturating_sub(1)),
            max_fds: getrlimit(Resource::Nofile).current,
            threads: stat_field(&stat, 20),
            started_since_1970: started.duration_since(UNIX_EPOCH).unwrap_or_default(),
            restarts: 0,
            memory_budget_bytes: None,
        }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        if let Some(seconds) = self.cpu_seconds {
            counter(encoder, "process_cpu_seconds", "Processor time used, user and system")?
                .encode_counter::<NoLabelSet, f64, f64>(&seconds, None)?;
        }
        let gauges = [
            ("process_resident_memory_bytes", "Memory in RAM", self.resident_bytes),
            ("process_virtual_memory_bytes", "Address space", self.virtual_bytes),
            ("process_open_fds", "Open files and sockets", self.open_fds),
            ("process_max_fds", "Most files and sockets that may be open", self.max_fds),
            ("process_threads", "Threads", self.threads),
            ("leno_memory_budget_bytes", "Memory that peers may make the workers hold", self.memory_budget_bytes),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                gauge(encoder, name, help)?.encode_gauge(&value)?;
            }
        }
        counter(
            encoder,
            "leno_proxy_restarts",
            "Unexpected ends of the proxy after which its supervisor started it again",
        )?
        .encode_counter::<NoLabelSet, u64, u64>(&self.restarts, None)?;
        gauge(encoder, "process_start_time_seconds", "When the process started")?
            .encode_gauge(&self.started_since_1970.as_secs_f64())
    }
}

/// The processor time: fields 14 (user) and 15 (system) of proc_pid_stat(5).
fn cpu_seconds(stat: &str) -> Option<f64> {
    let ticks = stat_field(stat, 14)? + stat_field(stat, 15)?;
    Some(ticks as f64 / clock_ticks_per_second() as f64)
}

/// Returns the field of proc_pid_stat(5) with this number. The manual page counts the fields from 1. The second field
/// is a name that may contain spaces and ends in `)`, so this function counts the fields after it.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(number - 3)?.parse().ok()
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
