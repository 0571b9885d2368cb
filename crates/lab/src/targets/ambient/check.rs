//! Checks that both ztunnels have opened connections with HBONE only.
//!
//! A ztunnel does not encrypt a connection to a destination that it does not know. Its metrics label each connection
//! with `connection_security_policy`. The label of an HBONE connection is `mutual_tls`, because HBONE always uses
//! mutual TLS.

use std::net::SocketAddr;

use super::super::metrics::{ensure_encrypted, label};
use super::certificates::CertificateService;
use crate::error::Result;

/// The metric that counts the connections that a ztunnel opened.
const OPENED: &str = "istio_tcp_connections_opened_total{";

/// The certificate service, which runs as long as the target, and the addresses of the ztunnels' metrics.
pub(super) struct Running {
    /// The address of the metrics of the ztunnel on the client's node.
    pub(super) client: SocketAddr,
    /// The address of the metrics of the ztunnel on the servers' node.
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

/// Returns `None` if a ztunnel's metrics prove that it opened connections, all of them with HBONE. Otherwise, returns
/// the reason. `reporter` is the value of the label `reporter` to look for: `source` or `destination`.
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
