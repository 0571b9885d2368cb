//! A kubelet's TCP probes, which the proxy makes in the kubelet's place.
//!
//! Connections to the application's ports are redirected to the proxy, and the kernel accepts them for the proxy. So a
//! kubelet's TCP probe would succeed even if the application did not listen. The injector therefore replaces each TCP
//! probe by an HTTP probe of a page of the proxy's admin endpoint. For a request of this page, the proxy connects to the
//! application's port.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::protocol::number;

/// The path of the pages, up to the number of the application's port.
pub const PATH: &str = "/probe/tcp/";

/// A TCP probe: the application's port and the kubelet's timeout, written as `8080/1s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpProbe {
    /// The port on which the application listens, 1 to 65535.
    pub port: u16,
    /// The time after which the kubelet takes the probe for failed, 1 to [`TcpProbe::TIMEOUT_MAX_S`].
    pub timeout_s: u8,
}

/// Error: a text is not a TCP probe. The message says what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a port and a time of 1s to {max}s, for example 8080/1s", max = TcpProbe::TIMEOUT_MAX_S)]
pub struct BadTcpProbe;

impl TcpProbe {
    /// Limit on the number of TCP probes of one workload. A container has at most three.
    pub const MAX: usize = 256;
    /// Kubernetes' default timeout of a probe, in seconds.
    pub const DEFAULT_TIMEOUT_S: u8 = 1;
    /// Longest timeout, in seconds. The admin endpoint answers each request within this time.
    pub const TIMEOUT_MAX_S: u8 = 10;

    pub fn timeout(self) -> Duration {
        Duration::from_secs(self.timeout_s.into())
    }
}

impl FromStr for TcpProbe {
    type Err = BadTcpProbe;

    fn from_str(text: &str) -> Result<Self, BadTcpProbe> {
        let (port, timeout) = text.split_once('/').ok_or(BadTcpProbe)?;
        let timeout = timeout.strip_suffix('s').ok_or(BadTcpProbe)?;
        let timeout_s = number(timeout).and_then(|seconds| u8::try_from(seconds).ok());
        let timeout_s = timeout_s.filter(|seconds| *seconds <= Self::TIMEOUT_MAX_S);
        let (port, timeout_s) = number(port).zip(timeout_s).ok_or(BadTcpProbe)?;
        Ok(Self { port, timeout_s })
    }
}

impl fmt::Display for TcpProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}s", self.port, self.timeout_s)
    }
}

#[cfg(test)]
#[path = "tcp_probe_tests.rs"]
mod tests;
