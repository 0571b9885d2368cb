//! Whether namespaces ask for proxies as their authors meant: names of annotations that do not exist, values that would stop
//! Pods, and labels that should be annotations.

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use leno_install::annotations::INJECT;
use leno_install::inject::review_namespace;

use super::report::Finding;

/// Concludes for all namespaces.
pub(super) fn findings(namespaces: &[Namespace]) -> Vec<Finding> {
    let mistakes: Vec<Finding> = namespaces.iter().flat_map(mistakes).collect();
    if mistakes.is_empty() { vec![Finding::ok("their annotations have no mistake")] } else { mistakes }
}

fn mistakes(namespace: &Namespace) -> Vec<Finding> {
    let name = namespace.name_any();
    let fix = match namespace.labels().get(INJECT) {
        Some(value) => {
            format!("kubectl annotate namespace {name} {INJECT}={value}; kubectl label namespace {name} {INJECT}-")
        }
        None => format!("kubectl annotate namespace {name} NAME-, and the right one"),
    };
    let lines = serde_json::to_value(namespace).map(|namespace| review_namespace(&namespace)).unwrap_or_default();
    lines.into_iter().map(|line| Finding::warning(format!("{name}: {line}"), fix.clone())).collect()
}

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod tests;
