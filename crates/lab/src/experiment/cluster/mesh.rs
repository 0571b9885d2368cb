//! The meshes that the lab can measure in a cluster: how a namespace joins a mesh, and which containers belong to the
//! mesh.

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;
use leno_install::annotations::INJECT;
use leno_install::names::{CONTROL_LABELS, PROXY};

use crate::experiment::record::TargetKind;

/// A mesh of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Mesh {
    /// No mesh: kube-proxy or its replacement balances connections
    None,
    /// Leno
    Leno,
    /// Linkerd
    Linkerd,
    /// Istio with sidecars
    Istio,
    /// Istio with ztunnel
    Ambient,
    /// Kuma
    Kuma,
}

/// The proxies of a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proxies {
    /// No proxies.
    None,
    /// A container of this name in each Pod.
    Sidecars(&'static str),
    /// Separate Pods with these labels. Each of these Pods serves several workloads.
    Shared(&'static str),
}

impl Mesh {
    /// All variants. The first is [`Mesh::None`], the cluster without a mesh.
    pub(super) const ALL: [Self; 6] = [Self::None, Self::Leno, Self::Linkerd, Self::Istio, Self::Ambient, Self::Kuma];

    /// The name in records and reports.
    pub(super) fn target(self) -> TargetKind {
        match self {
            Self::None => TargetKind::Vanilla,
            Self::Leno => TargetKind::LenoMesh,
            Self::Linkerd => TargetKind::Linkerd,
            Self::Istio => TargetKind::Istio,
            Self::Ambient => TargetKind::Ambient,
            Self::Kuma => TargetKind::Kuma,
        }
    }

    /// The labels of the mesh's control plane Pods; `None` without a mesh.
    pub(super) fn control_labels(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Leno => Some(CONTROL_LABELS),
            Self::Linkerd => Some("linkerd.io/control-plane-component"),
            Self::Istio | Self::Ambient => Some("app=istiod"),
            Self::Kuma => Some("app=kuma-control-plane"),
        }
    }

    /// The labels of Pods by which the lab finds this mesh in a cluster; `None` without a mesh.
    pub(super) fn sign(self) -> Option<&'static str> {
        match self.proxies() {
            Proxies::Shared(labels) => Some(labels),
            Proxies::None | Proxies::Sidecars(_) => self.control_labels(),
        }
    }

    pub(super) fn proxies(self) -> Proxies {
        match self {
            Self::None => Proxies::None,
            Self::Leno => Proxies::Sidecars(PROXY),
            Self::Linkerd => Proxies::Sidecars("linkerd-proxy"),
            Self::Istio => Proxies::Sidecars("istio-proxy"),
            Self::Ambient => Proxies::Shared("app=ztunnel"),
            Self::Kuma => Proxies::Sidecars("kuma-sidecar"),
        }
    }

    /// The namespace for the servers and the load whose calls go through this mesh.
    pub(super) fn namespace(self) -> String {
        format!("leno-lab-{self}")
    }

    /// The annotations of a namespace that joins this mesh and no other mesh.
    pub(super) fn annotations(self) -> BTreeMap<String, String> {
        let of = |mesh: Self| if self == mesh { "enabled" } else { "disabled" }.to_owned();
        [(INJECT.to_owned(), of(Self::Leno)), ("linkerd.io/inject".to_owned(), of(Self::Linkerd))].into()
    }

    /// The labels of a namespace that joins this mesh and no other mesh.
    pub(super) fn labels(self) -> BTreeMap<String, String> {
        let of = |mesh: Self| if self == mesh { "enabled" } else { "disabled" }.to_owned();
        let ambient = if self == Self::Ambient { "ambient" } else { "none" }.to_owned();
        [
            ("istio-injection".to_owned(), of(Self::Istio)),
            ("istio.io/dataplane-mode".to_owned(), ambient),
            ("kuma.io/sidecar-injection".to_owned(), of(Self::Kuma)),
        ]
        .into()
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Leno => "leno",
            Self::Linkerd => "linkerd",
            Self::Istio => "istio",
            Self::Ambient => "ambient",
            Self::Kuma => "kuma",
        })
    }
}

#[cfg(test)]
#[path = "mesh_tests.rs"]
mod tests;
