//! `leno upgrade`: the objects of this version for an installation that is there, with the values that it was made with.
//!
//! `leno install` and `leno upgrade` write what differs from the chart's defaults into an annotation of the ConfigMap
//! leno-config. A newer chart's defaults come in by an upgrade, and what people chose stays.

use std::cmp::Ordering;
use std::error::Error;
use std::io::{self, Write};

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use leno_install::chart::{default_values, merge};
use leno_install::names::{CONFIG, CONTROL, CONTROL_NAMESPACE, HELM_RELEASE, VERSION_LABEL};
use serde_json::Value;

use super::connect::{ClusterError, Connect};
use crate::install::{Parts, VALUES_ANNOTATION, ValueOptions, render};

/// Options of `leno upgrade`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    values: ValueOptions,
    /// Begin with the chart's values, and not with those that the installation was made with
    #[arg(long)]
    reset_values: bool,
    #[command(flatten)]
    connect: Connect,
}

/// What is installed.
#[derive(Debug, Default)]
struct Running {
    config: Option<ConfigMap>,
    deployment: Option<Deployment>,
}

/// Why there is no upgrade; it says what to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("Leno is not installed here; leno install | kubectl apply -f -")]
    NotInstalled,
    #[error("Helm installed this; helm upgrade leno charts/leno --namespace {CONTROL_NAMESPACE}")]
    Helms,
    #[error(
        "ConfigMap {CONTROL_NAMESPACE}/{CONFIG} does not tell the values that this was installed with; give them again, \
         and add --reset-values"
    )]
    NoValues,
    #[error(
        "the annotation {VALUES_ANNOTATION} of ConfigMap {CONTROL_NAMESPACE}/{CONFIG} is not JSON; give the values again, and \
         add --reset-values"
    )]
    BadValues,
    #[error(
        "{running} is installed, and this would be {new}, which is older; use the leno of {running} or a newer one"
    )]
    Older { running: String, new: String },
}

impl Options {
    /// Writes the objects as YAML.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let running = super::block_on(async {
            let cluster = self.connect.cluster().await?;
            let (config, deployment) = tokio::try_join!(
                cluster.get(cluster.within(CONTROL_NAMESPACE), CONFIG),
                cluster.get(cluster.within(CONTROL_NAMESPACE), CONTROL),
            )?;
            Ok::<_, ClusterError>(Running { config, deployment })
        })??;
        io::stdout().write_all(self.text(&running)?.as_bytes())?;
        Ok(())
    }

    fn text(&self, running: &Running) -> Result<String, Box<dyn Error>> {
        let mut values = default_values(false)?;
        if let Some(kept) = running.values(self.reset_values)? {
            merge(&mut values, kept);
        }
        self.values.put_on(&mut values)?;
        let rendered = render(&values, Parts::All)?;
        running.refuse_older(&rendered.version)?;
        Ok(rendered.text)
    }
}

impl Running {
    /// What the installation's values differ in from the chart's; nothing if they are not wanted.
    fn values(&self, is_reset: bool) -> Result<Option<Value>, Refusal> {
        let config = match (&self.config, &self.deployment) {
            (None, None) => return Err(Refusal::NotInstalled),
            (config, _) if is_reset && !config.as_ref().is_some_and(is_helms) => return Ok(None),
            (Some(config), _) => config,
            (None, Some(_)) => return Err(Refusal::NoValues),
        };
        if is_helms(config) {
            return Err(Refusal::Helms);
        }
        let text = config.annotations().get(VALUES_ANNOTATION).ok_or(Refusal::NoValues)?;
        serde_json::from_str(text).map(Some).map_err(|_| Refusal::BadValues)
    }

    fn refuse_older(&self, new: &str) -> Result<(), Refusal> {
        let running = self.deployment.as_ref().and_then(|deployment| deployment.labels().get(VERSION_LABEL));
        match running {
            Some(running) if compare(new, running) == Some(Ordering::Less) => {
                Err(Refusal::Older { running: running.clone(), new: new.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

fn is_helms(config: &ConfigMap) -> bool {
    config.annotations().contains_key(HELM_RELEASE)
}

/// Which of two versions is older (semver.org, section 11, as far as three numbers and whether there is more); nothing if one is no
/// version, as the tag of an image of one's own.
fn compare(a: &str, b: &str) -> Option<Ordering> {
    let read = |text: &str| {
        let (numbers, pre_release) = match text.split_once('-') {
            Some((numbers, pre_release)) => (numbers, Some(pre_release.to_owned())),
            None => (text, None),
        };
        let numbers: Option<Vec<u32>> = numbers.split('.').map(|number| number.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() == 3)?;
        // What has a pre-release comes before what has none.
        Some((numbers, pre_release.is_none(), pre_release))
    };
    Some(read(a)?.cmp(&read(b)?))
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
