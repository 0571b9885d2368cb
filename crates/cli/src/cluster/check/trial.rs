//! Tests whether the API server reaches the injector's webhook: creates a Pod as a dry run. For a dry run, the API server
//! calls the webhook and stores nothing.
//!
//! All other checks only read objects. They do not notice a firewall between the API server and the nodes, or a network
//! plug-in whose Pod addresses the API server cannot reach.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt;
use leno_install::annotations::INJECT;
use leno_install::inject::{asks_for_injection, is_never_meshed};
use leno_install::names::{CONTROL_NAMESPACE, GUARD, INIT, INJECTOR};
use serde_json::json;

use super::installed::{NAMESPACE, PODS};
use super::new_pods::NEW_PODS;
use super::pre::dry_run;
use super::proxies::excluded;
use super::read::Installed;
use super::refused::{WEBHOOK, for_limits, is_denied, names_the_mesh};
use super::report::{Checklist, Finding};
use crate::cluster::connect::{Cluster, ClusterError};
use crate::cluster::forbidden::Forbidden;
use crate::cluster::pods;
use crate::cluster::printable::line;

pub(super) const INJECTION: &str = "injection";

/// Where the control plane serves its webhooks.
const PORT: u16 = 15_017;

/// Maximum number of namespaces in which one check tries to create a Pod. A trial takes at most the timeout of the
/// webhook, 5 s by default.
const TRIALS_MAX: usize = 3;

/// The namespace for the trial if no namespace is meshed. Every cluster has it.
const DEFAULT_NAMESPACE: &str = "default";

/// An attempt to create a Pod, as a dry run.
pub(super) struct Trial {
    namespace: String,
    /// Whether the namespace asks for proxies. Otherwise the annotation of the trial's Pod asks.
    is_meshed: bool,
    answer: Answer,
}

/// The API server's answer to a [`Trial`].
enum Answer {
    /// The API server would have created the Pod, with or without a container that the webhook adds.
    Accepted { has_sidecar: bool },
    /// The user may not create Pods in the namespace.
    NotAllowed,
    /// The API server would have refused the Pod, with this message.
    Refused(String),
    /// The API server did not answer.
    Failed(ClusterError),
}

/// Tries to create a Pod in a namespace of the mesh. If the answer shows nothing about the webhook, tries the next
/// namespace. `None` if no control plane runs that could answer, or if no namespace may have proxies.
pub(super) async fn read(cluster: &Cluster, installed: &Installed) -> Option<Trial> {
    let mut trial = None;
    for (namespace, is_meshed) in namespaces(installed) {
        let created = cluster.within::<Pod>(&namespace).create(&dry_run(), &template(is_meshed)).await;
        let answer = match created {
            Ok(pod) => Answer::Accepted { has_sidecar: pods::sidecar(&pod).is_some() },
            Err(kube::Error::Api(status)) if Forbidden::of(&status.message).is_of_rights() => Answer::NotAllowed,
            Err(kube::Error::Api(status)) => Answer::Refused(status.message),
            Err(error) => Answer::Failed(cluster.explain(&error)),
        };
        let is_conclusive = answer.is_conclusive();
        trial = Some(Trial { namespace, is_meshed, answer });
        if is_conclusive {
            break;
        }
    }
    trial
}

/// The namespaces in which to try, and whether each is meshed. Without a meshed namespace, the trial's Pod itself asks
/// for a proxy.
fn namespaces(installed: &Installed) -> Vec<(String, bool)> {
    let is_served = installed.pods.iter().flatten().any(|pod| pods::why_not_ready(pod).is_none());
    if !is_served || !matches!(installed.injector, Ok(Some(_))) {
        return Vec::new();
    }
    let excluded = excluded(installed);
    let may_be_meshed = |name: &String| !is_never_meshed(name) && !excluded.contains(name);
    let is_meshed = |namespace: &&Namespace| {
        let asks = namespace.annotations().get(INJECT).is_some_and(|word| asks_for_injection(word));
        asks && namespace.metadata.deletion_timestamp.is_none()
    };
    let meshed = installed.namespaces.iter().flatten().filter(is_meshed).map(ResourceExt::name_any);
    let meshed: Vec<_> = meshed.filter(may_be_meshed).map(|name| (name, true)).take(TRIALS_MAX).collect();
    if !meshed.is_empty() {
        return meshed;
    }
    let default = Some(DEFAULT_NAMESPACE.to_owned()).filter(may_be_meshed);
    default.into_iter().map(|name| (name, false)).collect()
}

