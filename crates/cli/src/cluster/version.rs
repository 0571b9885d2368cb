//! `leno version`: shows the versions of this program, of the control plane and of the proxies.

use std::collections::BTreeMap;
use std::error::Error;

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use leno_install::annotations::INJECTED_LABEL;
use leno_install::names::{CONTROL, CONTROL_NAMESPACE, VERSION_LABEL};
use serde::Serialize;

use super::connect::{ClusterError, Connect};
use super::installer::INSTALL;
use super::pods;
use super::table::{Output, show};

/// Options of `leno version`.
#[derive(Args)]
pub(crate) struct Options {
    /// Show the version of this program only, without asking a cluster
    #[arg(long)]
    client: bool,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Serialize)]
struct Versions {
    client: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterVersions>,
}

/// The versions in the cluster, or the reason why they are not known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum ClusterVersions {
    Known {
        /// `None` if Leno is not installed.
        control_plane: Option<String>,
        /// Number of proxies by version.
        proxies: BTreeMap<String, usize>,
    },
    Unknown(String),
}

impl Options {
    /// Shows the versions. Succeeds even if the cluster cannot be reached; the output then has the reason.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let cluster = match self.client {
            true => None,
            false => Some(match super::block_on(self.read())? {
                Ok((deployment, meshed)) => known(deployment.as_ref(), &meshed),
                Err(error) => ClusterVersions::Unknown(error.to_string()),
            }),
        };
        show(self.output, &Versions { client: env!("CARGO_PKG_VERSION"), cluster }, text)?;
        Ok(())
    }

    async fn read(&self) -> Result<(Option<Deployment>, Vec<Pod>), ClusterError> {
        let cluster = self.connect.cluster().await?;
        tokio::try_join!(
            cluster.get(cluster.within(CONTROL_NAMESPACE), CONTROL),
            cluster.list(cluster.within_or_all(None), INJECTED_LABEL),
        )
    }
}

fn known(deployment: Option<&Deployment>, meshed: &[Pod]) -> ClusterVersions {
    let untold = || "an unknown version".to_owned();
    let control_plane =
        deployment.map(|deployment| deployment.labels().get(VERSION_LABEL).cloned().unwrap_or_else(untold));
    let mut proxies = BTreeMap::new();
    for pod in meshed.iter().filter(|pod| pods::is_alive_with_sidecar(pod)) {
        *proxies.entry(pods::sidecar_version(pod).map_or_else(untold, str::to_owned)).or_default() += 1;
    }
    ClusterVersions::Known { control_plane, proxies }
}

fn text(versions: &Versions) -> String {
    let mut text = format!("leno {}\n", versions.client);
    match &versions.cluster {
        None => {}
        Some(ClusterVersions::Unknown(why)) => text += &format!("control plane: not known: {why}\n"),
        Some(ClusterVersions::Known { control_plane, proxies }) => {
            let control_plane = control_plane.as_deref().map_or_else(|| format!("none; {INSTALL}"), str::to_owned);
            text += &format!("control plane: {control_plane}\n");
            for (version, count) in proxies {
                text += &format!("proxies: {count} of {version}\n");
            }
        }
    }
    text
}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;
