//! The targets by name and in one line each.

use std::fmt;

use super::{envoy, haproxy, l4, leno};
use crate::experiment::record::TargetKind;

impl TargetKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Direct,
        Self::L4,
        Self::Leno,
        Self::Haproxy,
        Self::Envoy,
        Self::LenoMesh,
        Self::HaproxyMesh,
        Self::EnvoyMesh,
        Self::Tunnel,
    ];

    /// Whether the target is a program that relays calls, and thus has CPU time and memory of its own.
    pub fn is_proxy(self) -> bool {
        !matches!(self, Self::Direct | Self::L4)
    }

    /// Whether calls go through two proxies with mutual TLS between them.
    pub fn is_mesh(self) -> bool {
        matches!(self, Self::LenoMesh | Self::HaproxyMesh | Self::EnvoyMesh)
    }

    /// Whether bytes cross the network in TLS.
    pub fn has_tls(self) -> bool {
        self.is_mesh() || self == Self::Tunnel
    }

    pub fn is_leno(self) -> bool {
        matches!(self, Self::Leno | Self::LenoMesh)
    }

    /// A one-line description.
    pub fn what(self) -> &'static str {
        match self {
            Self::Direct => "no proxy: each connection goes to one backend, at random",
            Self::L4 => "netfilter rules as kube-proxy writes them: the kernel balances connections",
            Self::Leno => "Leno's proxy, one worker, its default balancer",
            Self::Haproxy => "HAProxy, one thread, leastconn",
            Self::Envoy => "Envoy, one worker, LEAST_REQUEST",
            Self::LenoMesh => "Leno's proxy on both sides, mutual TLS between them",
            Self::HaproxyMesh => "HAProxy on both sides, mutual TLS between them",
            Self::EnvoyMesh => "Envoy on both sides, mutual TLS between them",
            Self::Tunnel => "a TLS tunnel with nothing in it but rustls",
        }
    }

    /// The command that installs the target's program.
    pub fn install(self) -> &'static str {
        match self {
            Self::Direct | Self::Tunnel => "nothing to install",
            Self::L4 => l4::INSTALL,
            Self::Leno | Self::LenoMesh => leno::BUILD,
            Self::Haproxy | Self::HaproxyMesh => haproxy::INSTALL,
            Self::Envoy | Self::EnvoyMesh => envoy::INSTALL,
        }
    }

    /// The target's name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::L4 => "l4",
            Self::Leno => "leno",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::LenoMesh => "leno-mesh",
            Self::HaproxyMesh => "haproxy-mesh",
            Self::EnvoyMesh => "envoy-mesh",
            Self::Tunnel => "tunnel",
        }
    }
}

impl fmt::Display for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
