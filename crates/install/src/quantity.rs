//! Kubernetes' quantities, such as `500m` of a CPU or `128Mi` of memory.

/// Returns a quantity as a number of CPUs or bytes; `None` if the text is empty or malformed.
pub fn amount(quantity: &str) -> Option<f64> {
    let end = quantity.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(quantity.len());
    let (digits, suffix) = quantity.split_at(end);
    let number: f64 = digits.parse().ok()?;
    match suffix {
        "" => Some(number),
        "m" => scaled(digits, -3),
        "k" => scaled(digits, 3),
        "M" => scaled(digits, 6),
        "G" => scaled(digits, 9),
        "T" => scaled(digits, 12),
        "P" => scaled(digits, 15),
        "E" => scaled(digits, 18),
        "Ki" => Some(number * 1_024.0),
        "Mi" => Some(number * 1_024_f64.powi(2)),
        "Gi" => Some(number * 1_024_f64.powi(3)),
        "Ti" => Some(number * 1_024_f64.powi(4)),
        "Pi" => Some(number * 1_024_f64.powi(5)),
        "Ei" => Some(number * 1_024_f64.powi(6)),
        _ if suffix.starts_with(['e', 'E']) => quantity.parse().ok(),
        _ => None,
    }
}

/// Returns a number times a power of ten. Rounds only once: in binary, 1.07 * 1e9 is above 1070 * 1e6.
fn scaled(digits: &str, exponent: i32) -> Option<f64> {
    format!("{digits}e{exponent}").parse().ok()
}
