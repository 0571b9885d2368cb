use serde_json::json;

use super::super::fixtures::object;
use super::super::report::Verdict;
use super::*;

fn of(metadata: &serde_json::Value) -> Finding {
    let mut findings = findings(&[object(json!({ "metadata": metadata }))]);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

#[test]
fn a_misspelt_annotation_is_found() {
    let finding = of(&json!({"name": "shop", "annotations": {"leno.dev/injct": "enabled"}}));
    assert_eq!(finding.verdict, Verdict::Warning);
    assert!(finding.why.ends_with("did you mean leno.dev/inject?"), "{}", finding.why);
}

#[test]
fn an_annotation_that_is_written_as_a_label_is_found() {
    let finding = of(&json!({"name": "shop", "labels": {"leno.dev/inject": "enabled"}}));
    assert!(finding.why.starts_with("shop: label leno.dev/inject: it has no effect"), "{}", finding.why);
    assert_eq!(
        finding.fix.as_deref(),
        Some(
            "kubectl annotate namespace shop 'leno.dev/inject=enabled'; kubectl label namespace shop leno.dev/inject-"
        )
    );
    let finding = of(&json!({"name": "shop", "labels": {"leno.dev/inject": "true"}}));
    assert!(finding.fix.as_deref().is_some_and(|fix| fix.contains(" leno.dev/inject=enabled;")), "{finding:?}");
}

#[test]
fn each_mistake_of_a_namespace_has_its_own_fix() {
    let metadata = json!({
        "name": "shop",
        "labels": {"leno.dev/opaque-ports": "9000"},
        "annotations": {"leno.dev/injct": "enabled"},
    });
    let findings = findings(&[object(json!({ "metadata": metadata }))]);
    let fixes: Vec<&str> = findings.iter().filter_map(|finding| finding.fix.as_deref()).collect();
    let expected = [
        "kubectl annotate namespace shop NAME-, then annotate it with the right name or value",
        "kubectl annotate namespace shop 'leno.dev/opaque-ports=9000'; kubectl label namespace shop leno.dev/opaque-ports-",
    ];
    assert_eq!(fixes, expected);
}

#[test]
fn a_level_of_pod_security_that_allows_no_proxy_is_found() {
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    let finding = of(&json!({"name": "shop", "labels": labels, "annotations": {"leno.dev/inject": "enabled"}}));
    assert_eq!(finding.verdict, Verdict::Warning);
    let expected = "kubectl label namespace shop --overwrite pod-security.kubernetes.io/enforce=privileged";
    assert_eq!(finding.fix.as_deref(), Some(expected));
}

#[test]
fn other_labels_are_no_mistake() {
    let labels = json!({"kubernetes.io/metadata.name": "shop", "leno.dev/team": "a"});
    let finding = of(&json!({"name": "shop", "labels": labels, "annotations": {"leno.dev/inject": "enabled"}}));
    assert_eq!(finding.verdict, Verdict::Ok);
}
