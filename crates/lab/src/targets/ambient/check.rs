//! The check that both ztunnels have sent and received calls in HBONE only.
//!
//! A ztunnel forwards a connection in the clear if it does not know the destination. Its metrics distinguish the
//! connections with HBONE, which always has mutual TLS, by `connection_security_policy`.

use std::net::SocketAddr;

use super::super::metrics::label;
use super::certificates::CertificateService;
use crate::error::{Error, Result};
use crate::http;

/// The metric that counts opened connections.
const OPENED: &str = "istio_tcp_connections_opened_total{";

/// The parts of a running mesh that end with its target.
pub(in super::super) struct Running {
    /// The metrics of the ztunnel on the client's node.
    pub(super) client: SocketAddr,
    /// The metrics of the ztunnel on the servers' node.
    pub(super) servers: SocketAddr,
    pub(super) _certificates: CertificateService,
}

impl Running {
    /// Fails if one of the ztunnels has opened a connection without HBONE, or no connection with HBONE.
    ///
    /// # Errors
    /// Also if the metrics of a ztunnel cannot be read.
    pub(in super::super) fn ensure_encrypted(&self) -> Result<()> {
        for (address, reporter) in [(self.client, "source"), (self.servers, "destination")] {
            let answer = http::fetch(address, "/metrics").filter(|answer| answer.status == 200);
            let wrong = answer.map_or_else(
                || Some("its metrics cannot be read".to_owned()),
                |answer| what_is_wrong(&answer.body, reporter),
            );
            if let Some(why) = wrong {
                return Err(Error::Tls { what: format!("the ztunnel with metrics at {address}"), why });
            }
        }
        Ok(())
    }
}

/// Returns what contradicts that a ztunnel has opened connections with HBONE only. `reporter` is its side of a
/// connection in metrics.
fn what_is_wrong(metrics: &str, reporter: &str) -> Option<String> {
    let opened = metrics.lines().filter(|line| line.starts_with(OPENED) && label(line, "reporter") == Some(reporter));
    let policies: Vec<&str> =
        opened.map(|line| label(line, "connection_security_policy").unwrap_or("unknown")).collect();
    match policies.iter().find(|&&policy| policy != "mutual_tls") {
        Some(policy) => Some(format!(
            "it opened a connection without HBONE (connection_security_policy {policy}); try another version of ztunnel"
        )),
        None if policies.is_empty() => Some(
            "no connection has passed it, so the calls took another path; try another version of ztunnel".to_owned(),
        ),
        None => None,
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
