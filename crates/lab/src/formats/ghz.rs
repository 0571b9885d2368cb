//! Reads the JSON of `ghz --format json`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::measured::{Form, Measured, counts, percent};

/// Nanoseconds in one ms.
const NS_PER_MS: f64 = 1e6;

/// The part of ghz's report that the lab uses. The report also lists each call under `details`; the lab
/// ignores that list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    #[serde(default)]
    name: String,
    /// Mean latency in ns, failed calls included.
    average: f64,
    /// Calls per second.
    rps: f64,
    /// Percentiles of the latency; absent or `null` if no call was answered.
    latency_distribution: Option<Vec<Point>>,
    /// Number of calls for each gRPC code by name, such as `OK` and `Unavailable`.
    status_code_distribution: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Point {
    /// Percent of the calls, 0 to 100.
    percentage: f64,
    /// Latency that `percentage` percent of the calls did not exceed, in ns.
    latency: f64,
}

/// Reads a report. ghz reports no p99.9.
///
/// # Errors
/// A text that names the missing or invalid field.
pub(super) fn read(text: &str) -> Result<Measured, String> {
    let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let points = report.latency_distribution.unwrap_or_default();
    let at = |percentage: f64| {
        let point = points.iter().find(|point| point.percentage == percentage)?;
        Some(point.latency / NS_PER_MS)
    };
    let (calls, failed) = counts(&report.status_code_distribution)?;
    let measured = Measured {
        form: Form::Ghz,
        label: report.name,
        p50_ms: at(50.0),
        p90_ms: at(90.0),
        p99_ms: at(99.0),
        p999_ms: at(99.9),
        mean_ms: (calls > failed).then_some(report.average / NS_PER_MS),
        rate_per_s: Some(report.rps),
        errors_percent: percent(failed, calls),
    };
    measured.checked()
}

#[cfg(test)]
#[path = "ghz_tests.rs"]
mod tests;
