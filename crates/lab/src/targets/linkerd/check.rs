//! The check that an outbound proxy has sent calls over mutual TLS only.
//!
//! linkerd2-proxy decides for each endpoint whether to use TLS, for example by the endpoint's IP address. A proxy that
//! decides against TLS sends the calls past the inbound proxy, which halves the costs without any error.

use std::net::SocketAddr;

use super::super::metrics::{ensure_encrypted, label};
use super::control::ControlPlane;
use crate::error::Result;

/// The parts of a running mesh that end with its target.
pub(super) struct Running {
    /// The admin endpoint of the outbound proxy; `None` without one.
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

/// A connection without mutual TLS.
#[derive(Debug, PartialEq, Eq)]
struct Connection<'a> {
    endpoint: &'a str,
    /// The proxy's own reason.
    reason: &'a str,
}

/// Returns the first connection to an endpoint without mutual TLS.
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
