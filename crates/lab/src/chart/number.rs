//! Formats numbers for people: three significant digits, and commas between the thousands.

/// The text for a missing number.
pub const NONE: &str = "\u{2013}";

/// Formats a number with three significant digits and at most three decimals, trailing zeros kept: `1.10`, `12.3`,
/// `81,500`. Values that are not finite give [`NONE`].
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() < 0.0005 {
        return if value > 0.0 { "< 0.001".to_owned() } else { "0".to_owned() };
    }
    let (rounded, exponent) = rounded(value);
    let decimals = (2 - exponent).clamp(0, 3).unsigned_abs() as usize;
    with_thousands(&format!("{rounded:.decimals$}"))
}

/// Formats a number with three significant digits and without trailing zeros: `1.1`, `0.05`, `10,000`.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let (rounded, exponent) = rounded(value);
    let decimals = (2 - exponent).clamp(0, 12).unsigned_abs() as usize;
    let text = format!("{rounded:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    with_thousands(text)
}

/// Formats a whole number with commas between the thousands: `10,000`.
pub fn grouped(count: u64) -> String {
    with_thousands(&count.to_string())
}

/// Returns `value` rounded to three significant digits, and its decimal exponent.
fn rounded(value: f64) -> (f64, i32) {
    let scientific = format!("{value:.2e}");
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or_default();
    (scientific.parse().unwrap_or(value), exponent)
}

/// Puts commas between the thousands of a decimal number.
fn with_thousands(number: &str) -> String {
    let whole = number.find('.').unwrap_or(number.len());
    let mut text = String::with_capacity(number.len() + number.len() / 3);
    for (at, c) in number.char_indices() {
        let left = whole.saturating_sub(at);
        if at > 0 && at < whole && left.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
