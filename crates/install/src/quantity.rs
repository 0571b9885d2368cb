//! Kubernetes' quantities, such as `500m` of a CPU or `128Mi` of memory.

/// Returns a quantity as a number of CPUs or bytes; `None` if the text is empty or malformed.
pub fn amount(quantity: &str) -> Option<f64> {
    let end = quantity.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(end);
    let unit = match suffix {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => 1_024.0,
        "Mi" => 1_024_f64.powi(2),
        "Gi" => 1_024_f64.powi(3),
        "Ti" => 1_024_f64.powi(4),
        "Pi" => 1_024_f64.powi(5),
        "Ei" => 1_024_f64.powi(6),
        "E" => 1e18,
        _ => 10_f64.powi(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    number.parse::<f64>().ok().map(|number| number * unit)
}
