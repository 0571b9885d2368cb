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

/// One probe: its port and its path, written as `8080/healthz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The port on which the application listens, 1 to 65535.
    pub port: u16,
    /// The requested path. gRPC's own health check is a path too.
    pub path: HealthPath,
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
}

/// The probes of one workload, by port. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Probes(BTreeMap<u16, ProbePaths>);

/// Paths that every caller may request on one port. Cheap to clone; empty for most ports.
#[derive(Clone, Debug, Default)]
pub struct ProbePaths(Option<Arc<[HealthPath]>>);

impl Probes {
    /// Limit on the number of probes of one workload. A container has at most three.
    pub const MAX: usize = 256;

    /// The probes of a port.
    pub fn on(&self, port: u16) -> ProbePaths {
        self.0.get(&port).cloned().unwrap_or_default()
    }
}

impl FromIterator<Probe> for Probes {
    /// Collects the first [`Probes::MAX`] probes, and drops the others.
    fn from_iter<I: IntoIterator<Item = Probe>>(probes: I) -> Self {
        let mut by_port: BTreeMap<u16, Vec<HealthPath>> = BTreeMap::new();
        for Probe { port, path } in probes.into_iter().take(Self::MAX) {
            by_port.entry(port).or_default().push(path);
        }
        Self(by_port.into_iter().map(|(port, paths)| (port, ProbePaths(Some(paths.into())))).collect())
    }
}

impl ProbePaths {
    /// Returns whether no probe uses the port.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the request is one of the probes.
    pub(super) fn match_any(&self, request: &Request<'_>) -> bool {
        self.0.iter().flat_map(|paths| paths.iter()).any(|path| path.matches(request))
    }
}

impl FromStr for Probe {
    type Err = BadProbe;

    fn from_str(text: &str) -> Result<Self, BadProbe> {
        let (port, path) = text.find('/').and_then(|slash| text.split_at_checked(slash)).ok_or(BadProbe::Form)?;
        let port = number(port).ok_or(BadProbe::Form)?;
        Ok(Self { port, path: path.parse()? })
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.port, self.path)
    }
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
