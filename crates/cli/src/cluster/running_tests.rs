use serde_json::json;

use super::*;

fn installed_with(values: &Value) -> Running {
    let config = json!({"metadata": {"name": CONFIG, "annotations": {VALUES_ANNOTATION: values.to_string()}}});
    Running { config: Some(serde_json::from_value(config).expect("a ConfigMap")), deployment: None }
}

fn refused(running: &Running, chosen: &Value) -> Option<String> {
    let defaults = json!({"control": {"replicas": 2, "logLevel": "info"}, "webhook": {"excludedNamespaces": []}});
    running.refuse_reset(chosen, &defaults).err().map(|refusal| refusal.to_string())
}

#[test]
fn an_installation_over_another_does_not_reset_its_values() {
    let running = installed_with(&json!({"control": {"replicas": 3}, "webhook": {"excludedNamespaces": ["ci"]}}));
    assert_eq!(
        refused(&running, &json!({})).as_deref(),
        Some(
            "Leno is installed here with other values: control.replicas: 3 would become 2. webhook.excludedNamespaces: [\"ci\"] would \
             become []; leno upgrade keeps them and takes --set too, leno upgrade --reset-values begins with the chart's"
        )
    );
    assert!(refused(&running, &json!({"control": {"replicas": 3}})).is_some_and(|why| !why.contains("replicas")));
}

#[test]
fn an_installation_with_the_same_values_or_over_nothing_is_written() {
    let chosen = json!({"control": {"replicas": 3}});
    assert_eq!(refused(&installed_with(&chosen), &chosen), None);
    // The installation sets a value to the chart's default, and the command does not set it. This is no difference.
    assert_eq!(refused(&installed_with(&json!({"control": {"logLevel": "info"}})), &json!({})), None);
    assert_eq!(refused(&Running::default(), &chosen), None);
}

#[test]
fn what_helm_or_nobody_knows_installed_is_not_written_over() {
    let annotated = |annotations: Value| {
        let config = json!({"metadata": {"name": CONFIG, "annotations": annotations}});
        Running { config: Some(serde_json::from_value(config).expect("a ConfigMap")), deployment: None }
    };
    let helms = annotated(json!({HELM_RELEASE: "leno"}));
    assert_eq!(helms.refuse_reset(&json!({}), &json!({})), Err(Refusal::Helms));
    assert_eq!(annotated(json!({})).refuse_reset(&json!({}), &json!({})), Err(Refusal::NoValues));
}

#[test]
fn versions_are_compared_by_their_numbers_and_what_is_before_a_release() {
    use Ordering::{Equal, Greater, Less};
    for (a, b, expected) in [
        ("0.2.0", "0.10.0", Some(Less)),
        ("1.0.0", "1.0.0", Some(Equal)),
        ("1.0.0-rc.1", "1.0.0", Some(Less)),
        ("1.0.1", "1.0.1-rc.1", Some(Greater)),
        ("1.0.0-rc.9", "1.0.0-rc.10", Some(Less)),
        ("1.0.0-rc.1", "1.0.0-1", Some(Greater)),
        ("1.0.0+a", "1.0.0+b", Some(Equal)),
        ("1.0", "1.0.0", None),
        ("latest", "1.0.0", None),
    ] {
        assert_eq!(compare(a, b), expected, "{a} {b}");
    }
}
