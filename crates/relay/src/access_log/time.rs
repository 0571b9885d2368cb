//! Formats of times and durations in log lines.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

/// Writes a time in the form `2026-11-22T03:10:00.123Z` (RFC 3339).
pub(super) struct Rfc3339(pub(super) SystemTime);

/// Writes a time in the form `22/Nov/2026:03:10:00 +0000`.
pub(super) struct Apache(pub(super) SystemTime);

/// Writes a duration in milliseconds, in the form `12.345`.
pub(super) struct Milliseconds(pub(super) Duration);

/// Returns the time in UTC, and the milliseconds of its second. Returns the start of 1970 for a time before 1970 or
/// after 9999.
fn utc(time: SystemTime) -> (OffsetDateTime, u32) {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since_1970.as_secs()).ok();
    match seconds.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok()) {
        Some(utc) => (utc, since_1970.subsec_millis()),
        None => (OffsetDateTime::UNIX_EPOCH, 0),
    }
}

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (utc, ms) = utc(self.0);
        let (year, month, day) = (utc.year(), u8::from(utc.month()), utc.day());
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}Z", utc.hour(), utc.minute(), utc.second())
    }
}

impl fmt::Display for Apache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (utc, _) = utc(self.0);
        let (day, month, year) = (utc.day(), MONTHS[usize::from(u8::from(utc.month()) - 1)], utc.year());
        write!(f, "{day:02}/{month}/{year:04}:{:02}:{:02}:{:02} +0000", utc.hour(), utc.minute(), utc.second())
    }
}

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0.as_millis(), self.0.subsec_micros() % 1_000)
    }
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
