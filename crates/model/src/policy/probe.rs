//! A kubelet's probes of a workload, as the Pod's spec lists them.
//!
//! A kubelet has no identity, so policies would deny its probes, and the kubelet would restart a healthy application.
//! The proxy therefore allows the requests of probes on their ports, regardless of the policies. The paths in a
//! policy's `healthChecks` are likewise open to every caller.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{BadPath, HealthPath, Request};
use crate::protocol::number;

/// Maximum length of a query in bytes.
const QUERY_MAX_BYTES: usize = 1_024;

/// One probe: its port, its path and its query, written as `8080/healthz?verbose`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The port on which the application listens, 1 to 65535.
    port: u16,
    /// The requested path. gRPC's own health check is a path too.
    path: HealthPath,
    /// The query without its question mark; `None` if the request has no question mark.
    query: Option<Box<str>>,
}

/// Error: a text is not a probe. The message says what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadProbe {
    /// No port precedes the path.
    #[error("write a port and a path, for example 8080/healthz")]
    Form,
    /// The path is not in normal form.
    #[error(transparent)]
    Path(#[from] BadPath),
    /// The query has a character that no request target may contain, or is too long.
    #[error("write a query of at most 1024 bytes, without white space, control characters and #")]
    Query,
}

/// The probes of one workload, by port. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Probes(BTreeMap<u16, PortProbes>);

/// The requests that every caller may make to one port. Cheap to clone; empty for most ports.
#[derive(Clone, Debug, Default)]
pub struct PortProbes(Option<Arc<[Probe]>>);

impl Probe {
    /// Creates a probe that requests `target`, a path with or without a query.
    ///
    /// # Errors
    /// See [`BadProbe`].
    pub fn new(port: u16, target: &str) -> Result<Self, BadProbe> {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        // The characters that the proxy accepts in a request. Kubelets send characters beyond ASCII as they are written.
        let is_sent = |byte: u8| byte > b' ' && byte != 0x7f && byte != b'#';
        let is_plain = |query: &str| query.len() <= QUERY_MAX_BYTES && query.bytes().all(is_sent);
        if !query.is_none_or(is_plain) {
            return Err(BadProbe::Query);
        }
        Ok(Self { port, path: path.parse()?, query: query.map(Into::into) })
    }

    /// Returns the port on which the application listens, 1 to 65535.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the HTTP method of the probe.
    pub fn method(&self) -> &'static str {
        self.path.method()
    }

    /// Returns the path of the probe, with its query.
    pub fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.to_string(),
        }
    }

    /// Returns whether the request is this probe. The query must be equal, because it decides what some applications
    /// do, for example a server of GraphQL.
    fn matches(&self, request: &Request<'_>) -> bool {
        let query = request.path.splitn(2, |byte| *byte == b'?').nth(1);
        self.path.matches(request) && self.query.as_deref().map(str::as_bytes) == query
    }
}

impl Probes {
    /// Limit on the number of probes of one workload. A container has at most three.
    pub const MAX: usize = 256;

    /// The probes of a port.
    pub fn on(&self, port: u16) -> PortProbes {
        self.0.get(&port).cloned().unwrap_or_default()
    }
}

impl FromIterator<Probe> for Probes {
    /// Collects the first [`Probes::MAX`] probes, and drops the others.
    fn from_iter<I: IntoIterator<Item = Probe>>(probes: I) -> Self {
        let mut by_port: BTreeMap<u16, Vec<Probe>> = BTreeMap::new();
        for probe in probes.into_iter().take(Self::MAX) {
            by_port.entry(probe.port).or_default().push(probe);
        }
        Self(by_port.into_iter().map(|(port, probes)| (port, PortProbes(Some(probes.into())))).collect())
    }
}

impl PortProbes {
    /// Returns whether no probe uses the port.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the request is one of the probes.
    pub(super) fn match_any(&self, request: &Request<'_>) -> bool {
        self.0.iter().flat_map(|probes| probes.iter()).any(|probe| probe.matches(request))
    }
}

impl FromStr for Probe {
    type Err = BadProbe;

    fn from_str(text: &str) -> Result<Self, BadProbe> {
        let (port, target) = text.find('/').and_then(|slash| text.split_at_checked(slash)).ok_or(BadProbe::Form)?;
        Self::new(number(port).ok_or(BadProbe::Form)?, target)
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.port, self.target())
    }
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
