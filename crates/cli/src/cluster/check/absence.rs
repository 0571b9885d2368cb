//! Explains why a Pod that should have a proxy has none. Derives the possible reasons from the objects' timestamps, and
//! leaves out a reason only if the timestamps exclude it.

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};
use kube::ResourceExt;
use leno_install::annotations::INJECT;
use leno_install::names::{GUARD, INJECTOR};

use super::read::Installed;

/// JSON pointer to the annotation `leno.dev/inject` in `fieldsV1` of a managedFields entry. If an entry has this field,
/// the entry's manager wrote the annotation. The entry's time is when this manager last changed any of its fields. So
/// the annotation may be older than this time, but not newer.
const MANAGED_FIELD: &str = "/f:metadata/f:annotations/f:leno.dev~1inject";

/// The objects of an installation that add proxies to new Pods, or make the API server refuse Pods without a proxy.
#[derive(Default)]
pub(super) struct Gates<'a> {
    /// The configuration of the webhook that injects proxies.
    pub(super) injector: Option<&'a MutatingWebhookConfiguration>,
    pub(super) guard: Option<&'a ValidatingAdmissionPolicyBinding>,
}

impl<'a> Gates<'a> {
    pub(super) fn of(installed: &'a Installed) -> Self {
        Self {
            injector: installed.injector.as_ref().ok().and_then(Option::as_ref),
            guard: installed.guard.as_ref().ok().and_then(Option::as_ref),
        }
    }

    /// Whether the API server already refused Pods without their proxy when a Pod was created, at `created`.
    ///
    /// `failurePolicy: Fail` of the webhook proves nothing: the webhook's configuration does not record since when it has
    /// this value.
    fn had_guard(&self, created: &Time) -> bool {
        let guarded = self.guard.and_then(|guard| guard.metadata.creation_timestamp.as_ref());
        guarded.is_some_and(|guarded| guarded.0 < created.0)
    }
}

/// Explains in one sentence why the Pod has no proxy.
pub(super) fn why(pod: &Pod, namespace: Option<&Namespace>, gates: &Gates<'_>) -> String {
    let created = pod.metadata.creation_timestamp.as_ref();
    let installed = gates.injector.and_then(|injector| injector.metadata.creation_timestamp.as_ref());
    let (Some(created), Some(installed)) = (created, installed) else {
        return format!(
            "it is older than the annotation {INJECT} or than Leno, or the webhook {INJECTOR} was not asked or did not answer when it \
             was created"
        );
    };
    let at = |time: &Time| time.0.to_string();
    let since = format!("it was created at {}", at(created));
    // Timestamps have a resolution of one second. In the second of its creation, the webhook did not answer yet: the
    // control plane first has to write the webhook's caBundle.
    if created.0 <= installed.0 {
        return format!(
            "{since}, before the webhook could answer: MutatingWebhookConfiguration {INJECTOR} was created at {}",
            at(installed)
        );
    }
    // The Pod's own annotation takes precedence, so only the object with this annotation counts.
    let (whose, annotated) = match pod.annotations().contains_key(INJECT) {
        true => ("its own", Annotated::of(pod.managed_fields(), |changed| changed.0 <= created.0)),
        false => {
            let entries = namespace.map(ResourceExt::managed_fields).unwrap_or_default();
            ("its namespace's", Annotated::of(entries, |changed| changed.0 < created.0))
        }
    };
    let silent = format!("the webhook {INJECTOR} was not asked or did not answer when the Pod was created");
    if gates.had_guard(created) {
        return format!(
            "{since}, and with the present settings, ValidatingAdmissionPolicy {GUARD} would have refused it; so an annotation {INJECT} of \
             the Pod or of its namespace, or the value webhook.excludedNamespaces or webhook.namespaceOnly, has changed since"
        );
    }
    match annotated {
        Annotated::Before => format!("{since}, and {silent}"),
        Annotated::MaybeLater(changed) => format!(
            "{since}, and {whose} annotation {INJECT} may be newer: its writer last changed the object at {}; or {silent}",
            at(changed)
        ),
        Annotated::Unknown => format!("{since}: either {whose} annotation {INJECT} is newer than the Pod, or {silent}"),
    }
}

/// When the annotation [`INJECT`] of an object got its value, in comparison with the creation of a Pod.
enum Annotated<'a> {
    Before,
    /// The writer of the annotation has changed the object at this time. The change may be the annotation.
    MaybeLater(&'a Time),
    /// The object does not record the writer of the annotation.
    Unknown,
}

impl<'a> Annotated<'a> {
    /// `is_before` tells whether a time is before the Pod's creation. The fields of the Pod itself have the time of its
    /// creation, unless their manager has changed the Pod since.
    fn of(entries: &'a [ManagedFieldsEntry], is_before: impl Fn(&Time) -> bool) -> Self {
        let wrote_it = |entry: &&ManagedFieldsEntry| {
            entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(MANAGED_FIELD).is_some())
        };
        let times = entries.iter().filter(wrote_it).filter_map(|entry| entry.time.as_ref());
        match times.max_by_key(|time| time.0) {
            None => Self::Unknown,
            Some(changed) if is_before(changed) => Self::Before,
            Some(changed) => Self::MaybeLater(changed),
        }
    }
}

#[cfg(test)]
#[path = "absence_tests.rs"]
mod tests;
