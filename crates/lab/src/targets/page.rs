//! The pages of the targets, which `leno lab list TARGET` prints.

use crate::experiment::record::TargetKind;

impl TargetKind {
    /// The page about the target: its data plane, the source of its settings, and the differences from the real system.
    pub fn page(self) -> &'static str {
        match self {
            Self::Direct => include_str!("pages/direct.txt"),
            Self::L4 => include_str!("pages/l4.txt"),
            Self::Leno => include_str!("pages/leno.txt"),
            Self::Haproxy => include_str!("pages/haproxy.txt"),
            Self::Envoy => include_str!("pages/envoy.txt"),
            Self::LenoMesh => include_str!("pages/leno-mesh.txt"),
            Self::HaproxyMesh => include_str!("pages/haproxy-mesh.txt"),
            Self::EnvoyMesh => include_str!("pages/envoy-mesh.txt"),
            Self::Tunnel => include_str!("pages/tunnel.txt"),
            Self::Vanilla => include_str!("pages/vanilla.txt"),
            Self::CiliumL4 => include_str!("pages/cilium-l4.txt"),
            Self::CiliumL7 => include_str!("pages/cilium-l7.txt"),
            Self::Istio => include_str!("pages/istio.txt"),
            Self::Consul => include_str!("pages/consul.txt"),
            Self::Kuma => include_str!("pages/kuma.txt"),
            Self::Ambient => include_str!("pages/ambient.txt"),
            Self::Nginx => include_str!("pages/nginx.txt"),
            Self::Traefik => include_str!("pages/traefik.txt"),
            Self::Linkerd => include_str!("pages/linkerd.txt"),
        }
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
