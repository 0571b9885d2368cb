//! The kinds of targets, each with its name and a one-line description.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ambient, envoy, haproxy, l4, leno, linkerd, nginx, traefik};

/// A target: the proxies, tunnels or netfilter rules between the clients and the backends. `Direct` has nothing between
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// No proxy: every connection goes to one backend, chosen at random for each run.
    Direct,
    /// Netfilter rules as kube-proxy writes them: the kernel chooses a backend for each connection.
    L4,
    /// Leno's proxy with one worker.
    Leno,
    /// HAProxy with one thread, HTTP/2 on both sides, leastconn.
    Haproxy,
    /// Envoy with one worker, HTTP/2 on both sides, LEAST_REQUEST.
    Envoy,
    /// Leno's proxy beside the client and in front of each backend, mutual TLS between them.
    LenoMesh,
    /// HAProxy beside the client and in front of each backend, mutual TLS between them.
    HaproxyMesh,
    /// Envoy beside the client and in front of each backend, mutual TLS between them.
    EnvoyMesh,
    /// A TLS tunnel of rustls only, which relays bytes but does not parse calls.
    Tunnel,
    /// Kubernetes without a mesh: the same netfilter rules as [`TargetKind::L4`].
    Vanilla,
    /// Cilium without layer 7: the same netfilter rules as [`TargetKind::L4`].
    CiliumL4,
    /// One Envoy for the whole node, with the settings of Cilium's layer 7 and without TLS.
    CiliumL7,
    /// Envoy beside the client and in front of each backend, with the settings of Istio's sidecars.
    Istio,
    /// Envoy beside the client and in front of each backend, with the settings of Consul's sidecars.
    Consul,
    /// Envoy beside the client and in front of each backend, with the settings of Kuma's sidecars.
    Kuma,
    /// One Envoy with the settings of Istio's waypoint, between two ztunnels. A bare TLS tunnel may replace ztunnel.
    Ambient,
    /// nginx with one worker, round robin.
    Nginx,
    /// Traefik with one thread, round robin.
    Traefik,
    /// linkerd2-proxy beside the client and in front of each backend, with the settings of Linkerd's sidecars. The
    /// control plane is the lab's own.
    Linkerd,
}

/// The program that relays a target's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// No program, or only the lab's own executable.
    None,
    /// The kernel's netfilter, with rules that the program nft installs.
    Netfilter,
    Leno,
    Haproxy,
    Envoy,
    /// Envoy with ztunnel, or Envoy with the lab's own tunnel.
    Ambient,
    Nginx,
    Traefik,
    Linkerd,
}

impl TargetKind {
    /// Every kind.
    pub const ALL: [Self; 19] = [
        Self::Direct,
        Self::L4,
        Self::Leno,
        Self::Haproxy,
        Self::Envoy,
        Self::LenoMesh,
        Self::HaproxyMesh,
        Self::EnvoyMesh,
        Self::Tunnel,
        Self::Vanilla,
        Self::CiliumL4,
        Self::CiliumL7,
        Self::Istio,
        Self::Consul,
        Self::Kuma,
        Self::Ambient,
        Self::Nginx,
        Self::Traefik,
        Self::Linkerd,
    ];

    /// Whether the target has processes that relay calls, so that its CPU time and memory can be measured.
    pub fn is_proxy(self) -> bool {
        self != Self::Direct && !self.is_netfilter()
    }

    /// Whether the kernel balances connections by netfilter rules.
    pub fn is_netfilter(self) -> bool {
        self.program() == Program::Netfilter
    }

    /// Whether the target represents a system of a published comparison. `leno lab run` measures such a target only if
    /// `--targets` names it.
    pub fn is_published_condition(self) -> bool {
        let stands_for_a_mesh = matches!(self, Self::Istio | Self::Consul | Self::Kuma | Self::Ambient);
        let stands_for_a_node = matches!(self, Self::Vanilla | Self::CiliumL4 | Self::CiliumL7);
        stands_for_a_mesh || stands_for_a_node || matches!(self, Self::Nginx | Self::Traefik | Self::Linkerd)
    }

