//! Checks whether the control plane can issue identities that peers trust. Compares the Secret of the authority with
//! the copies of its anchors: the trust bundles and the webhook configurations.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use leno_install::names::{
    ANCHORS, CONFIG, CONTROL_NAMESPACE, INJECTOR, ISSUER, ISSUER_CERTIFICATE, TRUST_BUNDLE, VALIDATOR,
};

use super::installed::NAMESPACE;
use super::proxies;
use super::read::{Installed, options_of};
use super::report::{Checklist, Finding};
use crate::cluster::certificate::{Certificate, relative, rfc3339, same_anchors};
use crate::cluster::connect::ClusterError;
use crate::cluster::installer::Installer;
use crate::cluster::pods;

/// Minimum remaining validity of an anchor: 60 days, because users must replace an anchor by hand.
const ANCHOR_LEAST: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// Remaining validity below which an expiring certificate fails the check instead of giving a warning: 24 h, or a
/// twentieth of the certificate's whole validity if that is shorter.
const LAST_CHANCE: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) const AUTHORITY: &str = "authority";

/// Returns when the issuing authority expires; `None` if its certificate cannot be read.
pub(super) fn authority_ends(facts: &Installed) -> Option<SystemTime> {
    let secret = facts.issuer.as_ref().ok()?.as_ref()?;
    Some(Certificate::read_all(value(secret, ISSUER_CERTIFICATE)).ok()?.first()?.validity.not_after)
}

pub(super) fn conclude(list: &mut Checklist, facts: &Installed, now: SystemTime) {
    list.check(AUTHORITY, &[NAMESPACE], || match &facts.issuer {
        Ok(Some(secret)) => authority(secret, facts, now),
        Ok(None) => vec![Finding::failed(
            format!(
                "there is no Secret {ISSUER}, which the control plane creates once it runs or, with \
                 control.externalAuthority, another program writes"
            ),
            format!("to see why it does not run: kubectl logs -n {CONTROL_NAMESPACE} deployment/leno-control"),
        )],
        Err(error) => vec![error.into()],
    });
    let anchors = facts.issuer.as_ref().ok().and_then(Option::as_ref).map(|secret| value(secret, ANCHORS));
    let anchors = anchors.filter(|anchors| Certificate::read_all(anchors).is_ok());
    list.check("trust bundles", &[AUTHORITY], || match (meshed(facts), &facts.bundles) {
        (Ok(meshed), Ok(bundles)) => copies(&meshed, bundles, anchors.unwrap_or_default()),
        (Err(error), _) | (_, Err(error)) => vec![error.into()],
    });
    list.check("webhooks", &[NAMESPACE], || webhooks(facts, anchors));
}

fn authority(secret: &Secret, facts: &Installed, now: SystemTime) -> Vec<Finding> {
    let get = format!("kubectl get secret -n {CONTROL_NAMESPACE} {ISSUER} -o yaml shows it");
    let read = |key: &str| {
        Certificate::read_all(value(secret, key))
            .map_err(|why| Finding::failed(format!("{key} of Secret {ISSUER}: {why}"), &*get))
    };
    let (issuers, anchors) = match (read(ISSUER_CERTIFICATE), read(ANCHORS)) {
        (Ok(issuers), Ok(anchors)) => (issuers, anchors),
        (Err(failed), _) | (_, Err(failed)) => return vec![failed],
    };
    let is_ours = secret.data.iter().flatten().any(|(key, _)| key == "ca.key");
    let renew = if is_ours {
        format!("kubectl logs -n {CONTROL_NAMESPACE} deployment/leno-control says why it is not renewed")
    } else {
        format!(
            "renew it where it was issued: Secret {ISSUER} in namespace {CONTROL_NAMESPACE} has no ca.key, so the control plane \
             cannot renew it; once it has expired, no proxy can renew its certificate, and each proxy's calls fail when its \
             own ends (leno identity -A); docs/identity.md says how to renew it by hand"
        )
    };
    let rotate = "add a second anchor to ca.crt; docs/identity.md says how";
    let issuer =
        issuers.first().map(|issuer| valid("the issuing authority", issuer, issuer.validity.least_left(), &renew, now));
    let anchors = anchors.iter().map(|anchor| valid("the anchor", anchor, ANCHOR_LEAST, rotate, now));
    let other_domain = issuers.first().and_then(|issuer| other_trust_domain(issuer, facts));
    other_domain.into_iter().chain(issuer).chain(anchors).collect()
}

/// Compares the trust domain of the issuing authority with the trust domain of the installation. A new replica of the
/// control plane does not accept an authority of another trust domain, and does not become ready.
fn other_trust_domain(issuer: &Certificate, facts: &Installed) -> Option<Finding> {
    let ours = options_of(facts.config.as_ref()?)?.trust_domain;
    let first = format!("write an authority with the URI spiffe://{ours} into the Secret");
    match issuer.trust_domain() {
        Some(theirs) if theirs == ours => None,
        Some(theirs) => Some(Finding::failed(
            format!(
                "the issuing authority has the trust domain {theirs}, and ConfigMap {CONTROL_NAMESPACE}/{CONFIG} has {ours}: no new \
                 replica of the control plane becomes ready, so no upgrade finishes"
            ),
            format!("{}; or {first}", facts.installer().set(&format!("trustDomain={theirs}"))),
        )),
        None => Some(Finding::failed(
            format!(
                "{ISSUER_CERTIFICATE} of Secret {ISSUER} has no trust domain: it must have exactly one URI, spiffe://{ours}"
            ),
            first,
        )),
    }
}

