//! The checks that `leno check` runs on an existing installation.

use std::time::SystemTime;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use leno_install::names::{CONTROL, CONTROL_NAMESPACE, VERSION_LABEL};
use serde_json::Value;

use super::kubernetes::{self, API_SERVER};
use super::read::{ControlAnswer, DEFINITIONS, Installed};
use super::report::{Checklist, Finding};
use super::{cilium, namespaces, networks, new_pods, trial, trust};
use crate::cluster::connect::ClusterError;
use crate::cluster::installer::{INSTALL, Installer};
use crate::cluster::pods;
use crate::cluster::running::pinned_images;
use leno_lab::http::Answer;

pub(super) const NAMESPACE: &str = "namespace";
pub(super) const DEPLOYMENT: &str = "Deployment";
pub(super) const PODS: &str = "control plane's Pods";
const READY: &str = "control plane";

pub(super) fn conclude(facts: &Installed, now: SystemTime) -> Checklist {
    let installer = &facts.installer();
    let mut list = Checklist::default();
    kubernetes::conclude(&mut list, &facts.version);
    cilium::conclude(&mut list, facts.cilium.as_ref());
    list.section("installation");
    list.check(NAMESPACE, &[API_SERVER], || match &facts.namespace {
        Ok(Some(_)) => Finding::ok(format!("{CONTROL_NAMESPACE} is there")),
        Ok(None) => {
            Finding::failed(format!("there is no namespace {CONTROL_NAMESPACE}: Leno is not installed"), INSTALL)
        }
        Err(error) => error.into(),
    });
    list.check(DEPLOYMENT, &[NAMESPACE], || match &facts.deployment {
        Ok(deployment) => available(deployment.as_ref(), installer),
        Err(error) => error.into(),
    });
    list.check("definitions", &[NAMESPACE], || match &facts.definitions {
        Ok(found) => established(found),
        Err(error) => error.into(),
    });
    list.check(PODS, &[NAMESPACE], || match &facts.pods {
        Ok(all) => running(all, installer),
        Err(error) => error.into(),
    });
    new_pods::conclude(&mut list, facts);
    trial::conclude(&mut list, facts);
    list.check("namespaces", &[API_SERVER], || match &facts.namespaces {
        Ok(all) => namespaces::findings(all),
        Err(error) => vec![error.into()],
    });
    networks::conclude(&mut list, facts);
    list.section("identity");
    trust::conclude(&mut list, facts, now);
    list.section("answers of the control plane");
    list.check(READY, &[PODS], || facts.answers.iter().map(ready).collect::<Vec<_>>());
    let pinned = facts.config.as_ref().and_then(pinned_images);
    list.check("its version", &[DEPLOYMENT], || version(facts.deployment.as_ref(), pinned, installer));
    list.check("what you configured", &[PODS], || configured(&facts.answers));
    kubernetes::gateway(&mut list, &facts.routes);
    list
}

fn available(deployment: Option<&Deployment>, installer: &Installer) -> Finding {
    let Some(deployment) = deployment else {
        return Finding::failed(
            format!("there is no Deployment {CONTROL}: no control plane runs"),
            installer.install(),
        );
    };
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    let shown = format!("{available} of {wanted} replicas are available");
    match available {
        0 => Finding::failed(
            format!("{shown}: no proxy gets a certificate, and Pods of meshed namespaces do not start"),
            format!(
                "kubectl rollout status -n {CONTROL_NAMESPACE} deployment/{CONTROL} waits; kubectl describe says why"
            ),
        ),
        available if available < wanted => Finding::warning(shown, format!("kubectl get pods -n {CONTROL_NAMESPACE}")),
        _ => Finding::ok(shown),
    }
}

fn established(found: &[Option<CustomResourceDefinition>]) -> Vec<Finding> {
    let install = "leno install --crds | kubectl apply -f -";
    let finding = |(name, found): (&str, &Option<CustomResourceDefinition>)| {
        let Some(definition) = found else {
            return Finding::failed(format!("there is no CustomResourceDefinition {name}"), install);
        };
        let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        match conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
            true => Finding::ok(format!("{name} is there")),
            false => Finding::failed(
                format!("{name} exists, but the API server does not serve it"),
                format!("kubectl describe crd {name} says why"),
            ),
        }
    };
    DEFINITIONS.into_iter().zip(found).map(finding).collect()
}

fn running(all: &[Pod], installer: &Installer) -> Vec<Finding> {
    let living: Vec<&Pod> = all.iter().filter(|pod| pods::is_alive(pod)).collect();
    if living.is_empty() {
        let describe = format!("kubectl describe replicaset -n {CONTROL_NAMESPACE} says who refuses them");
        return vec![Finding::failed("there is none", describe)];
    }
    let finding = |pod: &&Pod| {
        let name = pod.name_any();
        let why = pods::why_not_ready(pod)?;
        let fix = fix(&name, &why, installer);
        Some(Finding::failed(format!("{name}: {why}"), fix))
    };
    let failed: Vec<Finding> = living.iter().filter_map(finding).collect();
    match (failed.len(), living.len()) {
        (0, count) => vec![Finding::ok(format!("{count} of {count} are ready"))],
        (failing, count) if failing == count => failed,
        // If at least one replica is ready, it serves the proxies, so report the failures of the other replicas as
        // warnings.
        _ => failed.into_iter().map(Finding::into_warning).collect(),
    }
}

