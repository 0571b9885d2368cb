//! `leno check --proxy`: checks whether every Pod that should have a proxy has one, and whether the proxies work.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Container, Namespace, Pod};
use kube::ResourceExt;
use leno_install::annotations::{INJECT, PROXY_VERSION};
use leno_install::inject::{self, Asked, Decision, Outcome, Skipped, asks_for_injection, inject, typos};
use leno_install::names::{PROXY, VERSION_LABEL};
use serde_json::{Map, Value};

use super::absence;
use super::installed::{DEPLOYMENT, NAMESPACE};
use super::kubernetes::API_SERVER;
use super::read::{Installed, Proxies};
use super::report::{Checklist, Finding};
use super::{ports, probes, refused, trust};
use crate::cluster::certificate::relative;
use crate::cluster::connect::ClusterError;
use crate::cluster::identity::Shown;
use crate::cluster::pods;
use crate::cluster::printable::line;
use crate::cluster::scrape::Scrape;

/// Minimum remaining validity of a proxy's certificate: 2 h. A proxy renews a 24 h certificate when between 8 h and 4 h
/// are left, so a remainder below 2 h means that the renewal has failed.
const CERTIFICATE_LEAST: Duration = Duration::from_secs(2 * 60 * 60);

const EXPIRATION: &str = "control_identity_cert_expiration_timestamp_seconds";

const REFUSED: &str = "refused Pods";
const ANNOTATIONS: &str = "annotations";
const EXPECTED: &str = "Pods without a proxy";
const READY: &str = "proxies are ready";
const VERSIONS: &str = "their versions";
const BELIEVED: &str = "peers trust them";
const PROBES: &str = "probes of their applications";
const PORTS: &str = "ports of policies";

pub(super) fn conclude(list: &mut Checklist, installed: &Installed, proxies: &Proxies, now: SystemTime) {
    list.section("proxies");
    let pods = proxies.pods.as_ref().map(|pods| pods.iter().filter(|pod| pods::is_alive(pod)).collect::<Vec<_>>());
    let checked = |conclude: &dyn Fn(&[&Pod]) -> Vec<Finding>| match &pods {
        Ok(pods) => conclude(pods),
        Err(error) => vec![(*error).into()],
    };
    list.check(EXPECTED, &[API_SERVER], || match &installed.namespaces {
        Ok(namespaces) => checked(&|pods| without_proxy(pods, namespaces, installed)),
        Err(error) => vec![error.into()],
    });
    list.check(REFUSED, &[API_SERVER], || match (&proxies.creators, &proxies.pods) {
        (Ok(creators), Ok(all)) => refused::findings(creators, &meshed(installed), all),
        (Err(error), _) | (_, Err(error)) => error.into(),
    });
    list.check(ANNOTATIONS, &[API_SERVER], || checked(&misspelt));
    list.check(READY, &[API_SERVER], || checked(&ready));
    list.check(VERSIONS, &[API_SERVER, DEPLOYMENT], || checked(&|pods| versions(pods, installed)));
    list.check(PROBES, &[API_SERVER], || match &proxies.policies {
        Ok(policies) => checked(&|pods| probes::findings(&with_proxy(pods), policies)),
        Err(error) => error.into(),
    });
    list.check(PORTS, &[API_SERVER], || match (&proxies.policies, &proxies.services) {
        (Ok(policies), Ok(services)) => checked(&|pods| ports::findings(&with_proxy(pods), services, policies)),
        (Err(error), _) | (_, Err(error)) => error.into(),
    });
    list.check("their certificates", &[API_SERVER], || {
        checked(&|_| certificates(proxies, trust::authority_ends(installed), now))
    });
    // Run this check only if Leno is installed. Without an installation there is no current trust bundle with which to
    // verify certificates. The remedy, a new Pod, would not work either: the Pod could not start.
    list.check(BELIEVED, &[API_SERVER, NAMESPACE], || match &proxies.shown {
        Ok(shown) => believed(shown),
        Err(error) => error.into(),
    });
}

fn with_proxy<'a>(pods: &[&'a Pod]) -> Vec<&'a Pod> {
    pods.iter().copied().filter(|pod| pods::is_meshed(pod)).collect()
}

/// Returns the namespace and name of a Pod in the form `shop/web-1`.
pub(super) fn name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

pub(super) fn restart(pod: &Pod) -> String {
    pods::owner(pod).restart(&pod.namespace().unwrap_or_default())
}

