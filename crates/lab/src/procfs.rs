//! The cost of a process and of the whole machine: CPU time and memory, as the kernel counts them.

use std::fs;
use std::time::Duration;

use crate::error::{Error, Result, io};

/// Resident memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// Memory that is resident now (`VmRSS`).
    pub resident_kib: u64,
    /// Peak of the resident memory (`VmHWM`) since the start of the process, or since the last call of [`forget_peak`].
    pub peak_kib: u64,
}

impl Memory {
    /// Memory that is resident now.
    pub fn resident_bytes(&self) -> u64 {
        self.resident_kib * 1024
    }

    /// Peak of the resident memory.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_kib * 1024
    }
}

/// CPU time of all threads of a process, in user and kernel mode.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).map_err(io(format!("reading {path}")))?;
    parse_cpu_ticks(&stat)
        .map(|ticks| Duration::from_secs_f64(ticks as f64 / ticks_per_second()))
        .ok_or_else(|| unreadable("CPU time in /proc/PID/stat", &stat))
}

/// CPU time of all programs on the machine, in user and kernel mode, plus the time that the hypervisor gave to other
/// virtual machines.
///
/// Interrupts are excluded. The kernel charges them to no process, so the interrupts that a load on loopback causes
/// would look like work of other programs.
pub fn machine_cpu_time() -> Result<Duration> {
    const PATH: &str = "/proc/stat";
    let stat = fs::read_to_string(PATH).map_err(io(format!("reading {PATH}")))?;
    parse_machine_ticks(&stat)
        .map(|ticks| Duration::from_secs_f64(ticks as f64 / ticks_per_second()))
        .ok_or_else(|| unreadable("CPU time in /proc/stat", &stat))
}

/// Resident memory of a process: now, and at its peak.
pub fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).map_err(io(format!("reading {path}")))?;
    parse_memory(&status).ok_or_else(|| unreadable("VmRSS in /proc/PID/status", &status))
}

/// Resets the peak of a process's resident memory to its present value.
///
/// On a kernel without `clear_refs` (proc(5), `CONFIG_PROC_PAGE_MONITOR`), this function does nothing. [`memory`] then
/// reports the peak since the start of the process, which is at least the peak since this call.
pub fn forget_peak(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// Adds `utime` and `stime`, fields 14 and 15 of proc_pid_stat(5). The name in field 2 may contain any characters, so
/// the parser starts after the last `)`.
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

/// Adds `user`, `nice`, `system` and `steal` of the line for all CPUs, proc_stat(5).
fn parse_machine_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, _irq, _softirq, steal, ..] = fields[..] else {
        return None;
    };
    Some(user + nice + system + steal)
}

fn parse_memory(status: &str) -> Option<Memory> {
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(Memory { resident_kib: kib("VmRSS:")?, peak_kib: kib("VmHWM:")? })
}

fn unreadable(wanted: &'static str, text: &str) -> Error {
    Error::Unreadable { program: "the kernel", wanted, last_line: crate::child::last_line(text.as_bytes()) }
}

#[cfg(test)]
#[path = "procfs_tests.rs"]
mod tests;
