//! The settings in a Service's annotations, and their defaults.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// The settings of a cluster's connections; each field is an annotation of the Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Maximum time to establish a connection. `leno.dev/connect-timeout`, 10 ms to 1 min, default 1 s.
    #[serde(rename = "connect_timeout_ms", serialize_with = "milliseconds")]
    pub connect_timeout: Duration,
    /// Limit on one worker's connections to one endpoint. `leno.dev/max-connections-per-endpoint`, 1 to 1024, default
    /// 16.
    pub max_connections_per_endpoint: u16,
    /// Time after which a connection without calls is closed. `leno.dev/idle-timeout`, 1 s to 24 h, default 1 min.
    #[serde(rename = "idle_timeout_ms", serialize_with = "milliseconds")]
    pub idle_timeout: Duration,
    /// Age after which a connection gets no new calls; new calls use a new connection. `leno.dev/max-connection-age`, 1
    /// s to 7 days, default none.
    #[serde(rename = "max_connection_age_ms", serialize_with = "milliseconds_or_none")]
    pub max_connection_age: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(1),
            max_connections_per_endpoint: 16,
            idle_timeout: Duration::from_secs(60),
            max_connection_age: None,
        }
    }
}

/// Parses a duration of Gateway API (GEP-2257), for example `1h30m`, `10s` or `500ms`: one to four parts, each of one
/// to five digits and a unit. `None` if invalid.
pub fn parse_duration(text: &str) -> Option<Duration> {
    const PARTS_MAX: usize = 4;
    const DIGITS_MAX: usize = 5;
    let mut total = Duration::ZERO;
    let mut parts = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at_checked(digits)?;
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_end)?;
        let unit_ms = match unit {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1_000,
            "ms" => 1,
            _ => return None,
        };
        parts += 1;
        if parts > PARTS_MAX || digits > DIGITS_MAX {
            return None;
        }
        let number: u64 = number.parse().ok()?;
        total += Duration::from_millis(number * unit_ms);
        rest = after;
    }
    (parts > 0).then_some(total)
}

/// Formats a duration in the form that [`parse_duration`] reads. Drops fractions of a millisecond.
pub fn format_duration(duration: Duration) -> String {
    let mut rest_ms = duration.as_millis();
    let mut text = String::new();
    for (unit, unit_ms) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        let count = rest_ms / unit_ms;
        rest_ms %= unit_ms;
        if count > 0 {
            text += &format!("{count}{unit}");
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

pub(crate) fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    milliseconds_or_none(&Some(*duration), serializer)
}

// serde's `serialize_with` calls this function with a reference to the field, so the type cannot be
// `Option<&Duration>`.
#[allow(clippy::ref_option)]
pub(crate) fn milliseconds_or_none<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let ms = duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    ms.serialize(serializer)
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
