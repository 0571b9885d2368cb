//! Kubernetes' quantities, such as `500m` of a CPU or `128Mi` of memory.

/// Returns a quantity as a number of CPUs or bytes; `None` if the text is empty or malformed.
pub fn amount(quantity: &str) -> Option<f64> {
    let end = quantity.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(quantity.len());
    let (digits, suffix) = quantity.split_at(end);
    let number: f64 = digits.parse().ok()?;
    match suffix {
        "" => Some(number),
        // Divide, because 1e-3 is not exact in binary: 9 * 1e-3 is above 0.009.
        "m" => Some(number / 1e3),
        "k" => Some(number * 1e3),
        "M" => Some(number * 1e6),
        "G" => Some(number * 1e9),
        "T" => Some(number * 1e12),
        "P" => Some(number * 1e15),
        "E" => Some(number * 1e18),
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
