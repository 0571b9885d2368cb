//! Checks that an outbound proxy has sent calls over mutual TLS only.
//!
//! linkerd2-proxy decides for each endpoint whether to use TLS, for example by the endpoint's IP address. Without TLS,
//! the outbound proxy sends the calls directly to the application, past the inbound proxy. No error would reveal this,
//! but the costs of the inbound proxy would be missing from the result.

use std::net::SocketAddr;

use super::super::metrics::{ensure_encrypted, label};
use super::control::ControlPlane;
use crate::error::Result;

/// The control plane, which runs as long as the target, and the address of the outbound proxy's metrics.
pub(super) struct Running {
    /// The address of the outbound proxy's metrics; `None` if the mesh has no outbound proxy.
    pub(super) outbound_admin: Option<SocketAddr>,
    pub(super) _control: ControlPlane,
}

impl super::super::ControlPlane for Running {
    fn ensure_encrypted(&self) -> Result<()> {
        let Some(admin) = self.outbound_admin else { return Ok(()) };
        ensure_encrypted(&format!("the outbound linkerd2-proxy at {admin}"), admin, |metrics| {
            let Connection { endpoint, reason } = in_the_clear(metrics)?;
            Some(format!(
                "it connected to {endpoint} without mutual TLS (reason: {reason}); try another version of linkerd2-proxy"
            ))
        })
    }
}

/// A connection of the outbound proxy without mutual TLS.
#[derive(Debug, PartialEq, Eq)]
struct Connection<'a> {
    endpoint: &'a str,
    /// The proxy's own reason.
    reason: &'a str,
}

/// Finds the first connection without mutual TLS from the outbound proxy to an endpoint; `None` if there is none.
fn in_the_clear(metrics: &str) -> Option<Connection<'_>> {
    let is_to_endpoint = |line: &&str| {
        let is_outbound = label(line, "direction") == Some("outbound") && label(line, "peer") == Some("dst");
        line.starts_with("tcp_open_total{") && is_outbound
    };
    let line = metrics.lines().filter(is_to_endpoint).find(|line| label(line, "tls") != Some("true"))?;
    let of = |name| label(line, name).unwrap_or("unknown");
    Some(Connection { endpoint: of("target_addr"), reason: of("no_tls_reason") })
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
