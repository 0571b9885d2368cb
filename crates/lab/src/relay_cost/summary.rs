//! The results of the rounds, and the table that summarizes them.

use std::fmt::{self, Write as _};

use crate::experiment::record::TargetKind;
use crate::procfs::Memory;
use crate::units::mb;

/// The results of one target in one round.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Sample {
    pub(super) target: TargetKind,
    /// Number of the round, from 1.
    pub(super) round: u32,
    pub(super) calls: u64,
    pub(super) connections: u32,
    pub(super) concurrency: u32,
    /// Size of one response's body: its messages with their gRPC prefixes.
    pub(super) response_bytes: u64,
    pub(super) calls_per_second: f64,
    /// CPU time of the proxy per call, in user and kernel mode; `None` for a target without a proxy.
    pub(super) cpu_us_per_call: Option<f64>,
    /// CPU time of the proxy during the load, divided by the elapsed time; `None` for a target without a proxy.
    pub(super) cpu_busy: Option<f64>,
    pub(super) memory: Option<Memory>,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, round, .. } = self;
        write!(f, "round {round:<3} {target:8}")?;
        write!(f, " {:>9} calls/s", rate(self.calls_per_second))?;
        match self.cpu_us_per_call {
            Some(cpu) => write!(f, "  {cpu:6.2} us/call"),
            None => Ok(()),
        }
    }
}

/// Returns a table with one row for each measured target, in the order of [`TargetKind::ALL`].
pub(super) fn table(samples: &[Sample]) -> String {
    let mut table = String::from(
        "\n\
         target       calls/s   CPU us/call [min - max]       vs haproxy   CPU busy   RSS MB (peak)\n",
    );
    for target in TargetKind::ALL {
        let rounds: Vec<&Sample> = samples.iter().filter(|s| s.target == target).collect();
        if !rounds.is_empty() {
            write_row(&mut table, target, &rounds, samples).expect("a String takes all text");
        }
    }
    table
}

fn write_row(table: &mut String, target: TargetKind, rounds: &[&Sample], all: &[Sample]) -> fmt::Result {
    let typical_rate = median(rounds.iter().map(|s| s.calls_per_second)).unwrap_or_default();
    let cpu = || rounds.iter().filter_map(|s| s.cpu_us_per_call);
    write!(table, "{target:8} {:>11}", rate(typical_rate))?;
    let Some(typical) = median(cpu()) else {
        return writeln!(table);
    };
    let least = cpu().fold(f64::INFINITY, f64::min);
    let most = cpu().fold(0.0, f64::max);
    let range = format!("[{least:.2} - {most:.2}]");
    let ratio = median(rounds.iter().filter_map(|s| ratio_to_haproxy(s, all)));
    let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let busy = median(rounds.iter().filter_map(|s| s.cpu_busy)).unwrap_or_default() * 100.0;
    write!(table, "{typical:>14.2} {range:<18}{ratio:>9}{busy:>9.0} %")?;
    let Some(memory) = rounds.last().and_then(|s| s.memory) else {
        return writeln!(table);
    };
    let [resident, peak] = [memory.resident_bytes(), memory.peak_bytes()].map(mb);
    writeln!(table, "{resident:>9.1} ({peak:.1})")
}

/// Formats a rate in whole calls per second, or with one decimal below 100.
fn rate(calls_per_second: f64) -> String {
    let decimals = if calls_per_second < 100.0 { 1 } else { 0 };
    format!("{calls_per_second:.decimals$}")
}

/// The sample's CPU time per call, divided by HAProxy's CPU time per call in the same round. `None` if one of the two
/// is unknown.
fn ratio_to_haproxy(sample: &Sample, all: &[Sample]) -> Option<f64> {
    let haproxy = all.iter().find(|s| s.target == TargetKind::Haproxy && s.round == sample.round)?;
    Some(sample.cpu_us_per_call? / haproxy.cpu_us_per_call?)
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get(values.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
