//! One run: the figures that the lab and other tools report.

use std::collections::BTreeMap;
use std::fmt;

/// Longest latency that a foreign file may report, in ms: 11 days.
const LATENCY_MAX_MS: f64 = 1e9;
/// Highest rate that a foreign file may report, in calls per second.
const RATE_MAX_PER_S: f64 = 1e9;

/// The file format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A directory of `leno lab run`.
    Leno,
    /// The JSON of `fortio load -json`, which `leno lab run` writes too.
    Fortio,
    /// The JSON of `ghz --format json`.
    Ghz,
    /// JSON with `Result.Latency` and `RetCodes`.
    Brief,
}

/// The figures of one run. A figure that the file lacks is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub form: Form,
    /// Label of the run; empty if the file has none. Runs of one file or directory with the same label are repeats.
    pub label: String,
    /// Half of the calls took at most this time.
    pub p50_ms: Option<f64>,
    /// 90 of 100 calls took at most this time.
    pub p90_ms: Option<f64>,
    /// 99 of 100 calls took at most this time.
    pub p99_ms: Option<f64>,
    /// 999 of 1,000 calls took at most this time.
    pub p999_ms: Option<f64>,
    /// Mean of all latencies.
    pub mean_ms: Option<f64>,
    /// Calls per second, failed calls included.
    pub rate_per_s: Option<f64>,
    /// Failed calls in percent of all calls, 0 to 100.
    pub errors_percent: Option<f64>,
}

impl Measured {
    /// Returns the run, unless a figure is impossible.
    ///
    /// # Errors
    /// A text that names the impossible figure. Impossible are:
    /// - a latency or a rate that is negative, not finite or above its limit,
    /// - percentiles that do not ascend, and
    /// - more failed calls than calls.
    pub(super) fn checked(self) -> Result<Self, String> {
        let percentiles = [("p50", self.p50_ms), ("p90", self.p90_ms), ("p99", self.p99_ms), ("p99.9", self.p999_ms)];
        let latencies = percentiles.into_iter().chain([("the mean", self.mean_ms)]);
        let limited = latencies
            .map(|(name, ms)| (name, ms, LATENCY_MAX_MS, "ms"))
            .chain([("the rate", self.rate_per_s, RATE_MAX_PER_S, "calls/s")])
            .chain([("the share of failed calls", self.errors_percent, 100.0, "%")]);
        for (name, value, max, unit) in limited {
            if let Some(value) = value.filter(|value| !(0.0..=max).contains(value)) {
                return Err(format!("{name} is {value} {unit}, which is not between 0 and {max}"));
            }
        }
        let known: Vec<(&str, f64)> = percentiles.into_iter().filter_map(|(name, ms)| Some((name, ms?))).collect();
        for pair in known.windows(2) {
            let [(lower, less), (upper, more)] = pair else { continue };
            if less > more {
                return Err(format!("{lower} is {less} ms, which is more than {upper} with {more} ms"));
            }
        }
        Ok(self)
    }
}

/// Returns the failed calls in percent; `None` without calls.
pub(super) fn percent(failed: u64, calls: u64) -> Option<f64> {
    (calls > 0).then(|| failed as f64 * 100.0 / calls as f64)
}

/// Returns all calls and the failed calls. The codes of success are 200 to 299, gRPC's 0 and `OK`, and `SERVING`, which
/// Fortio uses for every successful gRPC call.
///
/// # Errors
/// If there are more than 2^64 calls.
pub(super) fn counts(codes: &BTreeMap<String, u64>) -> Result<(u64, u64), String> {
    let is_ok = |code: &str| {
        matches!(code, "0" | "OK" | "SERVING") || code.parse::<u16>().is_ok_and(|code| (200..300).contains(&code))
    };
    let calls = codes.values().try_fold(0u64, |sum, calls| sum.checked_add(*calls));
    let calls = calls.ok_or("its codes have more than 2^64 calls together")?;
    let failed = codes.iter().filter(|(code, _)| !is_ok(code)).map(|(_, calls)| *calls).sum();
    Ok((calls, failed))
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leno => "leno",
            Self::Fortio => "Fortio",
            Self::Ghz => "ghz",
            Self::Brief => "Result.Latency",
        })
    }
}

#[cfg(test)]
#[path = "measured_tests.rs"]
mod tests;
