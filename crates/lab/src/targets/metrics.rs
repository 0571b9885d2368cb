//! Reading of the metrics of proxies.

/// Returns the value of a label of a metric.
pub(super) fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let labels = line.split_once('{')?.1;
    labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.split('"').next())
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