/// The Pod of a trial, in a namespace that is meshed or not. It satisfies the strictest level of Pod Security, and the
/// usual ResourceQuotas.
fn template(is_meshed: bool) -> Pod {
    let annotations = if is_meshed { json!({}) } else { json!({INJECT: "enabled"}) };
    let least = json!({"cpu": "1m", "memory": "1Mi"});
    let pod = json!({
        "metadata": {"generateName": "leno-check-", "annotations": annotations},
        "spec": {
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65_534, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "app", "image": "leno-check", "resources": {"requests": least, "limits": least},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    serde_json::from_value(pod).expect("it is a Pod")
}

impl Answer {
    /// Whether the answer shows that the API server reaches the webhook, or that it does not.
    fn is_conclusive(&self) -> bool {
        match self {
            Self::Accepted { .. } | Self::Failed(_) => true,
            Self::NotAllowed => false,
            Self::Refused(message) => names_the_mesh(message),
        }
    }
}

/// Reports whether the API server reaches the webhook.
pub(super) fn conclude(list: &mut Checklist, facts: &Installed) {
    list.check(INJECTION, &[NAMESPACE, PODS, NEW_PODS], || match (&facts.trial, &facts.injector) {
        (Some(trial), _) => trial.finding(),
        (None, Err(error)) => error.into(),
        (None, Ok(None)) => Finding::skipped(format!("there is no MutatingWebhookConfiguration {INJECTOR}")),
        (None, Ok(Some(_))) => Finding::skipped("there is no namespace whose Pods may have proxies"),
    });
}

impl Trial {
    /// A trial in which the API server accepted a Pod with these init containers.
    #[cfg(test)]
    pub(super) fn accepted(namespace: &str, init_containers: &[&str]) -> Self {
        let named: Vec<_> = init_containers.iter().map(|name| json!({"name": name})).collect();
        let pod = json!({"spec": {"initContainers": named, "containers": []}});
        let pod: Pod = serde_json::from_value(pod).expect("it is a Pod");
        let answer = Answer::Accepted { has_sidecar: pods::sidecar(&pod).is_some() };
        Self { namespace: namespace.to_owned(), is_meshed: true, answer }
    }

    fn finding(&self) -> Finding {
        let namespace = &self.namespace;
        let message = match &self.answer {
            Answer::Accepted { has_sidecar: true } => {
                return Finding::ok(format!(
                    "the API server reaches the webhook: a new Pod in namespace {namespace} would get its proxy"
                ));
            }
            Answer::Accepted { has_sidecar: false } => {
                return silent(format!(
                    "a new Pod in namespace {namespace} would start without a proxy: the webhook {INJECTOR} does not answer the API server"
                ));
            }
            Answer::NotAllowed => {
                return Finding::skipped(format!(
                    "you may not create Pods in namespace {namespace}, so leno check cannot test the webhook there"
                ));
            }
            Answer::Failed(error) => return error.into(),
            Answer::Refused(message) => line(message),
        };
        let refuses = format!("the API server refuses a new Pod in namespace {namespace}: {message}");
        if !names_the_mesh(&message) {
            Finding::skipped(format!("{refuses}; so leno check cannot test the webhook there"))
        } else if is_denied(&message) && !self.is_meshed {
            // webhook.namespaceOnly may forbid the annotation of the trial's Pod.
            Finding::ok(format!("the API server reaches the webhook: it refuses a new Pod in namespace {namespace}"))
        } else if is_denied(&message) {
            Finding::warning(refuses, format!("the webhook answers; correct what it names in namespace {namespace}"))
        } else if message.contains(WEBHOOK) && message.contains("x509") {
            Finding::failed(refuses, "the API server does not accept the webhook's certificate: see the check webhooks")
        } else if message.contains(GUARD) {
            silent(refuses)
        } else if message.contains(WEBHOOK) {
            Finding::failed(refuses, firewall())
        } else if !self.is_meshed {
            // The webhook has added the container, so it answers. Only a Pod that itself asks for a proxy is refused
            // here, and such a Pod need not exist.
            Finding::ok(format!(
                "the API server reaches the webhook; namespace {namespace} admits no Pod with a proxy, and is not meshed"
            ))
        } else {
            let change = || format!("change what the message names; {INIT} needs root and NET_ADMIN");
            Finding::failed(refuses, for_limits(&message, namespace).unwrap_or_else(change))
        }
    }
}

/// A finding about a webhook that did not add the proxy, although the control plane runs. The API server does not report
/// why its call failed: with a wrong caBundle, it also continues without the webhook.
fn silent(why: String) -> Finding {
    Finding::failed(why, format!("if the check webhooks is ok: {}", firewall()))
}

/// The remedy for API servers that cannot reach the webhook.
fn firewall() -> String {
    format!(
        "let the API servers reach port {PORT} of the Pods of leno-control in namespace {CONTROL_NAMESPACE}, through firewalls and \
         NetworkPolicies: docs/kubernetes.md has the rule for each kind of cluster"
    )
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
