//! Reading of the metrics of proxies.

use std::net::SocketAddr;

use crate::error::{Error, Result};
use crate::http;

/// Fails if the metrics at `address` show that the proxy `what` has sent calls without mutual TLS: `fault` returns what
/// they show.
///
/// # Errors
/// Also if the metrics cannot be read.
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

/// Returns the value of a label of a metric.
pub(super) fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let labels = line.split_once('{')?.1;
    labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.split('"').next())
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
