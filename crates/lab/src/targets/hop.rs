//! One proxy process, whatever its program: its address, its upstreams, and its protocols towards clients and
//! upstreams.

use std::net::SocketAddr;
use std::path::Path;

use super::Setting;
use crate::child::Child;
use crate::error::Result;
use crate::experiment::record::{CallPolicy, Protocol, TargetKind};
use crate::tls::Credentials;

/// The protocol on one side of a proxy: towards its clients or towards its upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Http1,
    Http2,
    /// Bytes that the proxy does not parse.
    Opaque,
}

/// Mutual TLS on one side of a proxy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tls<'a> {
    /// The proxy's own credentials.
    pub(super) credentials: &'a Credentials,
    /// The SPIFFE id that the peer must have.
    pub(super) peer: &'a str,
}

/// One side of a proxy: towards its clients (downstream) or towards its upstreams.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) wire: Wire,
    /// TLS on this side; `None` if this side is not encrypted.
    pub(super) tls: Option<Tls<'a>>,
}

/// One proxy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop<'a> {
    /// Name of the proxy, from which the names of its log and configuration derive. Unique within a run.
    pub(super) name: &'a str,
    pub(super) listener: SocketAddr,
    /// The protocol of the client's and the server's application.
    pub(super) protocol: Protocol,
    pub(super) downstream: Side<'a>,
    pub(super) upstream: Side<'a>,
    /// Whether the proxy retries or hedges calls.
    pub(super) policy: CallPolicy,
    /// The addresses among which the proxy distributes calls.
    pub(super) upstreams: &'a [SocketAddr],
    /// Directory for the proxy's configuration and log.
    pub(super) dir: &'a Path,
    /// The CPUs that the proxy may use; empty for all.
    pub(super) cpus: &'a [usize],
}

/// A proxy that may not be ready yet.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) listener: SocketAddr,
    /// The address that serves `/ready`; `None` if the proxy has no such page.
    pub(super) admin: Option<SocketAddr>,
}

impl Protocol {
    /// The wire protocol between a proxy and an application.
    pub(super) fn wire(self) -> Wire {
        match self {
            Self::Grpc | Self::Http2 => Wire::Http2,
            Self::Http1 => Wire::Http1,
            Self::Tcp => Wire::Opaque,
        }
    }

    /// The wire protocol between two proxies of the mesh `kind`. Most meshes send HTTP/1.1 requests as HTTP/2 requests.
    /// Istio does so only with `h2UpgradePolicy`, which the lab does not set.
    pub(super) fn mesh_wire(self, kind: TargetKind) -> Wire {
        match self {
            Self::Http1 if kind == TargetKind::Istio => Wire::Http1,
            Self::Grpc | Self::Http1 | Self::Http2 => Wire::Http2,
            Self::Tcp => Wire::Opaque,
        }
    }
}

impl Wire {
    /// The protocol's ALPN name in TLS.
    pub(super) fn alpn(self) -> Option<&'static str> {
        match self {
            Self::Http1 => Some("http/1.1"),
            Self::Http2 => Some("h2"),
            Self::Opaque => None,
        }
    }
}

impl<'a> Side<'a> {
    pub(super) fn in_clear(wire: Wire) -> Self {
        Self { wire, tls: None }
    }

    pub(super) fn secure(wire: Wire, credentials: &'a Credentials, peer: &'a str) -> Self {
        Self { wire, tls: Some(Tls { credentials, peer }) }
    }
}

impl<'a> Hop<'a> {
    /// A proxy that is the only one between clients and backends; it does not encrypt.
    pub(super) fn alone(name: &'a str, listener: SocketAddr, setting: &Setting<'a>) -> Self {
        let side = Side::in_clear(setting.protocol.wire());
        Self {
            name,
            listener,
            protocol: setting.protocol,
            downstream: side,
            upstream: side,
            policy: setting.policy,
            upstreams: setting.backends,
            dir: setting.dir,
            cpus: setting.cpus,
        }
    }
}

impl Started {
    /// Waits until the proxy is ready and accepts connections.
    pub(super) fn wait(self) -> Result<Child> {
        let Self { mut child, listener, admin } = self;
        if let Some(admin) = admin {
            child.wait_for_http_ok(admin, "/ready")?;
        }
        child.wait_for_listener(listener)?;
        Ok(child)
    }
}

#[cfg(test)]
#[path = "hop_tests.rs"]
mod tests;
