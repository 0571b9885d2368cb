//! Reads the brief JSON of published benchmark scripts, which parse `Result.Latency.P99` and `RetCodes`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::go_duration;
use super::measured::{Form, Measured, counts, percent};

const MS_PER_S: f64 = 1e3;

/// The accepted form:
///
/// ```json
/// {
///   "Labels": "one slow pod",
///   "Result": {"Latency": {"P50": 0.0012, "P90": "1.9ms", "P99": "4.5ms"}, "ActualQPS": 500},
///   "RetCodes": {"200": 4990, "503": 10}
/// }
/// ```
///
/// - `Result.Latency.P99` and `RetCodes` are required. The map `RetCodes` has the number of calls for each code. Calls
///   with the codes 200 to 299, `OK`, `SERVING` and 0 succeeded, all other calls failed.
/// - `P50`, `P90`, `P999` (or `P99.9`) and `Mean` (or `Avg`) in `Result.Latency` are optional, and so is
///   `Result.ActualQPS`, the calls per second.
/// - A latency is a number of seconds, or a text in the form of Go's durations, such as `"1.2ms"`.
/// - `Labels` is optional: a text, or a map of texts.
///
/// Other fields are ignored. A field of this list with another type is an error, and so is a figure that
/// [`Measured::checked`] refuses.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    #[serde(default)]
    labels: Labels,
    result: Figures,
    ret_codes: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "Labels must be a text, or a map of texts")]
enum Labels {
    Text(String),
    Map(BTreeMap<String, String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Figures {
    latency: Latency,
    #[serde(rename = "ActualQPS")]
    actual_qps: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Latency {
    p50: Option<Time>,
    p90: Option<Time>,
    p99: Time,
    #[serde(alias = "P99.9")]
    p999: Option<Time>,
    #[serde(alias = "Avg")]
    mean: Option<Time>,
}

/// A latency: seconds, or a duration of Go.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a latency must be a number of seconds, or a duration such as \"1.2ms\"")]
enum Time {
    Seconds(f64),
    Text(String),
}

/// Reads a report.
///
/// # Errors
/// A text that names the missing or invalid field.
pub(super) fn read(text: &str) -> Result<Measured, String> {
    let Report { labels, result, ret_codes } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Latency { p50, p90, p99, p999, mean } = result.latency;
    let (calls, failed) = counts(&ret_codes)?;
    let measured = Measured {
        form: Form::Brief,
        label: labels.text(),
        p50_ms: p50.map(Time::ms).transpose()?,
        p90_ms: p90.map(Time::ms).transpose()?,
        p99_ms: Some(p99.ms()?),
        p999_ms: p999.map(Time::ms).transpose()?,
        mean_ms: mean.map(Time::ms).transpose()?,
        rate_per_s: result.actual_qps,
        errors_percent: percent(failed, calls),
    };
    measured.checked()
}

impl Labels {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Map(map) => {
                map.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

impl Default for Labels {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Time {
    fn ms(self) -> Result<f64, String> {
        match self {
            Self::Seconds(seconds) => Ok(seconds * MS_PER_S),
            Self::Text(text) => go_duration::parse_ms(&text)
                .ok_or_else(|| format!("a latency is {text:?}, which is no duration such as \"1.2ms\"")),
        }
    }
}

#[cfg(test)]
#[path = "brief_tests.rs"]
mod tests;
