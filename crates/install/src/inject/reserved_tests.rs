use serde_json::{Value, json};

use super::super::{Asked, Decision, Namespace, Options, Outcome, inject};
use super::*;

const BOTH: [&str; 2] = [SKIP_INBOUND_PORTS, DEFAULT_INBOUND_POLICY];

fn options(reserved: &[&str]) -> Options {
    Options { namespace_only: reserved.iter().map(|name| (*name).to_owned()).collect(), ..Options::default() }
}

fn shop(mut annotations: Value) -> Namespace {
    annotations["leno.dev/inject"] = json!("enabled");
    Namespace { name: "shop".to_owned(), annotations: annotations.as_object().expect("a mapping").clone() }
}

fn pod(annotations: &Value) -> Value {
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "web", "image": "web"}]}})
}

fn decide(pod: &Value, namespace: &Namespace, options: &Options) -> Result<Decision, String> {
    inject(pod, namespace, Asked::ByAnnotation, options)
        .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

#[test]
fn a_pod_that_loosens_what_protects_it_is_warned_of() {
    let warnings = |annotations: Value, of_namespace: Value| {
        decide(&pod(&annotations), &shop(of_namespace), &Options::default()).expect("it gets a proxy").warnings
    };
    let skipping = warnings(json!({SKIP_INBOUND_PORTS: "22"}), json!({}));
    assert_eq!(skipping, ["annotation leno.dev/skip-inbound-ports: no policy protects the ports 22 of this Pod"]);
    let loosening = warnings(json!({DEFAULT_INBOUND_POLICY: "audit"}), json!({DEFAULT_INBOUND_POLICY: "deny"}));
    assert!(loosening[0].contains("audit allows more callers than deny"), "{loosening:?}");
    for (own, of_namespace) in [("deny", "all-authenticated"), ("deny", "deny"), ("cluster-authenticated", "audit")] {
        let warnings = warnings(json!({DEFAULT_INBOUND_POLICY: own}), json!({DEFAULT_INBOUND_POLICY: of_namespace}));
        assert!(warnings.is_empty(), "{own} in {of_namespace}: {warnings:?}");
    }
}

#[test]
fn an_annotation_that_only_a_namespace_may_have_is_refused_on_a_pod() {
    let annotated = pod(&json!({SKIP_INBOUND_PORTS: "1-65535"}));
    let refused = decide(&annotated, &shop(json!({})), &options(&BOTH)).expect_err("it is reserved");
    assert!(
        refused.starts_with("annotation leno.dev/skip-inbound-ports of the Pod: only a namespace may have it"),
        "{refused}"
    );
    let repeated = decide(&annotated, &shop(json!({SKIP_INBOUND_PORTS: "1-65535"})), &options(&BOTH));
    assert!(matches!(repeated.expect("it changes nothing").outcome, Outcome::Injected { .. }));
    let plain = Namespace { name: "plain".to_owned(), ..Namespace::default() };
    assert!(decide(&annotated, &plain, &options(&BOTH)).is_ok(), "a Pod outside of the mesh is none of our business");
}

#[test]
fn a_pod_may_not_leave_a_meshed_namespace_where_only_namespaces_decide() {
    let leaving = pod(&json!({"leno.dev/inject": "disabled"}));
    assert!(decide(&leaving, &shop(json!({})), &Options::default()).is_ok());
    let refused = decide(&leaving, &shop(json!({})), &options(&["leno.dev/inject"])).expect_err("it is reserved");
    assert!(refused.contains("leno.dev/inject of the Pod"), "{refused}");
}
