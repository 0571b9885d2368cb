//! The command line of `leno lab control-plane`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::plan::{Plan, SMALL};
use crate::error::{Error, Result};

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Memory of leno-control: in a mesh of 3 Services and 3 proxies, and in the large mesh
    Memory,
    /// Time until changed endpoints reach the proxies: with one change at a time, and with many every second
    Changes,
    /// Memory of a real leno-proxy whose workload calls 2 Services: in a mesh of 3 Services, and in the large mesh
    ProxyMemory,
}

/// Options of `leno lab control-plane`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Parts to measure [default: all]
    #[arg(value_enum, value_name = "PART")]
    pub parts: Vec<Part>,
    /// Kubeconfig of the cluster, on which Leno must not be installed
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: PathBuf,
    /// Directory for runs.jsonl, summary.md and the programs' logs
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Services of the large mesh
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(i64::from(SMALL)..=5_000))]
    pub services: u32,
    /// Endpoints of each Service
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub endpoints: u32,
    /// Simulated proxies of the large mesh
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(i64::from(SMALL)..=10_000))]
    pub proxies: u32,
    /// Services to which each proxy subscribes
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub subscriptions: u32,
    /// Changes, one at a time, of the Service to which every proxy subscribes
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub single_changes: u32,
    /// Changes of random Services per second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub changes_per_s: u32,
    /// Duration of the changes of random Services, in seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub duration_s: u32,
    /// Time for memory to settle before it is read, in seconds
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = clap::value_parser!(u32).range(0..=600))]
    pub settle_s: u32,
    /// Seed of all random choices
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
    /// Returns whether to measure this part.
    pub(super) fn measures(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// Returns the size of the large mesh.
    ///
    /// # Errors
    /// If proxies would subscribe to more Services than exist.
    pub(super) fn plan(&self) -> Result<Plan> {
        let Self { services, endpoints, proxies, subscriptions, .. } = *self;
        if subscriptions > services {
            return Err(Error::Usage(format!(
                "--subscriptions {subscriptions} is more than the {services} Services; use at most {services}"
            )));
        }
        Ok(Plan { services, endpoints, proxies, subscriptions })
    }

    pub(super) fn settle(&self) -> Duration {
        Duration::from_secs(self.settle_s.into())
    }
}