/// Finds Pods without a proxy that would get one if they were created now.
fn without_proxy(pods: &[&Pod], namespaces: &[Namespace], installed: &Installed) -> Vec<Finding> {
    let (excluded, options) = (excluded(installed), installed.options());
    let finding = |pod: &&Pod| {
        let namespace = pod.namespace().unwrap_or_default();
        if pods::sidecar(pod).is_some() || excluded.contains(&namespace) {
            return None;
        }
        let known = namespaces.iter().find(|known| known.name_any() == namespace);
        let annotations = known.map(annotations).unwrap_or_default();
        let template = serde_json::to_value(pod).ok()?;
        match inject(&template, &inject::Namespace { name: namespace, annotations }, Asked::ByAnnotation, &options) {
            Ok(Decision { outcome: Outcome::Injected { .. }, .. }) => {
                let why = absence::why(pod, known, &absence::Gates::of(installed));
                Some(Finding::warning(format!("{} has none: {why}", name(pod)), restart(pod)))
            }
            Ok(Decision { outcome: Outcome::Skipped(other @ Skipped::OtherMesh(_)), .. }) => Some(Finding::warning(
                format!("{} has none: {other}", name(pod)),
                format!("if this is intended, annotate its Pod template with {INJECT}: disabled"),
            )),
            Ok(_) => None,
            Err(mistakes) => {
                let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
                Some(Finding::failed(
                    format!("{} has none, and a new Pod like it would be refused: {}", name(pod), mistakes.join("; ")),
                    format!("correct what this names in its Pod template or its namespace, then {}", restart(pod)),
                ))
            }
        }
    };
    let found: Vec<Finding> = pods.iter().filter_map(finding).collect();
    if found.is_empty() { vec![Finding::ok("every Pod that should have a proxy has one")] } else { found }
}

fn annotations(object: &impl ResourceExt) -> Map<String, Value> {
    object.annotations().iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
}

/// Finds Pods with unknown annotations that have our prefix, and Pods with labels that should be annotations.
fn misspelt(pods: &[&Pod]) -> Vec<Finding> {
    let of_pod = |pod: &&Pod| {
        let lines: Vec<String> = serde_json::to_value(pod).map(|pod| typos(&pod).collect()).unwrap_or_default();
        let name = name(pod);
        lines.into_iter().map(move |line| Finding::warning(format!("{name}: {line}"), "correct it in the Pod template"))
    };
    let found: Vec<Finding> = pods.iter().flat_map(of_pod).collect();
    if found.is_empty() { vec![Finding::ok("the annotations and labels of Pods have no mistake")] } else { found }
}

/// The namespaces whose annotation asks for proxies or for gRPC sidecars, which give identities to gRPC programs.
pub(super) fn meshed(installed: &Installed) -> Vec<String> {
    let is_meshed =
        |namespace: &&Namespace| namespace.annotations().get(INJECT).is_some_and(|word| asks_for_injection(word));
    let namespaces = installed.namespaces.iter().flatten();
    namespaces.filter(is_meshed).map(ResourceExt::name_any).collect()
}

/// The namespaces that the injector skips.
pub(super) fn excluded(installed: &Installed) -> Vec<String> {
    let injector = installed.injector.as_ref().ok().and_then(Option::as_ref);
    let selectors = |injector: &MutatingWebhookConfiguration| {
        let webhooks = injector.webhooks.iter().flatten();
        let expressions =
            webhooks.filter_map(|webhook| webhook.namespace_selector.as_ref()?.match_expressions.as_ref());
        let excluding = expressions.flatten().filter(|expression| expression.operator == "NotIn");
        excluding.filter_map(|expression| expression.values.clone()).flatten().collect()
    };
    injector.map(selectors).unwrap_or_default()
}

fn ready(pods: &[&Pod]) -> Vec<Finding> {
    // Skip Pods of the control plane that are not ready: the check of the control plane's Pods already reports them.
    let is_told = |pod: &Pod| pods::is_control(pod) && pods::why_not_ready(pod).is_some();
    let meshed: Vec<_> =
        pods.iter().filter(|pod| !is_told(pod)).filter_map(|pod| Some((pod, pods::sidecar(pod)?))).collect();
    let finding = |(pod, sidecar): &(&&Pod, &Container)| {
        if pods::is_container_ready(pod, &sidecar.name) {
            return None;
        }
        let why = pods::why_not_ready(pod).unwrap_or_else(|| "its proxy does not answer /ready".to_owned());
        let namespace = pod.namespace().unwrap_or_default();
        let fix =
            format!("kubectl logs -n {namespace} {} -c {}, and kubectl describe pod", pod.name_any(), sidecar.name);
        Some(Finding::failed(format!("{}: {why}", name(pod)), fix))
    };
    let failed: Vec<Finding> = meshed.iter().filter_map(finding).collect();
    match (failed.is_empty(), meshed.len()) {
        (true, 0) => vec![Finding::ok(
            "no Pod has a proxy yet; kubectl annotate namespace NAME leno.dev/inject=enabled asks for proxies",
        )],
        (true, count) => vec![Finding::ok(format!("{count} of {count}"))],
        _ => failed,
    }
}

/// The version that proxies should have: the version of the control plane.
fn wanted_version(installed: &Installed) -> Option<&String> {
    installed.deployment.as_ref().ok()?.as_ref()?.labels().get(VERSION_LABEL)
}

