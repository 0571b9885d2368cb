//! The installation in a cluster, and the changes that `leno install` and `leno upgrade` refuse to make to it.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use leno_install::chart::merge;
use leno_install::names::{
    ANCHORS, CONFIG, CONTROL, CONTROL_NAMESPACE, ISSUER, ISSUER_CERTIFICATE, TRUST_BUNDLE, VERSION_LABEL,
};
use leno_model::problem::in_a_line;
use semver::Version;
use serde_json::{Map, Value};

use super::certificate::Certificate;
use super::connect::{Cluster, ClusterError};
use super::installer::{INSTALL, Installer};
use crate::install::{PINNED_ANNOTATION, VALUES_ANNOTATION, VERSION_ANNOTATION, Versions};

/// Maximum number of changed values that the message of a refusal lists.
const CHANGES_MAX: usize = 5;

/// The objects that record the values and the version of an installation; `None` for an object that does not exist.
#[derive(Debug, Default)]
pub(crate) struct Running {
    pub(crate) config: Option<ConfigMap>,
    pub(crate) deployment: Option<Deployment>,
    /// The trust domain of the issuing authority. `None` before [`Running::read_authority`], without an authority, if its
    /// certificate names no trust domain, and if the trust domain could not be read.
    pub(crate) trust_domain: Option<String>,
    /// Why the Secret of the issuing authority could not be read, unless the trust anchors confirm the trust domain. Users
    /// without the right to read the Secret may still install and upgrade.
    pub(crate) unread_authority: Option<ClusterError>,
}

/// The reason why `leno install` or `leno upgrade` refuses to write manifests. Each message names the remedy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("Leno is not installed here; {INSTALL}")]
    NotInstalled,
    #[error(
        "Helm installed this; to upgrade it: {upgrade}; to change a value: {set}",
        upgrade = .0.upgrade(), set = .0.set("NAME=VALUE")
    )]
    Helms(Installer),
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
    #[error(
        "images of version {running} are installed, and image.version is {new}, which is older; leave image.version out: --set \
         image.version="
    )]
    OlderImages { running: String, new: String },
    #[error(
        "trustDomain would be {new}, and the issuing authority in Secret {CONTROL_NAMESPACE}/{ISSUER} has the trust domain {authority}, \
         so the rollout would not finish: no new replica of the control plane would become ready; --set trustDomain={authority}, or \
         first write an authority with the URI spiffe://{new} into the Secret"
    )]
    TrustDomain { authority: String, new: String },
}

impl Running {
    /// Reads the version and values of the installation.
    pub(crate) async fn read(cluster: &Cluster) -> Result<Self, ClusterError> {
        let (config, deployment) = tokio::try_join!(
            cluster.get(cluster.within(CONTROL_NAMESPACE), CONFIG),
            cluster.get(cluster.within(CONTROL_NAMESPACE), CONTROL),
        )?;
        Ok(Self { config, deployment, ..Self::default() })
    }

    /// Reads the trust domain of the issuing authority, to compare it with the trust domain in `values`.
    ///
    /// The Secret of the authority decides if the user may read it: the trust bundle may still have the anchors of an
    /// older authority. If the Secret cannot be read, the bundle's anchors suffice if they all have the trust domain in
    /// `values`. Anchors of another trust domain prove nothing, so the domain stays unknown.
    pub(crate) async fn read_authority(&mut self, cluster: &Cluster, values: &Value) {
        match cluster.get(cluster.within::<Secret>(CONTROL_NAMESPACE), ISSUER).await {
            Ok(secret) => self.trust_domain = secret.as_ref().and_then(trust_domain),
            Err(error) => {
                let bundle = cluster.get(cluster.within::<ConfigMap>(CONTROL_NAMESPACE), TRUST_BUNDLE).await;
                let anchored = bundle.ok().flatten().as_ref().and_then(anchored_trust_domain);
                if anchored.is_some() && anchored.as_deref() == values["trustDomain"].as_str() {
                    self.trust_domain = anchored;
                } else {
                    self.unread_authority = Some(error);
                }
            }
        }
    }