    /// Whether calls pass at least two proxies, with mutual TLS between these proxies.
    pub fn is_mesh(self) -> bool {
        let is_plain_mesh = matches!(self, Self::LenoMesh | Self::HaproxyMesh | Self::EnvoyMesh);
        is_plain_mesh || matches!(self, Self::Istio | Self::Consul | Self::Kuma | Self::Ambient | Self::Linkerd)
    }

    /// Whether TLS encrypts the bytes between the client's side and the servers' side.
    pub fn has_tls(self) -> bool {
        self.is_mesh() || self == Self::Tunnel
    }

    /// Whether the lab can configure the target to retry calls.
    pub(crate) fn can_retry(self) -> bool {
        matches!(self, Self::Leno | Self::LenoMesh | Self::Envoy | Self::EnvoyMesh)
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
            Self::Vanilla => "Kubernetes without a mesh: netfilter rules, as l4",
            Self::CiliumL4 => "Cilium without layer 7, as far as it balances: netfilter rules, as l4",
            Self::CiliumL7 => "one Envoy for the node with Cilium's settings, ROUND_ROBIN",
            Self::Istio => "Envoy on both sides with the settings of Istio's sidecars, LEAST_REQUEST, mutual TLS",
            Self::Consul => "Envoy on both sides with the settings of Consul's sidecars, ROUND_ROBIN, mutual TLS",
            Self::Ambient => {
                "ztunnel, or a bare TLS tunnel, on both sides of one Envoy with the settings of Istio's waypoint"
            }
            Self::Nginx => "nginx, one worker, round robin",
            Self::Traefik => "Traefik, one thread, round robin",
            Self::Linkerd => "linkerd2-proxy on both sides, peak EWMA, mutual TLS, the lab's own control plane",
            Self::Kuma => "Envoy on both sides with the settings of Kuma's sidecars, ROUND_ROBIN, mutual TLS",
        }
    }

    pub(super) fn program(self) -> Program {
        match self {
            Self::Direct | Self::Tunnel => Program::None,
            Self::L4 | Self::Vanilla | Self::CiliumL4 => Program::Netfilter,
            Self::Leno | Self::LenoMesh => Program::Leno,
            Self::Haproxy | Self::HaproxyMesh => Program::Haproxy,
            Self::Envoy | Self::EnvoyMesh | Self::CiliumL7 => Program::Envoy,
            Self::Istio | Self::Consul | Self::Kuma => Program::Envoy,
            Self::Ambient => Program::Ambient,
            Self::Nginx => Program::Nginx,
            Self::Traefik => Program::Traefik,
            Self::Linkerd => Program::Linkerd,
        }
    }

    /// The command that installs the target's program.
    pub fn install(self) -> &'static str {
        match self.program() {
            Program::None => "nothing to install",
            Program::Netfilter => l4::INSTALL,
            Program::Leno => leno::BUILD,
            Program::Haproxy => haproxy::INSTALL,
            Program::Envoy => envoy::INSTALL,
            Program::Ambient => ambient::INSTALL,
            Program::Nginx => nginx::INSTALL,
            Program::Traefik => traefik::INSTALL,
            Program::Linkerd => linkerd::INSTALL,
        }
    }

    /// The target's name on the command line and in result files.
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
            Self::Vanilla => "vanilla",
            Self::CiliumL4 => "cilium-l4",
            Self::CiliumL7 => "cilium-l7",
            Self::Istio => "istio",
            Self::Consul => "consul",
            Self::Kuma => "kuma",
            Self::Ambient => "ambient",
            Self::Nginx => "nginx",
            Self::Traefik => "traefik",
            Self::Linkerd => "linkerd",
        }
    }
}

impl fmt::Display for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
