//! Finds mistakes in the annotations and labels of namespaces: unknown annotations, values that make the webhook refuse
//! Pods, labels that should be annotations, and a level of Pod Security admission that does not allow proxies.

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use leno_install::annotations::INJECT;
use leno_install::inject::review_namespace;
use leno_install::names::POD_SECURITY;

use super::report::Finding;

/// Returns a warning for each mistake in a namespace, or one finding with the verdict ok if there is no mistake.
pub(super) fn findings(namespaces: &[Namespace]) -> Vec<Finding> {
    let mistakes: Vec<Finding> = namespaces.iter().flat_map(mistakes).collect();
    if mistakes.is_empty() { vec![Finding::ok("their annotations have no mistake")] } else { mistakes }
}

fn mistakes(namespace: &Namespace) -> Vec<Finding> {
    let lines = serde_json::to_value(namespace).map(|namespace| review_namespace(&namespace)).unwrap_or_default();
    let name = namespace.name_any();
    lines.into_iter().map(|line| Finding::warning(format!("{name}: {line}"), fix(namespace, &line))).collect()
}

/// Returns the commands that correct a mistake. `line` is the mistake's line from [`review_namespace`].
fn fix(namespace: &Namespace, line: &str) -> String {
    let name = namespace.name_any();
    let label = namespace.labels().iter().find(|(label, _)| line.starts_with(&format!("label {label}:")));
    match label {
        Some((label, _)) if label == POD_SECURITY => {
            format!("kubectl label namespace {name} --overwrite {label}=privileged")
        }
        // Do not copy this value from the label to the annotation: it is not valid there, and the webhook would refuse
        // the namespace's Pods.
        Some((label, value)) if label == INJECT && !["enabled", "disabled", "grpc"].contains(&value.as_str()) => {
            format!("kubectl annotate namespace {name} {label}=enabled; kubectl label namespace {name} {label}-")
        }
        Some((label, value)) => {
            format!("kubectl annotate namespace {name} '{label}={value}'; kubectl label namespace {name} {label}-")
        }
        None => format!("kubectl annotate namespace {name} NAME-, then annotate it with the right name or value"),
    }
}

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod tests;
