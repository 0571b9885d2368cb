use serde_json::json;

use super::*;

fn wish(template: &Value) -> Wish {
    Traits::of(template, template.pointer("/metadata/annotations").and_then(Value::as_object)).wish()
}

#[test]
fn a_pod_without_a_proxy_should_have_one_if_it_or_its_namespace_asks() {
    let plain = wish(&json!({"spec": {}}));
    for (namespace, expected) in
        [(None, false), (Some("enabled"), true), (Some(" disabled"), false), (Some("on"), true)]
    {
        assert_eq!(plain.is_for_a_proxy(namespace), expected, "{namespace:?}");
    }
    let asking = wish(&json!({"metadata": {"annotations": {INJECT: "enabled"}}}));
    let refusing = wish(&json!({"metadata": {"annotations": {INJECT: "disabled "}}}));
    for namespace in [None, Some("enabled"), Some("disabled")] {
        assert!(asking.is_for_a_proxy(namespace) && !refusing.is_for_a_proxy(namespace), "{namespace:?}");
    }
}

#[test]
fn a_pod_that_can_have_no_proxy_is_not_missed_and_one_with_another_meshs_is() {
    for spec in [
        json!({"hostNetwork": true}),
        json!({"os": {"name": "windows"}}),
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}}),
    ] {
        assert_eq!(wish(&json!({"spec": spec})), Wish::NoProxy, "{spec}");
    }
    let mirror = json!({"metadata": {"annotations": {MIRROR_POD: "7", INJECT: "enabled"}}, "spec": {}});
    assert_eq!(wish(&mirror), Wish::NoProxy);
    let linux = json!({"os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "linux", "disk": "windows"}});
    assert_eq!(wish(&json!({"spec": linux})), Wish::AsNamespace);
    assert_eq!(wish(&json!({"spec": {"containers": [{"name": "istio-proxy"}]}})), Wish::AsNamespace);
}

#[test]
fn a_wish_agrees_with_what_the_injector_does() {
    let words = [None, Some("enabled"), Some("disabled"), Some("grpc")];
    for (own, whole) in words.iter().flat_map(|own| words.map(|whole| (own, whole))) {
        let annotations = |word: Option<&str>| -> Map<String, Value> {
            word.map(|word| (INJECT.to_owned(), json!(word))).into_iter().collect()
        };
        let template = json!({"metadata": {"annotations": annotations(*own)}, "spec": {}});
        let namespace = Namespace { name: "shop".to_owned(), annotations: annotations(whole) };
        let own_annotations = annotations(*own);
        let is_injected = reason(&template, Some(&own_annotations), &namespace, Asked::ByAnnotation).is_none();
        assert_eq!(wish(&template).is_for_the_mesh(whole), is_injected, "{own:?} in {whole:?}");
        let is_for_grpc = super::super::grpc::is_asked(Some(&own_annotations), &namespace.annotations);
        assert_eq!(wish(&template).is_for_grpc(whole), is_for_grpc, "{own:?} in {whole:?}");
    }
}
