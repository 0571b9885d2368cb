//! The check that both ztunnels have sent and received calls in HBONE only.
//!
//! A ztunnel forwards a connection in the clear if it does not know the destination. Its metrics distinguish the
//! connections with HBONE, which always has mutual TLS, by `connection_security_policy`.

use std::net::SocketAddr;

use super::super::metrics::{ensure_encrypted, label};
use super::certificates::CertificateService;
use crate::error::Result;

/// The metric that counts opened connections.
const OPENED: &str = "istio_tcp_connections_opened_total{";

/// The parts of a running mesh that end with its target.
pub(super) struct Running {
    /// The metrics of the ztunnel on the client's node.
    pub(super) client: SocketAddr,
    /// The metrics of the ztunnel on the servers' node.
    pub(super) servers: SocketAddr,
    pub(super) _certificates: CertificateService,
}

impl super::super::ControlPlane for Running {
    fn ensure_encrypted(&self) -> Result<()> {
        [(self.client, "source"), (self.servers, "destination")].into_iter().try_for_each(|(address, reporter)| {
            let what = format!("the ztunnel with metrics at {address}");
            ensure_encrypted(&what, address, |metrics| what_is_wrong(metrics, reporter))
        })
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
