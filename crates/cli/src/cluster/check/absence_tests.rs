use serde_json::json;

use super::super::fixtures::object;
use super::*;

/// The time `minute` minutes after noon of a fixed day.
fn at(minute: u32) -> String {
    format!("2026-01-01T12:{minute:02}:00Z")
}

fn reason(created: u32, annotated: Option<u32>, installed: u32) -> String {
    let entry = annotated.map(|minute| {
        json!({"manager": "kubectl-annotate", "operation": "Update", "time": at(minute), "fieldsType": "FieldsV1",
               "fieldsV1": {"f:metadata": {"f:annotations": {"f:leno.dev/inject": {}}}}})
    });
    let later = json!({"manager": "other", "operation": "Update", "time": at(59), "fieldsV1": {"f:metadata": {"f:labels": {}}}});
    let entries: Vec<_> = entry.into_iter().chain([later]).collect();
    let namespace: Namespace = object(json!({"metadata": {"name": "shop", "managedFields": entries}}));
    let pod: Pod = object(json!({"metadata": {"name": "web-1", "creationTimestamp": at(created)}}));
    let injector = object(json!({"metadata": {"name": "leno-injector", "creationTimestamp": at(installed)}}));
    why(&pod, Some(&namespace), Some(&injector))
}

#[test]
fn a_pod_is_older_than_leno_or_than_the_annotation_or_the_webhook_was_away() {
    assert_eq!(
        reason(1, Some(3), 2),
        "it was created at 2026-01-01T12:01:00Z, before Leno was installed at 2026-01-01T12:02:00Z"
    );
    // The manager that wrote the annotation may have changed another field at 12:05, so both reasons are possible.
    for created in [4, 5] {
        let expected = format!(
            "it was created at 2026-01-01T12:0{created}:00Z, and its namespace was changed at 2026-01-01T12:05:00Z: \
             either the annotation is newer than the Pod, or the webhook leno-injector did not answer when the Pod \
             was created"
        );
        assert_eq!(reason(created, Some(5), 2), expected);
    }
    let away = "the webhook leno-injector did not answer when it was created, at 2026-01-01T12:06:00Z";
    assert_eq!(reason(6, Some(5), 2), away);
    assert_eq!(reason(6, None, 2), away);
}

#[test]
fn without_times_no_reason_is_made_up() {
    let reason = why(&Pod::default(), None, None);
    assert!(reason.contains("or the control plane was away"), "{reason}");
}
