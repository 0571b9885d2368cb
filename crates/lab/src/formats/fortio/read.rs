//! Reads Fortio's results of HTTP, gRPC, TCP and UDP.

use super::super::measured::{Form, Measured, counts, percent};
use super::document::Document;

const MS_PER_S: f64 = 1e3;

/// Reads a result.
///
/// # Errors
/// A text that names the missing or invalid field.
pub(in crate::formats) fn read(text: &str) -> Result<Measured, String> {
    let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let histogram = &document.duration_histogram;
    let at = |percentile: f64| {
        let point = histogram.percentiles.iter().find(|point| point.percentile == percentile)?;
        Some(point.value * MS_PER_S)
    };
    let (calls, failed) = counts(&document.ret_codes)?;
    // Prefer Fortio's own count of errors: an option of Fortio changes which codes are errors.
    let failed = document.errors_duration_histogram.as_ref().map_or(failed, |errors| errors.count);
    let measured = Measured {
        form: Form::Fortio,
        label: document.labels,
        p50_ms: at(50.0),
        p90_ms: at(90.0),
        p99_ms: at(99.0),
        p999_ms: at(99.9),
        mean_ms: (histogram.count > 0).then_some(histogram.avg * MS_PER_S),
        rate_per_s: Some(document.actual_qps),
        errors_percent: percent(failed, calls),
    };
    measured.checked()
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
