//! The numbers of a load, for reports.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::failure::FailureClass;
use super::recording::{Recording, SERVERS_MAX};
use super::tally::Tally;
use super::windows::Window;
use crate::error::{Error, Result};
use crate::experiment::record::CurvePoint;

/// Number of points of a latency curve in each decade. In a decade, the fraction of slower calls falls to a tenth: for
/// example, from the quantile 90 % to 99 %, or from 99 % to 99.9 %.
const POINTS_PER_DECADE: u32 = 16;
/// Maximum number of decades (see [`POINTS_PER_DECADE`]) in a latency curve. So a curve ends at the quantile 1 - 10^-6,
/// and only one point follows: the longest call, with the quantile 1.
const DECADES: u32 = 6;

/// The results of a load up to one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Measured time so far; zero during the warm-up.
    pub measured: Duration,
    /// All answered calls.
    pub total: Latency,
    /// The calls that each server answered. The servers have the same order as in `Plan::servers`.
    pub servers: Vec<Latency>,
    /// Calls that were not answered with OK, including those of the warm-up.
    pub failed: u64,
    /// The calls, included in `failed`, that the load did not send: too many calls waited for an answer, or no client
    /// became free in time.
    pub not_sent: u64,
    /// The error of the first failed call of the measured time; without such a call, of the first failed call of the
    /// warm-up.
    pub first_failure: Option<String>,
    /// The calls of the measured time that were not answered with OK, by class; at most 65 classes.
    pub classes: BTreeMap<FailureClass, u64>,
    /// Longest delay of a measured call that the load generator itself caused, because it could not run in time. Always
    /// zero in a closed loop.
    pub held_up: Duration,
    /// Measured calls that the load generator sent over 1 ms late, because it could not run in time. The latencies of
    /// these calls describe the load generator's machine rather than the target.
    pub late: u64,
    /// Delays of measured calls that the load generator itself caused: from the scheduled time until the load generator
    /// sent or queued the call. Empty in a closed loop.
    pub lateness: Latency,
    /// Calls answered since the start of the load, warm-up included.
    pub answered: u64,
    /// The latency curve of all answered calls, ascending by quantile, at most a hundred points. The last point has the
    /// quantile 1. Empty until the load is finished.
    pub curve: Vec<CurvePoint>,
    /// The measured time in slices of 100 ms, of which the last may be shorter. Empty until the load is
    /// finished.
    pub timeline: Vec<Slice>,
    /// The latency in each second from the start of the load on, warm-up included. Empty until the load is finished.
    pub windows: Vec<Window>,
}

impl Snapshot {
    /// Merges the recordings of several loads into the result of one load with all calls. Slices and windows with the
    /// same position are added up. The measured time is that of the longest recording.
    ///
    /// # Errors
    /// If there is no recording, a recording violates a limit, or a recording's number of servers is not `servers`.
    pub(crate) fn merged(recordings: &[Recording], servers: usize) -> Result<Self> {
        let invalid = |what: String, why: String| Error::Message { what, why };
        if recordings.is_empty() {
            return Err(invalid("merging the recordings of loads".to_owned(), "there is none".to_owned()));
        }
        let mut tally = Tally::new(servers.min(SERVERS_MAX));
        for (index, recording) in recordings.iter().enumerate() {
            tally.add(recording).map_err(|why| invalid(format!("the recording of load {}", index + 1), why))?;
        }
        let measured = recordings.iter().map(|recording| recording.measured).max().unwrap_or_default();
        Ok(tally.summary(measured))
    }

    /// The calls of the measured time that were not answered with OK.
    pub fn errors(&self) -> u64 {
        self.classes.values().sum()
    }

    /// Number of calls in the measured time that the load sent, and that have ended with an answer or a failure. Calls
    /// that were not sent cost a proxy no CPU time.
    pub(crate) fn sent(&self) -> u64 {
        let not_sent = self.classes.get(&FailureClass::NotSent).copied().unwrap_or_default();
        (self.total.calls + self.errors()).saturating_sub(not_sent)
    }

    /// Number of calls since the start of the load, warm-up included, that the load sent, and that have ended with an
    /// answer or a failure.
    pub(crate) fn sent_since_start(&self) -> u64 {
        (self.answered + self.failed).saturating_sub(self.not_sent)
    }
}

/// The results of the calls that were sent or due in one slice of 100 ms.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Slice {
    /// Calls that each server answered with OK. The servers have the same order as in `Plan::servers`.
    pub calls: Vec<u64>,
    /// Calls that failed.
    pub failed: u64,
}

impl Slice {
    /// Adds the calls that another load made in the same slice. Both loads have the same servers.
    pub(super) fn add(&mut self, other: &Self) {
        for (calls, added) in self.calls.iter_mut().zip(&other.calls) {
            *calls = calls.saturating_add(*added);
        }
        self.failed = self.failed.saturating_add(other.failed);
    }
}

/// The number and the latency of answered calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Latency {
    /// Answered calls.
    pub calls: u64,
    /// Latency of the shortest call.
    pub min_ms: f64,
    /// Mean of all latencies.
    pub mean_ms: f64,
    /// Standard deviation of the latencies from their mean.
    pub std_dev_ms: f64,
    /// Half of the calls took at most this time.
    pub p50_ms: f64,
    /// 90 of 100 calls took at most this time.
    pub p90_ms: f64,
    /// 99 of 100 calls took at most this time.
    pub p99_ms: f64,
    /// 999 of 1000 calls took at most this time.
    pub p999_ms: f64,
    /// Latency of the longest call.
    pub max_ms: f64,
}

impl Snapshot {
    /// Answered calls per second.
    pub fn calls_per_second(&self) -> f64 {
        match self.measured.as_secs_f64() {
            0.0 => 0.0,
            seconds => self.total.calls as f64 / seconds,
        }
    }

    /// The fraction of the answered calls that each server answered, 0 to 1.
    pub fn shares(&self) -> Vec<f64> {
        let all = self.total.calls.max(1) as f64;
        self.servers.iter().map(|server| server.calls as f64 / all).collect()
    }
}

impl Latency {
    /// Summarizes a histogram of microseconds.
    pub(crate) fn of(us: &Histogram<u64>) -> Self {
        Self {
            calls: us.len(),
            min_ms: us.min() as f64 / 1000.0,
            mean_ms: us.mean() / 1000.0,
            std_dev_ms: us.stdev() / 1000.0,
            p50_ms: ms(us, 0.5),
            p90_ms: ms(us, 0.9),
            p99_ms: ms(us, 0.99),
            p999_ms: ms(us, 0.999),
            max_ms: us.max() as f64 / 1000.0,
        }
    }
}

/// Returns the latency curve of a histogram of microseconds. From each point to the next, the fraction of slower calls
/// shrinks by the same factor.
pub(super) fn curve(us: &Histogram<u64>) -> Vec<CurvePoint> {
    if us.is_empty() {
        return Vec::new();
    }
    let rest = |point: u32| 10f64.powf(-f64::from(point) / f64::from(POINTS_PER_DECADE));
    // Stop where the fraction of slower calls is less than one call: all later points would show the longest call.
    let one_call = 1.0 / us.len() as f64;
    let rests = (0..=POINTS_PER_DECADE * DECADES).map(rest).take_while(|&rest| rest > one_call);
    let point = |quantile| CurvePoint { quantile, ms: ms(us, quantile) };
    rests.map(|rest| point(1.0 - rest)).chain([point(1.0)]).collect()
}

fn ms(us: &Histogram<u64>, quantile: f64) -> f64 {
    us.value_at_quantile(quantile) as f64 / 1000.0
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