/// Returns the command to run if a Pod of the control plane is not ready.
fn fix(pod: &str, why: &str, installer: &Installer) -> String {
    let is = |words: &[&str]| words.iter().any(|word| why.contains(word));
    if is(&["ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"]) {
        return format!(
            "name a registry from which the nodes can pull the images: {}; docs/images.md says how to push them",
            installer.set("image.registry=REGISTRY")
        );
    }
    if is(&["CrashLoopBackOff", ": Error", "OOMKilled"]) {
        let container = why.split(':').next().unwrap_or(CONTROL);
        return format!("kubectl logs -n {CONTROL_NAMESPACE} {pod} -c {container} --previous");
    }
    if is(&["no node was found"]) {
        return "kubectl get nodes: one must be Ready, and a scheduler must run".to_owned();
    }
    format!("kubectl describe pod -n {CONTROL_NAMESPACE} {pod}")
}

fn ready(answer: &ControlAnswer) -> Finding {
    let pod = &answer.pod;
    match &answer.ready {
        Ok(Answer { status: 200, .. }) => Finding::ok(format!("{pod} is ready")),
        Ok(Answer { body, .. }) => {
            Finding::failed(format!("{pod}: {}", body.trim()), format!("kubectl logs -n {CONTROL_NAMESPACE} {pod}"))
        }
        Err(error) => error.into(),
    }
}

/// Compares the version of the control plane with the version of this `leno`. `pinned` is the installation's
/// `image.version`, which an upgrade keeps.
fn version(
    deployment: Result<&Option<Deployment>, &ClusterError>,
    pinned: Option<&str>,
    installer: &Installer,
) -> Finding {
    let ours = env!("CARGO_PKG_VERSION");
    let deployment = match deployment {
        Ok(deployment) => deployment.as_ref(),
        Err(error) => return error.into(),
    };
    match deployment.and_then(|deployment| deployment.labels().get(VERSION_LABEL)) {
        Some(theirs) if theirs == ours => Finding::ok(theirs.clone()),
        Some(theirs) if pinned == Some(theirs.as_str()) => Finding::warning(
            format!("image.version pins it to {theirs}, and this leno is {ours}"),
            format!("{} removes the pin", installer.set("image.version=")),
        ),
        Some(theirs) => Finding::warning(
            format!("it is {theirs}, and this leno is {ours}"),
            format!("use the leno of {theirs}, or upgrade to {ours}: {}", installer.upgrade()),
        ),
        None => Finding::warning(format!("its Deployment has no label {VERSION_LABEL}"), installer.upgrade()),
    }
}

/// Lists the mistakes that the control plane found in objects. Every replica reports the same mistakes, so the first
/// answer suffices.
fn configured(answers: &[ControlAnswer]) -> Vec<Finding> {
    let Some(answer) = answers.first() else { return Vec::new() };
    let body = match &answer.config {
        Ok(answer) => &answer.body,
        Err(error) => return vec![error.into()],
    };
    let Ok(config) = serde_json::from_str::<Value>(body) else {
        let why = format!("/config of {} is not JSON", answer.pod);
        return vec![Finding::failed(why, "use the leno of the control plane's version")];
    };
    let list = |name: &str| config[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let problems = list("problems");
    // Report only notices about policies: a policy that selects nothing protects nothing. Other notices, such as one
    // about a Service without endpoints, do not indicate a fault.
    let told = list("notices").iter().filter(|notice| is_of_policy(notice)).map(|notice| {
        let (object, what) =
            (notice["object"].as_str().unwrap_or_default(), notice["what"].as_str().unwrap_or_default());
        Finding::warning(
            format!("{object}: {what}"),
            "correct it; kubectl get authorizationpolicies -A -o yaml shows its status",
        )
    });
    let told: Vec<Finding> = told.collect();
    if problems.is_empty() && told.is_empty() {
        return vec![Finding::ok("no mistakes in Services, routes and policies")];
    }
    let text = |problem: &Value, key: &str| problem[key].as_str().unwrap_or_default().to_owned();
    let finding = |problem: &Value| {
        let (field, object, what) = (text(problem, "field"), text(problem, "object"), text(problem, "what"));
        let place = if field.is_empty() { object } else { format!("{field} of {object}") };
        Finding::warning(format!("{place}: {what}"), text(problem, "fix"))
    };
    problems.iter().map(finding).chain(told).collect()
}

/// Whether a notice reports that a policy does not have the effect that its author intended.
fn is_of_policy(notice: &Value) -> bool {
    let text = |key: &str| notice[key].as_str().unwrap_or_default();
    let tells = ["there is no ", "it cannot be read"].iter().any(|words| text("what").contains(words));
    text("object").starts_with("AuthorizationPolicy ") && tells
}

#[cfg(test)]
#[path = "installed_tests.rs"]
mod tests;
