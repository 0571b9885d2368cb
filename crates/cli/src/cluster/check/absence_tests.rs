use serde_json::json;

use super::super::fixtures::object;
use super::*;

/// The time `minute` minutes after noon of a fixed day.
fn at(minute: u32) -> String {
    format!("2026-01-01T12:{minute:02}:00Z")
}

/// An entry of managedFields whose manager wrote the annotation and changed the object last at `minute`.
fn wrote_it(minute: u32) -> serde_json::Value {
    json!({"manager": "kubectl-annotate", "operation": "Update", "time": at(minute), "fieldsType": "FieldsV1",
           "fieldsV1": {"f:metadata": {"f:annotations": {"f:leno.dev/inject": {}}}}})
}

/// The reason for a Pod that was created at minute `created` in a namespace whose annotation was written at minute
/// `annotated`, in an installation of minute 2 with this guard.
fn reason(created: u32, annotated: Option<u32>, guarded: Option<u32>) -> String {
    let later = json!({"manager": "other", "operation": "Update", "time": at(59), "fieldsV1": {"f:metadata": {"f:labels": {}}}});
    let entries: Vec<_> = annotated.map(wrote_it).into_iter().chain([later]).collect();
    let namespace: Namespace = object(json!({"metadata": {"name": "shop", "managedFields": entries}}));
    let pod: Pod = object(json!({"metadata": {"name": "web-1", "creationTimestamp": at(created)}}));
    told(&pod, &namespace, guarded)
}

fn told(pod: &Pod, namespace: &Namespace, guarded: Option<u32>) -> String {
    let injector = object(json!({"metadata": {"name": "leno-injector", "creationTimestamp": at(2)}}));
    let guard =
        guarded.map(|minute| object(json!({"metadata": {"name": "leno-guard", "creationTimestamp": at(minute)}})));
    why(pod, Some(namespace), &Gates { injector: Some(&injector), guard: guard.as_ref() })
}

const AWAY: &str = "the webhook leno-injector was not asked or did not answer when the Pod was created";

#[test]
fn a_pod_is_older_than_the_webhook_or_than_the_annotation_or_the_webhook_was_away() {
    for created in [1, 2] {
        let expected = format!(
            "it was created at 2026-01-01T12:0{created}:00Z, before the webhook could answer: MutatingWebhookConfiguration \
             leno-injector was created at 2026-01-01T12:02:00Z"
        );
        assert_eq!(reason(created, Some(3), None), expected);
    }
    // The manager that wrote the annotation may have changed another field at 12:05, so both reasons are possible.
    for created in [4, 5] {
        let expected = format!(
            "it was created at 2026-01-01T12:0{created}:00Z, and its namespace's annotation leno.dev/inject may be newer: its writer \
             last changed the object at 2026-01-01T12:05:00Z; or {AWAY}"
        );
        assert_eq!(reason(created, Some(5), None), expected);
    }
    assert_eq!(reason(6, Some(5), None), format!("it was created at 2026-01-01T12:06:00Z, and {AWAY}"));
    // Nothing shows when the namespace was annotated.
    let unknown = "it was created at 2026-01-01T12:06:00Z: either its namespace's annotation leno.dev/inject is newer than the Pod, or ";
    assert_eq!(reason(6, None, None), format!("{unknown}{AWAY}"));
}

#[test]
fn a_guard_that_is_older_than_the_pod_shows_that_an_annotation_or_a_value_has_changed() {
    let changed = "it was created at 2026-01-01T12:06:00Z, and with the present settings, ValidatingAdmissionPolicy leno-guard would have \
                   refused it; so an annotation leno.dev/inject of the Pod or of its namespace, or the value \
                   webhook.excludedNamespaces or webhook.namespaceOnly, has changed since";
    assert_eq!(reason(6, Some(5), Some(3)), changed);
    assert!(reason(6, Some(5), Some(6)).ends_with(AWAY));
}

#[test]
fn an_annotation_that_a_user_added_to_a_running_pod_is_a_possible_reason() {
    let pod = |minute| -> Pod {
        object(json!({"metadata": {
            "name": "web-1", "creationTimestamp": at(6), "annotations": {"leno.dev/inject": "enabled"},
            "managedFields": [wrote_it(minute)],
        }}))
    };
    let namespace: Namespace = object(json!({"metadata": {"name": "shop", "managedFields": [wrote_it(50)]}}));
    let later = told(&pod(7), &namespace, None);
    assert!(later.contains("its own annotation leno.dev/inject may be newer: its writer last changed"), "{later}");
    // The Pod was created with its annotation, so the annotation of the namespace does not matter.
    let since = "it was created at 2026-01-01T12:06:00Z, and ";
    assert_eq!(told(&pod(6), &namespace, None), format!("{since}{AWAY}"));
}

#[test]
fn without_times_no_reason_is_made_up() {
    let reason = why(&Pod::default(), None, &Gates::default());
    assert!(
        reason.starts_with("it is older than the annotation leno.dev/inject or than Leno, or the webhook"),
        "{reason}"
    );
}
