//! `leno check`: whether Leno can be installed, is installed well, and whether its proxies work.
//!
//! `read` asks the cluster for all that is needed; the others conclude from it, purely: `kubernetes`, `pre`, `images`,
//! `installed`, `new_pods`, `namespaces`, `trust`, `proxies` with `probes` and `ports`. A [`report::Checklist`] says which checks depend on which.

mod absence;
mod images;
mod installed;
mod kubernetes;
mod namespaces;
mod new_pods;
mod ports;
mod pre;
mod probes;
mod proxies;
mod read;
mod report;
mod trust;

#[cfg(test)]
mod fixtures;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use leno_install::chart::{default_values, set_value};
use leno_model::settings::parse_duration;
use serde_json::Value;

use super::connect::{Cluster, Connect};
use super::progress::sign_of_life;
use super::table::{Output, has_colours, show};
use report::Checklist;

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Options of `leno check`.
#[derive(Args)]
pub(crate) struct Options {
    /// Before an installation: whether it would work here, and whether you may
    #[arg(long, conflicts_with = "proxy")]
    pre: bool,
    /// With --pre: a value that you will install with, as image.registry=registry.example/mesh; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "pre")]
    set: Vec<String>,
    /// Look at every proxy too, and at Pods that should have one
    #[arg(long)]
    proxy: bool,
    /// With --proxy: the namespace of the Pods to look at; without it, all
    #[arg(long, short, value_name = "NAME", requires = "proxy")]
    namespace: Option<String>,
    /// Look again until nothing fails, for so long: 90s, 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    wait: Option<Duration>,
    /// How the checks are shown
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

impl Options {
    /// Checks; fails if a check does.
    pub(crate) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut values = default_values(false)?;
        for set in &self.set {
            set_value(&mut values, set)?;
        }
        if !self.set.is_empty() {
            // Names and values that the chart does not take end here.
            leno_install::chart::objects(&values)?;
        }
        let list = super::block_on(self.check(&values))??;
        show(self.output, &list, |list| list.text(has_colours()))?;
        Ok(if list.failure().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    async fn check(&self, values: &Value) -> Result<Checklist, super::connect::ClusterError> {
        let cluster = self.connect.cluster().await?;
        let until = Instant::now() + self.wait.unwrap_or_default();
        let progress = sign_of_life("asking the cluster");
        loop {
            let list = self.look(&cluster, values).await;
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

    async fn look(&self, cluster: &Cluster, values: &Value) -> Checklist {
        if self.pre {
            return pre::conclude(&pre::read(cluster).await, values);
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
    parse_duration(text).ok_or_else(|| "write a duration, as 90s or 5m".to_owned())
}
