use super::super::{Refused, SourceFile, parse_file, read_object};
use crate::object::Object;
use crate::policy::Mode;
use crate::translate::translate;

/// Returns the mode, the name and the target of each policy that remains of a rejected file.
fn policies(text: &str) -> Vec<String> {
    shown(&parse(text).expect_err("a mistake").policies)
}

fn parse(text: &str) -> Result<super::super::Manifest, Refused> {
    parse_file(&SourceFile { path: "a.yaml".to_owned(), text: text.to_owned() }, "default")
}

fn shown(objects: &[Object]) -> Vec<String> {
    let show = |object: &Object| match object {
        Object::AuthorizationPolicy(object) => {
            let policy = &object.policy;
            assert_eq!(policy.namespace, object.identity.namespace);
            assert!(policy.mode != Mode::Unreadable || (policy.allow.is_empty() && policy.health_checks.is_empty()));
            format!("{:?} {}/{}: {}", policy.mode, policy.namespace, policy.name, policy.target())
        }
        other => panic!("{other:?}"),
    };
    objects.iter().map(show).collect()
}

fn policy(spec: &str) -> String {
    format!(
        "apiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {{name: cart, namespace: shop}}\nspec: {spec}\n"
    )
}

#[test]
fn a_policy_that_cannot_be_read_denies_what_its_target_and_ports_name() {
    for (spec, about) in [
        ("{allow: [{identities: [shop/web]}]}", "every port in namespace shop"),
        ("{targetRef: {kind: ServiceAccount, name: cart}, allow: 7}", "every port of service account cart"),
        (
            "{targetRef: {kind: ServiceAccount, name: cart}, ports: [8080], allow: [{}]}",
            "port 8080 of service account cart",
        ),
        ("{targetRef: {kind: Namespace, name: shop}, ports: [1, 2], allow: [{}]}", "ports 1, 2 in namespace shop"),
        ("{ports: [8080], allow: [{networks: [10.0.0.1/8]}]}", "port 8080 in namespace shop"),
        ("{ports: [8080], allow: [], newer: true}", "port 8080 in namespace shop"),
        ("{ports: [8080], allow: [], mode: Sometimes}", "port 8080 in namespace shop"),
    ] {
        assert_eq!(policies(&policy(spec)), [format!("Unreadable shop/cart: {about}")], "{spec}");
    }
}

#[test]
fn what_cannot_be_read_of_a_target_or_of_ports_does_not_make_them_narrower() {
    for (spec, about) in [
        ("{targetRef: {kind: Service, name: cart}, allow: []}", "every port in namespace shop"),
        ("{targetRef: {kind: ServiceAccount, name: cart, newer: 1}, allow: []}", "every port in namespace shop"),
        ("{targetRef: {kind: ServiceAccount, name: cart, group: apps}, allow: []}", "every port in namespace shop"),
        ("{targetRef: {kind: ServiceAccount, name: Cart}, ports: [80], allow: []}", "port 80 in namespace shop"),
        ("{targetRefs: [{kind: ServiceAccount, name: cart}], allow: []}", "every port in namespace shop"),
        ("{ports: [8080, 0], allow: []}", "every port in namespace shop"),
        ("{ports: [], allow: []}", "every port in namespace shop"),
        ("{ports: [8080, http], allow: []}", "every port in namespace shop"),
        ("{ports: 8080, allow: []}", "every port in namespace shop"),
        ("7", "every port in namespace shop"),
    ] {
        assert_eq!(policies(&policy(spec)), [format!("Unreadable shop/cart: {about}")], "{spec}");
    }
}

#[test]
fn a_policy_that_is_not_enforced_protects_nothing_and_so_denies_nothing() {
    assert_eq!(policies(&policy("{mode: Audit, allow: [{}]}")), [""; 0]);
}

#[test]
fn whatever_is_of_our_own_group_may_be_a_policy() {
    for (from, to) in [("v1alpha1", "v1"), ("AuthorizationPolicy", "AuthorisationPolicy")] {
        let text = policy("{allow: []}").replace(from, to);
        assert_eq!(policies(&text), ["Unreadable shop/cart: every port in namespace shop"], "{to}");
    }
    // An AuthorizationPolicy of another API group is not Leno's, so it gets no replacement.
    let text = policy("{allow: []}").replace("leno.dev", "security.example.org");
    assert!(parse(&text).is_ok());
}

