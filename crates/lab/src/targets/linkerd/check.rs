//! The check that an outbound proxy has sent calls over mutual TLS only.
//!
//! linkerd2-proxy decides for each endpoint whether to use TLS, for example by the endpoint's IP address. A proxy that
//! decides against TLS sends the calls past the inbound proxy, which halves the costs without any error.

use std::net::SocketAddr;

use super::control::ControlPlane;
use crate::error::{Error, Result};
use crate::http;

/// The parts of a running mesh that end with its target.
pub(in super::super) struct Running {
    /// The admin endpoint of the outbound proxy; `None` without one.
    pub(super) outbound_admin: Option<SocketAddr>,
    pub(super) _control: ControlPlane,
}

impl Running {
    /// Fails if the outbound proxy has opened a connection to an endpoint without mutual TLS.
    ///
    /// # Errors
    /// Also if the proxy's metrics cannot be read.
    pub(in super::super) fn ensure_encrypted(&self) -> Result<()> {
        let Some(admin) = self.outbound_admin else { return Ok(()) };
        let wrong =
            |why: &str| Error::Tls { what: format!("the outbound linkerd2-proxy at {admin}"), why: why.to_owned() };
        let answer = http::fetch(admin, "/metrics").filter(|answer| answer.status == 200);
        let metrics = answer.ok_or_else(|| wrong("its metrics cannot be read"))?.body;
        in_the_clear(&metrics).map_or(Ok(()), |line| Err(wrong(&format!("it used a connection without TLS: {line}"))))
    }
}

/// Returns the first metric of connections to an endpoint without mutual TLS.
fn in_the_clear(metrics: &str) -> Option<&str> {
    let to_endpoints = |line: &&str| {
        let is_outbound = line.contains("direction=\"outbound\"") && line.contains("peer=\"dst\"");
        line.starts_with("tcp_open_total{") && is_outbound
    };
    metrics.lines().filter(to_endpoints).find(|line| !line.contains("tls=\"true\""))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
