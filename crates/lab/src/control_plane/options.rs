//! The command line of `leno lab control-plane`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::plan::{Plan, SMALL};
use crate::error::{Error, Result};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Memory of leno-control: with 3 Services and 3 proxies, and with all
    Memory,
    /// How soon changed endpoints reach the proxies: one change at a time, and many every second
    Changes,
    /// Memory of a real leno-proxy whose workload calls 2 Services: of 3, and of all
    ProxyMemory,
}

/// Options of `leno lab control-plane`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// What is measured [default: everything]
    #[arg(value_enum, value_name = "PART")]
    pub parts: Vec<Part>,
    /// The cluster, on which Leno is not installed
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: PathBuf,
    /// Where runs.jsonl, summary.md and the programs' logs go
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Services of the large mesh
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(i64::from(SMALL)..=5_000))]
    pub services: u32,
    /// Endpoints of each Service
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub endpoints: u32,
    /// Proxies of the large mesh, simulated
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(i64::from(SMALL)..=10_000))]
    pub proxies: u32,
    /// Services that each proxy subscribes to
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub subscriptions: u32,
    /// Changes of the Service that every proxy subscribes to, one at a time
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub single_changes: u32,
    /// Changes of random Services per second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub changes_per_s: u32,
    /// For how long these are made
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub duration_s: u32,
    /// How long memory settles before it is read
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = clap::value_parser!(u32).range(0..=600))]
    pub settle_s: u32,
    /// What is random is so again with the same seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The leno-control binary [default: beside this program]
    #[arg(long, value_name = "PATH")]
    pub leno_control: Option<PathBuf>,
    /// The leno-proxy binary [default: beside this program]
    #[arg(long, value_name = "PATH")]
    pub leno_proxy: Option<PathBuf>,
}

impl Options {
    /// Whether this part is measured.
    pub(super) fn measures(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// The large mesh.
    ///
    /// # Errors
    /// When proxies are to subscribe to more Services than there are.
    pub(super) fn plan(&self) -> Result<Plan> {
        let Self { services, endpoints, proxies, subscriptions, .. } = *self;
        if subscriptions > services {
            return Err(Error::Usage(format!(
                "--subscriptions {subscriptions} of {services} Services cannot be; use at most {services}"
            )));
        }
        Ok(Plan { services, endpoints, proxies, subscriptions })
    }

    pub(super) fn settle(&self) -> Duration {
        Duration::from_secs(self.settle_s.into())
    }
}
