//! Reads the metrics of proxies.

use std::net::SocketAddr;

use crate::error::{Error, Result};
use crate::http;

/// Checks, by the metrics at `address`, that the proxy `what` has sent no calls without mutual TLS. `fault` examines
/// the metrics, and returns the reason why they do not prove this.
///
/// # Errors
/// [`Error::Tls`] if `fault` returns a reason, or if the metrics cannot be read.
pub(super) fn ensure_encrypted(
    what: &str,
    address: SocketAddr,
    fault: impl FnOnce(&str) -> Option<String>,
) -> Result<()> {
    let answer = http::fetch(address, "/metrics").filter(|answer| answer.status == 200);
    let why = match answer {
        Some(answer) => fault(&answer.body),
        None => Some("its metrics cannot be read".to_owned()),
    };
    why.map_or(Ok(()), |why| Err(Error::Tls { what: what.to_owned(), why }))
}

/// Returns the value of the label `name` in a line of metrics.
pub(super) fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let labels = line.split_once('{')?.1;
    labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.split('"').next())
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