#[test]
fn a_policy_without_a_name_or_a_namespace_denies_a_whole_namespace() {
    let nameless = policy("{ports: [80], allow: 7}").replace("name: cart, ", "");
    assert_eq!(policies(&nameless), ["Unreadable shop/unreadable: every port in namespace shop"]);
    let homeless = policy("{ports: [80], allow: 7}").replace(", namespace: shop", "");
    assert_eq!(policies(&homeless), ["Unreadable default/cart: port 80 in namespace default"]);
}

#[test]
fn the_policies_of_a_file_are_in_force_whatever_else_is_wrong_with_it() {
    let broken = "apiVersion: v1\nkind: Service\nmetadata: {name: echo}\nspec: {ports: [{port: 70000}]}\n";
    let text = format!("{broken}---\n{}", policy("{ports: [80], allow: [{identities: ['*']}]}"));
    let refused = parse(&text).expect_err("a mistake");
    assert_eq!(shown(&refused.policies), ["Enforce shop/cart: port 80 in namespace shop"]);
}

#[test]
fn a_policy_is_not_taken_for_a_good_one_after_more_mistakes_than_are_reported() {
    let broken = "apiVersion: v1\nkind: Service\nmetadata: {name: echo}\nspec: {ports: [{port: 70000}]}\n---\n";
    let text = format!("{}{}", broken.repeat(40), policy("{ports: [0], allow: [{identities: ['*']}]}"));
    assert_eq!(policies(&text), ["Unreadable shop/cart: every port in namespace shop"]);
}

#[test]
fn of_a_text_that_is_no_yaml_the_words_of_policies_count() {
    let nothing = "apiVersion: v1\nkind: Service\nmetadata: {namespace: lab, name: [\n";
    assert_eq!(policies(nothing), [""; 0]);
    for (text, namespaces) in [
        (policy("{allow: ["), vec!["shop"]),
        (policy("{allow: [").replace(", namespace: shop", ""), vec!["default"]),
        (policy("{allow: [").replace("namespace: shop", "\"namespace\" : \"shop\""), vec!["shop"]),
        (format!("{}---\n{nothing}", policy("{allow: []}")), vec!["shop"]),
        (format!("{nothing}---\n{}---\n{}", policy("{}"), policy("{}").replace("shop", "bank")), vec!["bank", "shop"]),
    ] {
        let expected: Vec<String> = namespaces
            .iter()
            .map(|namespace| format!("Unreadable {namespace}/unreadable: every port in namespace {namespace}"))
            .collect();
        assert_eq!(policies(&text), expected, "{text}");
    }
}

#[test]
fn an_object_too_deep_to_be_read_denies_its_namespace() {
    let mut deep = serde_json::json!(1);
    for _ in 0..100 {
        deep = serde_json::json!([deep]);
    }
    let metadata = serde_json::json!({ "name": "cart", "namespace": "shop" });
    let object = serde_json::json!({
        "apiVersion": "leno.dev/v1alpha1", "kind": "AuthorizationPolicy", "metadata": metadata, "spec": deep,
    });
    let refused = read_object(object).expect_err("a mistake");
    let policy = refused.into_policy("shop", "cart").expect("a stand-in");
    assert_eq!(shown(&[policy]), ["Unreadable shop/cart: every port in namespace shop"]);
    let audited = parse(&policy_text_in_audit_mode()).expect_err("a mistake");
    assert!(audited.into_policy("shop", "cart").is_none());
}

fn policy_text_in_audit_mode() -> String {
    policy("{mode: Audit, allow: 7}")
}

#[test]
fn a_notice_tells_what_a_policy_that_cannot_be_read_denies() {
    let refused = parse(&policy("{ports: [8080], allow: 7}")).expect_err("a mistake");
    let notices: Vec<String> =
        translate(&refused.policies, "default").notices.iter().map(ToString::to_string).collect();
    let told = "a.yaml:1: AuthorizationPolicy shop/cart: it cannot be read: until it can, it allows no caller on \
                port 8080 in namespace shop";
    assert_eq!(notices, [told]);
}
