//! `leno check`: checks whether Leno can be installed, whether it is installed correctly, and whether its proxies work.
//!
//! `read` fetches the objects from the cluster; `trial` and `pre` also ask the API server for dry runs. Otherwise the
//! modules are pure and draw conclusions from the objects:
//! `kubernetes`, `cilium`, `pre`, `images`, `installed`, `new_pods`, `trial`, `namespaces`, `networks`, `trust`, `proxies`
//! with `refused`, `probes` and `ports`.
//! A [`report::Checklist`] skips a check if one of the check's prerequisites failed.

mod absence;
mod cilium;
mod images;
mod installed;
mod kubernetes;
mod namespaces;
mod networks;
mod new_pods;
mod ports;
mod pre;
mod probes;
mod proxies;
mod read;
mod refused;
mod report;
mod trial;
mod trust;

#[cfg(test)]
mod fixtures;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use leno_model::settings::parse_duration;

use super::connect::{Cluster, Connect};
use super::progress::sign_of_life;
use super::table::{Output, has_colours, show};
use report::Checklist;

/// Pause between two rounds of checks.
const PAUSE: Duration = Duration::from_secs(1);

/// Options of `leno check`.
#[derive(Args)]
pub(crate) struct Options {
    /// Before an installation: check whether Leno would work in this cluster, and whether you have the rights to
    /// install it
    #[arg(long, conflicts_with = "proxy")]
    pre: bool,
    /// With --pre: a value that you will install with, as image.registry=registry.example/mesh; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "pre")]
    set: Vec<String>,
    /// Check every proxy too, and find Pods that should have a proxy but have none
    #[arg(long)]
    proxy: bool,
    /// With --proxy: check the Pods of this namespace only; default: all namespaces
    #[arg(long, short, value_name = "NAME", requires = "proxy")]
    namespace: Option<String>,
    /// Repeat the checks until none fails, at most for this time, for example 90s or 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    wait: Option<Duration>,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

impl Options {
    /// Runs the checks. The exit code is a failure if a check fails.
    pub(crate) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        // Before the first request to the cluster, reject chart values in `--set` that the chart does not accept.
        let plan = self.pre.then(|| pre::Plan::new(&self.set)).transpose()?;
        let list = super::block_on(self.check(plan.as_ref()))??;
        show(self.output, &list, |list| list.text(has_colours()))?;
        Ok(if list.failure().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    async fn check(&self, plan: Option<&pre::Plan>) -> Result<Checklist, super::connect::ClusterError> {
        let cluster = self.connect.cluster().await?;
        let until = Instant::now() + self.wait.unwrap_or_default();
        let progress = sign_of_life("asking the cluster");
        loop {
            let list = self.look(&cluster, plan).await;
            match list.failure() {
                Some(failure) if Instant::now() + PAUSE < until => {
                    progress.set_message(format!("waiting: {}: {}", failure.name, failure.why));
                    tokio::time::sleep(PAUSE).await;
                }
                _ => {
                    progress.finish_and_clear();
                    return Ok(list);
                }
            }
        }
    }

    /// Checks the planned installation or, without a plan, the installation in the cluster.
    async fn look(&self, cluster: &Cluster, plan: Option<&pre::Plan>) -> Checklist {
        if let Some(plan) = plan {
            return pre::conclude(&pre::read(cluster, plan).await, plan);
        }
        let installed = read::installed(cluster).await;
        let mut list = installed::conclude(&installed, SystemTime::now());
        if self.proxy {
            let proxies = read::proxies(cluster, self.namespace.as_deref()).await;
            proxies::conclude(&mut list, &installed, &proxies, SystemTime::now());
        }
        list
    }
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a duration, for example 90s or 5m".to_owned())
}
