//! The publications by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::definition::Publication;
use super::{five_meshes, kinvolk, ladder, slow_pod};

/// A published comparison that the lab can measure again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Name {
    /// Buoyant: six conditions under one slow pod
    #[value(name = "slow-pod-2026")]
    #[serde(rename = "slow-pod-2026")]
    SlowPod2026,
    /// Five meshes under gRPC calls over 10,000 connections
    #[value(name = "five-meshes-2026")]
    #[serde(rename = "five-meshes-2026")]
    FiveMeshes2026,
    /// Istio and Linkerd under 100 to 5,000 HTTP requests a second
    #[value(name = "ladder-2026")]
    #[serde(rename = "ladder-2026")]
    Ladder2026,
    /// Kinvolk: bare, Linkerd and Istio with a graph of services
    #[value(name = "kinvolk-2019")]
    #[serde(rename = "kinvolk-2019")]
    Kinvolk2019,
}

impl Name {
    /// Every publication.
    pub const ALL: [Self; 4] = [Self::SlowPod2026, Self::FiveMeshes2026, Self::Ladder2026, Self::Kinvolk2019];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::SlowPod2026 => "slow-pod-2026",
            Self::FiveMeshes2026 => "five-meshes-2026",
            Self::Ladder2026 => "ladder-2026",
            Self::Kinvolk2019 => "kinvolk-2019",
        }
    }

    /// The authors of the comparison, its date, and what it compares.
    pub fn who(self) -> &'static str {
        self.publication().who
    }

    pub(super) fn publication(self) -> &'static Publication {
        match self {
            Self::SlowPod2026 => &slow_pod::PUBLICATION,
            Self::FiveMeshes2026 => &five_meshes::PUBLICATION,
            Self::Ladder2026 => &ladder::PUBLICATION,
            Self::Kinvolk2019 => &kinvolk::PUBLICATION,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
