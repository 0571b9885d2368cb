//! Finds the value of a plain scalar, which is text without quotes.
//!
//! kubectl reads YAML 1.1 as go-yaml does: `yes` is true, `0644` is octal. Authors expect kubectl's reading, so the
//! same rules apply here.

use serde_json::{Number, Value};

/// Returns null, a boolean or a number if the text means one of these in YAML 1.1, and a string otherwise.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => return Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    let number = match text.as_bytes() {
        [b'0'..=b'9' | b'+' | b'-', ..] => {
            let digits = text.replace('_', "");
            integer(&digits).or_else(|| float(&digits))
        }
        [b'.', ..] => float(text),
        _ => None,
    };
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

/// Parses an integer: decimal, or with a prefix: `0x`, `0o` or `0` (octal), `0b`.
fn integer(text: &str) -> Option<Number> {
    let (is_negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    // `from_str_radix` would accept a second sign.
    let magnitude = Some(digits).filter(|digits| digits.bytes().all(|b| b.is_ascii_alphanumeric()));
    let magnitude = u64::from_str_radix(magnitude?, radix).ok()?;
    if is_negative { 0_i64.checked_sub_unsigned(magnitude).map(Number::from) } else { Some(Number::from(magnitude)) }
}

/// Parses digits with a point or an exponent. Returns `None` for values that JSON cannot represent, such as infinity;
/// such values stay text. Whole numbers become integers, as Go writes them.
fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let starts = unsigned.strip_prefix('.').unwrap_or(unsigned).starts_with(|c: char| c.is_ascii_digit());
    let allowed = unsigned.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    let number: f64 = (starts && allowed).then(|| text.parse().ok()).flatten()?;
    match format!("{number}").parse::<i64>() {
        Ok(whole) => Some(whole.into()),
        Err(_) => Number::from_f64(number),
    }
}

#[cfg(test)]
#[path = "scalar_tests.rs"]
mod tests;
