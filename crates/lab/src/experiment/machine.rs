//! The machine that an experiment runs on.

use std::fs;

use super::record::Machine;

/// The current time in UTC, in the format of RFC 3339.
pub(crate) fn started() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Machine {
    /// This machine. Unknown values are empty or zero.
    pub(crate) fn here() -> Self {
        Self {
            cpus: std::thread::available_parallelism().map_or(0, |cpus| cpus.get() as u32),
            cpu_model: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            memory_bytes: field(&read("/proc/meminfo"), "MemTotal").and_then(|text| kib(&text)).unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the first value of `name` in a text with lines of the form `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Parses an amount such as `16310404 kB`. Returns bytes.
fn kib(text: &str) -> Option<u64> {
    let kib: u64 = text.strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