fn versions(pods: &[&Pod], installed: &Installed) -> Vec<Finding> {
    let Some(wanted) = wanted_version(installed) else {
        return vec![Finding::warning(
            "the version of the control plane is not known",
            installed.installer().upgrade(),
        )];
    };
    let finding = |pod: &&&Pod| {
        let version = pods::sidecar_version(pod).unwrap_or("unknown");
        let is_other = version != wanted;
        is_other.then(|| {
            let fix = unpin(pod, installed, wanted).unwrap_or_else(|| restart(pod));
            Finding::warning(format!("{} has {version}, and the control plane {wanted}", name(pod)), fix)
        })
    };
    let others: Vec<Finding> =
        pods.iter().filter(|pod| pods::sidecar(pod).is_some()).filter_map(|pod| finding(&pod)).collect();
    if others.is_empty() {
        vec![Finding::ok(format!("all proxies have {wanted}, like the control plane"))]
    } else {
        others
    }
}

/// Returns what to do if an annotation sets another version for the Pod's proxy than `wanted`, so that a restart alone
/// would change nothing. `None` without such an annotation.
fn unpin(pod: &Pod, installed: &Installed, wanted: &str) -> Option<String> {
    let is_other = |pinned: &&String| pinned.split('@').next().map(str::trim) != Some(wanted);
    if let Some(pinned) = pod.annotations().get(PROXY_VERSION) {
        let pinned = Some(pinned).filter(is_other)?;
        return Some(format!(
            "remove or raise the annotation {PROXY_VERSION}: {pinned} in its Pod template, then {}",
            restart(pod)
        ));
    }
    let namespace = pod.namespace().unwrap_or_default();
    let known = installed.namespaces.iter().flatten().find(|known| known.name_any() == namespace)?;
    let pinned = known.annotations().get(PROXY_VERSION).filter(is_other)?;
    Some(format!(
        "remove or raise the annotation {PROXY_VERSION}: {pinned} of its namespace: kubectl annotate namespace \
         {namespace} {PROXY_VERSION}-, then {}",
        restart(pod)
    ))
}

/// Checks when the proxies' certificates expire. The certificates that expire soon together with the authority, at
/// `authority_ends`, share one remedy, so the report has one finding for all of them.
fn certificates(proxies: &Proxies, authority_ends: Option<SystemTime>, now: SystemTime) -> Vec<Finding> {
    let mut ending_together = 0;
    let mut finding = |((namespace, pod), metrics): (&(String, String), &Result<String, ClusterError>)| {
        let metrics = match metrics {
            Ok(metrics) => metrics,
            Err(error) => return Some(error.into()),
        };
        let logs = format!("kubectl logs -n {namespace} {pod} -c {PROXY} shows why renewal fails");
        let Some(expires) = Scrape::parse(metrics).time(EXPIRATION) else {
            return Some(Finding::failed(format!("{namespace}/{pod} has no certificate"), logs));
        };
        let told = relative(expires, now);
        match expires.duration_since(now) {
            Err(_) => Some(Finding::failed(format!("the certificate of {namespace}/{pod} expired {told}"), logs)),
            Ok(left) if left < CERTIFICATE_LEAST && authority_ends.is_some_and(|end| are_close(end, expires)) => {
                ending_together += 1;
                None
            }
            Ok(left) if left < CERTIFICATE_LEAST => {
                Some(Finding::warning(format!("the certificate of {namespace}/{pod} expires {told}"), logs))
            }
            Ok(_) => None,
        }
    };
    let mut found: Vec<Finding> = proxies.metrics.iter().filter_map(&mut finding).collect();
    let count = proxies.metrics.len();
    if ending_together > 0 {
        let expires = authority_ends.map_or(String::new(), |end| relative(end, now));
        found.push(Finding::warning(
            format!("{ending_together} of {count} expire {expires}, with the issuing authority"),
            "renew the authority; the proxies then renew their certificates",
        ));
    }
    if found.is_empty() { vec![Finding::ok(format!("{count} of {count} are valid for hours"))] } else { found }
}

/// Returns whether two times are less than 2 s apart. Metrics round the times of certificates to seconds.
fn are_close(one: SystemTime, other: SystemTime) -> bool {
    let apart = one.duration_since(other).or_else(|_| other.duration_since(one));
    apart.is_ok_and(|apart| apart < Duration::from_secs(2))
}

/// Checks whether the trust bundle's anchors verify the certificate that each proxy presents. Even a certificate that
/// has not expired may be issued by an authority that no peer trusts, for example after a new installation.
fn believed(shown: &[Shown]) -> Vec<Finding> {
    let finding = |one: &Shown| {
        let Shown { namespace, pod, problem, .. } = one;
        let fix = format!(
            "kubectl delete pod -n {namespace} {pod}, so that its proxy gets a new certificate; if that changes nothing, leno check about \
             the authority and the trust bundles"
        );
        Some(Finding::failed(format!("{namespace}/{pod}: {}", line(problem.as_deref()?)), fix))
    };
    let found: Vec<Finding> = shown.iter().filter_map(finding).collect();
    let count = shown.len();
    if found.is_empty() { vec![Finding::ok(format!("the trust bundle vouches for {count} of {count}"))] } else { found }
}

#[cfg(test)]
#[path = "proxies_tests.rs"]
mod tests;
