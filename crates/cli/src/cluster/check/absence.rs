//! Explains why a Pod that should have a proxy has none. Derives the reason from the objects' timestamps.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};
use kube::ResourceExt;
use leno_install::annotations::INJECT;

/// JSON pointer to the annotation `leno.dev/inject` in `fieldsV1` of a managedFields entry. If an entry has this field,
/// the entry's manager wrote the annotation. The entry's time is when this manager last changed any of its fields. So
/// the annotation may be older than this time, but not newer.
const MANAGED_FIELD: &str = "/f:metadata/f:annotations/f:leno.dev~1inject";

/// Explains in one sentence why the Pod has no proxy. `injector` is the configuration of the webhook that injects
/// proxies.
pub(super) fn why(pod: &Pod, namespace: Option<&Namespace>, injector: Option<&MutatingWebhookConfiguration>) -> String {
    let created = pod.metadata.creation_timestamp.as_ref();
    let installed = injector.and_then(|injector| injector.metadata.creation_timestamp.as_ref());
    let (Some(created), Some(installed)) = (created, installed) else {
        return "it is older than the annotation or than Leno, or the control plane was away when it was created"
            .to_owned();
    };
    let at = |time: &Time| time.0.to_string();
    if created.0 < installed.0 {
        return format!("it was created at {}, before Leno was installed at {}", at(created), at(installed));
    }
    // If the Pod has its own annotation, that one applies, so ignore when the namespace was annotated. Managed fields
    // cannot prove that a user annotated the Pod after its creation, so assume that the Pod was created with its
    // annotation.
    let changed = namespace.filter(|_| !pod.annotations().contains_key(INJECT)).and_then(changed);
    match changed {
        // Timestamps have a resolution of one second, so two equal timestamps do not show which event was first.
        Some(changed) if created.0 <= changed.0 => {
            format!(
                "it was created at {}, and its namespace was changed at {}: either the annotation is newer than the \
                 Pod, or the webhook {INJECTOR_NAME} did not answer when the Pod was created",
                at(created),
                at(changed)
            )
        }
        _ => format!("the webhook {INJECTOR_NAME} did not answer when it was created, at {}", at(created)),
    }
}

/// Name of the webhook configuration, as `kubectl get` shows it.
const INJECTOR_NAME: &str = leno_install::names::INJECTOR;

/// Returns when the writer of the namespace's annotation last changed the namespace.
fn changed(namespace: &Namespace) -> Option<&Time> {
    let entries = namespace.metadata.managed_fields.iter().flatten();
    let wrote_it = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(MANAGED_FIELD).is_some())
    };
    entries.filter(wrote_it).filter_map(|entry| entry.time.as_ref()).max_by_key(|time| time.0)
}

#[cfg(test)]
#[path = "absence_tests.rs"]
mod tests;
