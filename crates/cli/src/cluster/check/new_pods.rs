//! Checks whether new Pods get a proxy. If they do not, reports which happens: the API server refuses them, or they
//! start without a proxy.

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use leno_install::annotations::INJECT;
use leno_install::inject::{Wish, is_never_meshed};
use leno_install::names::{GUARD, INJECTOR};
use leno_model::problem::in_a_line;

use super::kubernetes::API_SERVER;
use super::read::Installed;
use super::report::{Checklist, Finding};
use crate::cluster::connect::ClusterError;
use crate::cluster::installer::Installer;

const RUN_AGAIN: &str = "start the control plane again, as described below";

pub(super) const NEW_PODS: &str = "new Pods";

/// Maximum number of meshed namespaces that one finding lists.
const NAMESPACES_MAX: usize = 5;

/// The state of the objects that inject proxies into new Pods or make the API server refuse new Pods.
struct Gates {
    /// Whether the control plane is installed, even if no replica runs.
    is_installed: bool,
    /// Whether a replica of the control plane is available to answer the webhook.
    is_served: bool,
    /// `None` if the injector's webhook does not exist; otherwise whether the API server refuses Pods while the webhook
    /// does not answer.
    injector: Option<bool>,
    has_guard: bool,
    /// The names of the namespaces that are annotated for the mesh, as text for users; empty if there are none.
    meshed: String,
    installer: Installer,
}

/// Checks the [`Gates`]. The check runs even if Leno is not installed, because objects that remain from a removed
/// installation still take effect.
pub(super) fn conclude(list: &mut Checklist, facts: &Installed) {
    list.check(NEW_PODS, &[API_SERVER], || match gates(facts) {
        Ok(gates) => gates.findings(),
        Err(error) => vec![error.into()],
    });
}

fn gates(facts: &Installed) -> Result<Gates, &ClusterError> {
    let status = facts.deployment.as_ref()?.as_ref().and_then(|deployment| deployment.status.as_ref());
    let available = status.and_then(|status| status.available_replicas).unwrap_or(0);
    let injector = facts.injector.as_ref()?.as_ref().map(|injector| {
        // `Fail` is the API server's default, so a webhook without a failure policy refuses Pods too.
        injector.webhooks.iter().flatten().any(|webhook| webhook.failure_policy.as_deref() != Some("Ignore"))
    });
    let asks = |namespace: &&Namespace| {
        let word = namespace.annotations().get(INJECT).map(String::as_str);
        Wish::AsNamespace.is_for_the_mesh(word) && !is_never_meshed(&namespace.name_any())
    };
    let meshed: Vec<String> = facts.namespaces.as_ref()?.iter().filter(asks).map(ResourceExt::name_any).collect();
    Ok(Gates {
        is_installed: facts.deployment.as_ref()?.is_some(),
        is_served: available > 0,
        injector,
        has_guard: facts.guard.as_ref()?.is_some(),
        meshed: in_a_line(&meshed, NAMESPACES_MAX).replace(". ", ", "),
        installer: facts.installer(),
    })
}

impl Gates {
    fn findings(&self) -> Vec<Finding> {
        match (self.is_served, self.injector, self.has_guard) {
            (_, None, false) => Vec::new(),
            (true, Some(_), true) | (true, Some(true), false) => {
                vec![Finding::ok("Pods of meshed namespaces get a proxy or are refused")]
            }
            (true, Some(false), false) => vec![Finding::warning(
                format!("there is no {GUARD}: a Pod that is created while no replica answers starts without its proxy"),
                self.installer.set("guard.enabled=true"),
            )],
            (true, None, true) => vec![Finding::failed(
                format!(
                    "there is no MutatingWebhookConfiguration {INJECTOR}, so {GUARD} refuses every Pod that should have a proxy"
                ),
                self.installer.upgrade(),
            )],
            (false, injector, has_guard) => self.without_a_control_plane(injector == Some(true), has_guard),
        }
    }

    fn without_a_control_plane(&self, webhook_fails: bool, has_guard: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        if webhook_fails {
            findings.push(Finding::failed(
                format!(
                    "MutatingWebhookConfiguration {INJECTOR} refuses them in all namespaces that it selects: its failurePolicy is Fail and \
                     no control plane answers"
                ),
                format!("kubectl delete mutatingwebhookconfiguration {INJECTOR} lets them start"),
            ));
        }
        if !self.meshed.is_empty() {
            let meshed = &self.meshed;
            findings.push(match has_guard {
                true => Finding::failed(
                    format!(
                        "ValidatingAdmissionPolicy {GUARD} refuses Pods of meshed namespaces ({meshed}), since no control plane gives \
                         them a proxy"
                    ),
                    format!(
                        "{}; or kubectl delete validatingadmissionpolicybinding {GUARD} lets them start without a proxy",
                        match self.is_installed {
                            true => RUN_AGAIN.to_owned(),
                            false => format!("install a control plane again: {}", self.installer.install()),
                        }
                    ),
                ),
                false if webhook_fails => return findings,
                false => Finding::failed(
                    format!("Pods of meshed namespaces ({meshed}) start without a proxy: no control plane answers"),
                    format!("to have the API server refuse them: {}", self.installer.set("guard.enabled=true")),
                ),
            });
        }
        if findings.is_empty() {
            findings.push(Finding::ok("no namespace is meshed, so all start"));
        }
        findings
    }
}

#[cfg(test)]
#[path = "new_pods_tests.rs"]
mod tests;