fn valid(what: &str, certificate: &Certificate, least: Duration, fix: &str, now: SystemTime) -> Finding {
    let validity = &certificate.validity;
    let expires = relative(validity.not_after, now);
    if now < validity.not_before {
        return Finding::failed(
            format!("{what} becomes valid {}", relative(validity.not_before, now)),
            "set the clocks",
        );
    }
    match validity.not_after.duration_since(now) {
        Err(_) => Finding::failed(format!("{what} expired {expires}"), fix),
        Ok(left) if left < least => {
            let told = format!("{what} expires {expires}, at {}", rfc3339(validity.not_after).unwrap_or_default());
            let whole = validity.not_after.duration_since(validity.not_before).unwrap_or_default();
            match left < LAST_CHANCE.min(whole / 20) {
                true => Finding::failed(told, fix),
                false => Finding::warning(told, fix),
            }
        }
        Ok(_) => Finding::ok(format!("{what} expires {expires}")),
    }
}

/// The namespaces that need a trust bundle:
///
/// - the control plane's own namespace
/// - namespaces that contain proxies or gRPC sidecars
/// - namespaces whose annotation asks for proxies or gRPC sidecars; an annotation with an invalid value asks for
///   neither
///
/// A namespace that Kubernetes is deleting needs no bundle: Kubernetes deletes the bundle too, and no new Pod starts.
fn meshed(facts: &Installed) -> Result<BTreeSet<String>, &ClusterError> {
    let (namespaces, pods) = (facts.namespaces.as_ref()?, facts.meshed.as_ref()?);
    let inhabited = pods.iter().filter(|pod| pods::is_alive_with_sidecar(pod)).filter_map(ResourceExt::namespace);
    let mut meshed: BTreeSet<String> = proxies::meshed(facts).into_iter().chain(inhabited).collect();
    for namespace in namespaces.iter().filter(|namespace| namespace.metadata.deletion_timestamp.is_some()) {
        meshed.remove(&namespace.name_any());
    }
    meshed.insert(CONTROL_NAMESPACE.to_owned());
    Ok(meshed)
}

fn copies(meshed: &BTreeSet<String>, bundles: &[ConfigMap], anchors: &[u8]) -> Vec<Finding> {
    let finding = |namespace: &String| {
        let bundle = bundles.iter().find(|bundle| bundle.namespace().as_ref() == Some(namespace));
        let Some(bundle) = bundle else {
            return Some(Finding::failed(
                format!("namespace {namespace} has no ConfigMap {TRUST_BUNDLE}, without which its Pods do not start"),
                format!("kubectl logs -n {CONTROL_NAMESPACE} deployment/leno-control says why it is not written"),
            ));
        };
        let text = bundle.data.as_ref().and_then(|data| data.get(ANCHORS)).map_or("", String::as_str);
        (!same_anchors(text.as_bytes(), anchors)).then(|| {
            Finding::failed(
                format!("ConfigMap {namespace}/{TRUST_BUNDLE} has other anchors than the Secret {ISSUER}"),
                format!("kubectl delete configmap -n {namespace} {TRUST_BUNDLE}: the control plane writes it again"),
            )
        })
    };
    let failed: Vec<Finding> = meshed.iter().filter_map(finding).collect();
    let count = meshed.len();
    if failed.is_empty() {
        vec![Finding::ok(format!("the anchors are in {count} of {count} meshed namespaces"))]
    } else {
        failed
    }
}

fn webhooks(facts: &Installed, anchors: Option<&[u8]>) -> Vec<Finding> {
    let injector = facts.injector.as_ref().map(|found| {
        let webhooks = found.as_ref()?.webhooks.iter().flatten();
        Some(
            webhooks
                .map(|webhook| webhook.client_config.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice()))
                .collect(),
        )
    });
    let validator = facts.validator.as_ref().map(|found| {
        let webhooks = found.as_ref()?.webhooks.iter().flatten();
        Some(
            webhooks
                .map(|webhook| webhook.client_config.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice()))
                .collect(),
        )
    });
    let installer = facts.installer();
    vec![
        webhook("MutatingWebhookConfiguration", INJECTOR, injector, anchors, &installer),
        webhook("ValidatingWebhookConfiguration", VALIDATOR, validator, anchors, &installer),
    ]
}

/// Checks one webhook configuration: its presence, and that each webhook in it has the `anchors` as caBundle. `bundles`
/// has the caBundle of each webhook, or is `None` if the configuration does not exist. Without `anchors`, because those
/// of the authority could not be read, checks only that each webhook has a caBundle.
fn webhook(
    kind: &str,
    name: &str,
    bundles: Result<Option<Vec<Option<&[u8]>>>, &ClusterError>,
    anchors: Option<&[u8]>,
    installer: &Installer,
) -> Finding {
    let bundles = match bundles {
        Ok(Some(bundles)) => bundles,
        Ok(None) => return Finding::failed(format!("there is no {kind} {name}"), installer.upgrade()),
        Err(error) => return error.into(),
    };
    let logs =
        format!("kubectl logs -n {CONTROL_NAMESPACE} deployment/leno-control: it writes the caBundle once it runs");
    if bundles.iter().any(Option::is_none) {
        return Finding::failed(format!("{kind} {name} has no caBundle: the API server cannot call the webhook"), logs);
    }
    let Some(anchors) = anchors else { return Finding::not_run(AUTHORITY) };
    match bundles.iter().flatten().all(|bundle| same_anchors(bundle, anchors)) {
        true => Finding::ok(format!("{name} trusts the control plane")),
        false => {
            Finding::failed(format!("the caBundle of {kind} {name} has other anchors than the Secret {ISSUER}"), logs)
        }
    }
}

fn value<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice()).unwrap_or_default()
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
