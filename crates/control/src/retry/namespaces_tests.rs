use kube::core::Status;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::super::{MAX, MIN};
use super::*;
use crate::fixtures::Warnings;

fn refusal((code, reason): (u16, &str), causes: &Value) -> kube::Error {
    let details = json!({ "causes": causes });
    let status = json!({ "status": "Failure", "code": code, "reason": reason, "message": "no", "details": details });
    kube::Error::Api(Box::new(serde_json::from_value::<Status>(status).expect("a status")))
}

fn terminating() -> kube::Error {
    let causes = json!([{ "reason": "NamespaceTerminating", "field": "metadata.namespace" }]);
    refusal((403, "Forbidden"), &causes)
}

fn forbidden() -> kube::Error {
    refusal((403, "Forbidden"), &json!([]))
}

/// Whether to write in a namespace now.
fn is_due(failing: &FailingNamespaces, namespace: &str) -> bool {
    !failing.contains(namespace) || failing.first_due(|other| other == namespace).is_some()
}

#[test]
fn a_namespace_that_is_being_deleted_is_told_from_other_refusals() {
    let causes = json!([{ "reason": "NamespaceTerminating", "field": "metadata.namespace" }]);
    assert!(is_terminating(&terminating()));
    assert!(!is_terminating(&forbidden()));
    assert!(!is_terminating(&refusal((500, "InternalError"), &causes)));
}

#[tokio::test(start_paused = true)]
async fn each_namespace_has_its_own_delays() {
    let mut failing = FailingNamespaces::default();
    let (since, error) = (Instant::now(), forbidden());
    for at_s in [0, 1, 3] {
        assert!(is_due(&failing, "shop"));
        assert_eq!(since.elapsed().as_secs(), at_s);
        failing.failed("shop", format_args!("it"), &error);
        failing.due(|_| true).await;
    }
    failing.failed("shop", format_args!("it"), &error);
    failing.failed("bank", format_args!("it"), &error);
    assert!(!is_due(&failing, "shop") && !is_due(&failing, "bank") && is_due(&failing, "mail"));
    failing.due(|_| true).await;
    assert_eq!(since.elapsed().as_secs(), 8, "the first delay of bank, not the next delay of shop");
    assert!(!is_due(&failing, "shop") && is_due(&failing, "bank"));
    failing.succeeded("bank");
    failing.due(|_| true).await;
    assert_eq!(since.elapsed().as_secs(), 15);
    failing.retain(|namespace| namespace != "shop");
    assert!(is_due(&failing, "shop"));
    assert!(timeout(MAX * 2, failing.due(|_| true)).await.is_err(), "nothing has to be repeated");
    failing.failed("shop", format_args!("it"), &error);
    assert!(timeout(MIN * 2, failing.due(|_| true)).await.is_ok(), "a new series has begun");
}

#[tokio::test]
async fn each_namespace_has_one_warning_and_none_while_it_is_being_deleted() {
    let (warnings, _guard) = Warnings::collect();
    let mut failing = FailingNamespaces::default();
    for (namespace, error) in [
        ("shop", terminating()),
        ("shop", forbidden()),
        ("shop", forbidden()),
        ("bank", forbidden()),
        ("shop", terminating()),
        ("shop", forbidden()),
    ] {
        failing.failed(namespace, format_args!("ConfigMap it"), &error);
    }
    let warnings = warnings.lines();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for (line, namespace) in warnings.iter().zip(["shop", "bank"]) {
        assert!(line.contains(namespace) && line.contains("ConfigMap it could not be written"), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_namespace_that_answers_is_hastened() {
    let mut failing = FailingNamespaces::default();
    let unanswered = kube::Error::Service("no answer".into());
    for (namespace, error) in
        [("shop", forbidden()), ("bank", unanswered), ("mail", refusal((500, "InternalError"), &json!([])))]
    {
        failing.failed(namespace, format_args!("it"), &error);
        failing.hasten(namespace);
        assert_eq!(is_due(&failing, namespace), namespace == "shop", "{namespace}");
    }
    failing.hasten("post");
    assert!(!failing.contains("post"));
}

#[tokio::test]
async fn a_conflict_or_an_unknown_object_is_no_warning() {
    for usual in [(409, "Conflict"), (404, "NotFound")] {
        let (warnings, _guard) = Warnings::collect();
        let mut failing = FailingNamespaces::default();
        failing.failed("shop", format_args!("it"), &refusal(usual, &json!([])));
        assert!(failing.contains("shop") && warnings.lines().is_empty());
        failing.failed("shop", format_args!("it"), &forbidden());
        assert_eq!(warnings.lines().len(), 1, "a later failure with another reason");
    }
}
