//! Durations as Go's `time.Duration` prints them: `1.2ms`, `350µs`, `1m2.5s`.

/// Longest text that is accepted, in bytes. Go prints at most 25 bytes.
const TEXT_MAX_BYTES: usize = 40;

/// The units, each with its length in ms. For microseconds, Go writes the micro sign, and also reads the Greek letter
/// mu.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-6),
    ("us", 1e-3),
    ("\u{b5}s", 1e-3),
    ("\u{3bc}s", 1e-3),
    ("ms", 1.0),
    ("s", 1e3),
    ("m", 60e3),
    ("h", 3_600e3),
];

/// Parses a duration into ms. `None` if the text is not a duration or is negative: a latency cannot be negative.
pub(super) fn parse_ms(text: &str) -> Option<f64> {
    if text.is_empty() || text.len() > TEXT_MAX_BYTES {
        return None;
    }
    let mut rest = text;
    let mut total_ms = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let (_, ms) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        total_ms += number * ms;
        rest = after;
    }
    Some(total_ms)
}

#[cfg(test)]
#[path = "go_duration_tests.rs"]
mod tests;
