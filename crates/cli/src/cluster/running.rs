//! The installation in a cluster, and the changes that `leno install` and `leno upgrade` refuse to make to it.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use leno_install::chart::merge;
use leno_install::names::{CONFIG, CONTROL, CONTROL_NAMESPACE, HELM_RELEASE, VERSION_LABEL};
use leno_model::problem::in_a_line;
use semver::Version;
use serde_json::{Map, Value};

use super::connect::{Cluster, ClusterError};
use crate::install::VALUES_ANNOTATION;

/// Maximum number of changed values that the message of a refusal lists.
const CHANGES_MAX: usize = 5;

/// The objects that record the values and the version of an installation; `None` for an object that does not exist.
#[derive(Debug, Default)]
pub(crate) struct Running {
    pub(crate) config: Option<ConfigMap>,
    pub(crate) deployment: Option<Deployment>,
}

/// The reason why `leno install` or `leno upgrade` refuses to write manifests. Each message names the remedy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("Leno is not installed here; leno install | kubectl apply -f -")]
    NotInstalled,
    #[error("Helm installed this; helm upgrade leno charts/leno --namespace {CONTROL_NAMESPACE}")]
    Helms,
    #[error(
        "Leno is installed here with other values: {changes}; leno upgrade keeps them and takes --set too, leno upgrade \
         --reset-values begins with the chart's"
    )]
    Resets { changes: String },
    #[error(
        "ConfigMap {CONTROL_NAMESPACE}/{CONFIG} does not record the values of this installation; give them to leno upgrade \
         --reset-values"
    )]
    NoValues,
    #[error(
        "the annotation {VALUES_ANNOTATION} of ConfigMap {CONTROL_NAMESPACE}/{CONFIG} is not JSON; give the values to leno upgrade \
         --reset-values"
    )]
    BadValues,
    #[error(
        "version {running} is installed, and this command would install {new}, which is older; use leno {running} or newer"
    )]
    Older { running: String, new: String },
}

impl Running {
    /// Reads the version and values of the installation.
    pub(crate) async fn read(cluster: &Cluster) -> Result<Self, ClusterError> {
        let (config, deployment) = tokio::try_join!(
            cluster.get(cluster.within(CONTROL_NAMESPACE), CONFIG),
            cluster.get(cluster.within(CONTROL_NAMESPACE), CONTROL),
        )?;
        Ok(Self { config, deployment })
    }

    /// The installation's values that differ from the chart's defaults. `None` if `is_reset`, with which they are
    /// discarded.
    pub(crate) fn values(&self, is_reset: bool) -> Result<Option<Value>, Refusal> {
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

    /// Refuses to replace an installation if its non-default values differ from `chosen`.
    pub(crate) fn refuse_reset(&self, chosen: &Value, defaults: &Value) -> Result<(), Refusal> {
        if self.config.is_none() && self.deployment.is_none() {
            return Ok(());
        }
        let kept = self.values(false)?.unwrap_or_default();
        let (mut old, mut new) = (defaults.clone(), defaults.clone());
        merge(&mut old, kept);
        merge(&mut new, chosen.clone());
        let mut changes = Vec::new();
        changed("", &old, &new, &mut changes);
        if changes.is_empty() { Ok(()) } else { Err(Refusal::Resets { changes: in_a_line(&changes, CHANGES_MAX) }) }
    }

    /// Refuses to install an older version.
    pub(crate) fn refuse_older(&self, new: &str) -> Result<(), Refusal> {
        let running = self.deployment.as_ref().and_then(|deployment| deployment.labels().get(VERSION_LABEL));
        match running {
            Some(running) if compare(new, running) == Some(Ordering::Less) => {
                Err(Refusal::Older { running: running.clone(), new: new.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

/// Appends each difference to `changes`, in the form `control.replicas: 3 would become 2`.
fn changed(name: &str, old: &Value, new: &Value, changes: &mut Vec<String>) {
    if let (Value::Object(old), Value::Object(new)) = (old, new) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            let inner = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
            changed(&inner, &of(old), &of(new), changes);
        }
    } else if old != new {
        changes.push(format!("{name}: {old} would become {new}"));
    }
}

fn is_helms(config: &ConfigMap) -> bool {
    config.annotations().contains_key(HELM_RELEASE)
}

/// Compares two versions by their precedence. `None` if one of them is not a version, but for example the tag of a
/// custom image.
fn compare(a: &str, b: &str) -> Option<Ordering> {
    let version = |text| Version::parse(text).ok();
    Some(version(a)?.cmp_precedence(&version(b)?))
}

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