    /// The installation's values that differ from the chart's defaults. `None` if `is_reset`, with which they are
    /// discarded.
    pub(crate) fn values(&self, is_reset: bool) -> Result<Option<Value>, Refusal> {
        let installer = Installer::of(self.config.as_ref(), self.deployment.as_ref());
        if let Installer::Helm(_) = installer {
            return Err(Refusal::Helms(installer));
        }
        let config = match (&self.config, &self.deployment) {
            (None, None) => return Err(Refusal::NotInstalled),
            _ if is_reset => return Ok(None),
            (Some(config), _) => config,
            (None, Some(_)) => return Err(Refusal::NoValues),
        };
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

    /// Refuses values whose `trustDomain` is not the trust domain of the issuing authority. A new replica of the control
    /// plane does not accept an authority of another trust domain, so it would not become ready. The old replicas would
    /// stay, with the old trust domain.
    ///
    /// `clusterDomain` has no such check: no object of the cluster records the cluster's DNS domain.
    pub(crate) fn refuse_trust_domain(&self, values: &Value) -> Result<(), Refusal> {
        let new = values["trustDomain"].as_str().unwrap_or_default();
        match &self.trust_domain {
            Some(authority) if authority != new => {
                Err(Refusal::TrustDomain { authority: authority.clone(), new: new.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The warning to print if [`Self::refuse_trust_domain`] could not compare the trust domains.
    pub(crate) fn unchecked_trust_domain(&self) -> Option<String> {
        let why = &self.unread_authority.as_ref()?.what;
        Some(format!("cannot tell whether trustDomain is the trust domain of the issuing authority: {why}"))
    }

    /// Refuses to install an older version: objects of an older `leno`, or older images.
    ///
    /// The label of the Deployment has the version of the images. This is the version of the `leno` that rendered the
    /// objects too, unless `image.version` pins the images: then the label is a tag of the user, which compares with no
    /// version of Leno.
    pub(crate) fn refuse_older(&self, new: &Versions) -> Result<(), Refusal> {
        let label = self.deployment.as_ref().and_then(|deployment| deployment.labels().get(VERSION_LABEL));
        let label = label.filter(|_| self.config.as_ref().and_then(pinned_images).is_none());
        let recorded = self.config.as_ref().and_then(|config| config.annotations().get(VERSION_ANNOTATION));
        let is_older = |new: &str, running: &str| compare(new, running) == Some(Ordering::Less);
        if let Some(running) = label.into_iter().chain(recorded).find(|running| is_older(&new.objects, running)) {
            return Err(Refusal::Older { running: running.clone(), new: new.objects.clone() });
        }
        match label.filter(|running| is_older(&new.images, running)) {
            Some(running) => Err(Refusal::OlderImages { running: running.clone(), new: new.images.clone() }),
            None => Ok(()),
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

/// Returns the installation's value of `image.version`; `None` if it is not set. The chart itself records it, so this
/// also works for an installation by Helm.
pub(crate) fn pinned_images(config: &ConfigMap) -> Option<&str> {
    config.annotations().get(PINNED_ANNOTATION).map(String::as_str)
}

/// Returns the trust domain of the authority in the Secret.
fn trust_domain(secret: &Secret) -> Option<String> {
    let certificates = Certificate::read_all(&secret.data.as_ref()?.get(ISSUER_CERTIFICATE)?.0).ok()?;
    certificates.first()?.trust_domain().map(str::to_owned)
}

/// Returns the trust domain of the anchors in a trust bundle; `None` if an anchor has none, or if two anchors differ.
fn anchored_trust_domain(bundle: &ConfigMap) -> Option<String> {
    let anchors = Certificate::read_all(bundle.data.as_ref()?.get(ANCHORS)?.as_bytes()).ok()?;
    let first = anchors.first()?.trust_domain()?;
    anchors.iter().all(|anchor| anchor.trust_domain() == Some(first)).then(|| first.to_owned())
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
