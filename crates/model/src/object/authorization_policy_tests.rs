use std::fmt;

use serde::{Deserialize, Deserializer};

use super::{AllowRule, Spec, TargetRef};
use crate::fixtures::{lines, objects, parse};
use crate::object::Object;
use crate::policy::{AuthorizationPolicy, Mode};

const CART: &str = "\
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec:
  targetRef: {kind: ServiceAccount, name: cart}
  ports: [8080, 9090]
  mode: Audit
  allow:
  - identities: [ns/shop/sa/web, spiffe://other.org/ns/x/sa/y]
  - identities: ['*']
    networks: [10.0.0.0/8, 'fd00::/8']
  healthChecks: [/healthz]
";

fn policy(text: &str) -> AuthorizationPolicy {
    match objects(text).remove(0) {
        Object::AuthorizationPolicy(object) => object.policy.as_ref().clone(),
        other => panic!("{other:?}"),
    }
}

fn problems(from: &str, to: &str) -> Vec<String> {
    assert!(CART.contains(from), "{from:?} is not in the manifest");
    lines(&parse(&CART.replace(from, to)).expect_err("a mistake"))
}

#[test]
fn a_policy_is_read_and_shown_as_it_was_written() {
    let shown = serde_json::to_value(policy(CART)).expect("plain data");
    let expected = serde_json::json!({
        "namespace": "shop",
        "name": "cart",
        "service_account": "cart",
        "ports": [8080, 9090],
        "mode": "Audit",
        "allow": [
            {"identities": ["ns/shop/sa/web", "spiffe://other.org/ns/x/sa/y"], "networks": null},
            {"identities": ["*"], "networks": ["10.0.0.0/8", "fd00::/8"]},
        ],
        "health_checks": ["/healthz"],
    });
    assert_eq!(shown, expected);
}

#[test]
fn what_is_left_out_is_the_whole_namespace_on_every_port_in_force() {
    let text = "apiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {name: none}\nspec: {allow: []}\n";
    let read = policy(text);
    assert_eq!((&*read.namespace, read.service_account, read.ports), ("default", None, None));
    assert_eq!((read.mode, read.allow.len(), read.health_checks.len()), (Mode::Enforce, 0, 0));
}

#[test]
fn a_policy_and_a_service_account_may_have_long_names() {
    let long = "a".repeat(70);
    let read = policy(&CART.replace("name: cart", &format!("name: {long}")));
    assert_eq!((&*read.name, read.service_account.as_deref()), (&*long, Some(&*long)));
}

#[test]
fn the_policys_own_namespace_may_be_named() {
    let target = "targetRef: {kind: Namespace, name: shop}";
    let text = CART.replace("targetRef: {kind: ServiceAccount, name: cart}", target);
    assert_eq!(policy(&text).service_account, None);
}

#[test]
fn what_a_cluster_adds_is_passed_over() {
    let text = format!("{CART}status: {{conditions: [{{type: Accepted, status: 'True'}}]}}\n");
    assert_eq!(policy(&text), policy(CART));
}

#[test]
fn each_bad_field_of_a_policy_is_named_with_its_line() {
    let target = "{kind: ServiceAccount, name: cart}";
    for (from, to, line) in [
        ("spec:", "specs:", "4: specs of {}: AuthorizationPolicy has no such field; did you mean spec?"),
        ("  ports:", "  port:", "6: spec.port of {}: AuthorizationPolicySpec has no such field; did you mean ports?"),
        (
            "- identities: ['*']",
            "- identity: ['*']",
            "10: spec.allow[1].identity of {}: AllowRule has no such field; remove it",
        ),
        (
            "networks:",
            "network:",
            "11: spec.allow[1].network of {}: AllowRule has no such field; did you mean networks?",
        ),
        (
            target,
            "{kind: Deployment, name: cart}",
            "5: spec.targetRef.kind of {}: a policy cannot select \"Deployment\"; use ServiceAccount or Namespace",
        ),
        (
            target,
            "{kind: serviceaccount, name: cart}",
            "5: spec.targetRef.kind of {}: a policy cannot select \"serviceaccount\"; did you mean ServiceAccount?",
        ),
        (
            target,
            "{kind: ServiceAccount}",
            "5: spec.targetRef.name of {}: \"\" is not the name of a service account; use at most 253 lower-case letters, digits, dashes and dots",
        ),
        (
            target,
            "{kind: Namespace, name: other}",
            "5: spec.targetRef.name of {}: \"other\" is not the policy's own namespace; write shop, or move the policy there",
        ),
        (
            target,
            "{group: apps, kind: ServiceAccount, name: cart}",
            "5: spec.targetRef.group of {}: \"apps\" has no kind that a policy can select; remove it",
        ),
        (target, "", "5: spec.targetRef of {}: nothing is not TargetRef; write its fields as `key: value` lines"),
        ("[8080, 9090]", "[8080, 0]", "6: spec.ports[1] of {}: 0 is not a port; use 1 to 65535"),
        (
            "[8080, 9090]",
            "[]",
            "6: spec.ports of {}: an empty list; list a port, or remove the field to mean all of them",
        ),
        ("[8080, 9090]", "", "6: spec.ports of {}: nothing is not a list; start each item with a dash"),
        ("Audit", "Log", "7: spec.mode of {}: \"Log\" is not a mode; use Enforce or Audit"),
        ("Audit", "", "7: spec.mode of {}: nothing is not text; put it in quotes"),
        (
            "ns/shop/sa/web",
            "shop/web",
            "9: spec.allow[0].identities[0] of {}: \"shop/web\" is not an identity; write ns/<namespace>/sa/<service-account>, in which either name may be *, with spiffe://<trust-domain>/ before it for another trust domain, or * alone for every identity",
        ),
        (
            "['*']",
            "[]",
            "10: spec.allow[1].identities of {}: an empty list; list one, or remove the field if it does not matter",
        ),
        ("['*']", "", "10: spec.allow[1].identities of {}: nothing is not a list; start each item with a dash"),
        (
            "- identities: ['*']\n    networks: [10.0.0.0/8, 'fd00::/8']",
            "- {}",
            "10: spec.allow[1] of {}: allows no caller; add identities, networks or both; networks [0.0.0.0/0, ::/0] allow every caller",
        ),
        (
            "10.0.0.0/8",
            "10.1.0.0/8",
            "11: spec.allow[1].networks[0] of {}: \"10.1.0.0/8\" is not a network; write 10.0.0.0/8 for the network, or the address without a prefix for itself",
        ),
        (
            "[/healthz]",
            "[/ready, /health%7a]",
            "12: spec.healthChecks[1] of {}: \"/health%7a\" is not a path for health checks; use letters, digits and any of -._~!$&'()*+,;=:@ between slashes",
        ),
    ] {
        let line = format!("echo.yaml:{}", line.replacen("{}", "AuthorizationPolicy shop/cart", 1));
        assert_eq!(problems(from, to), [line], "{from:?} to {to:?}");
    }
}

#[test]
fn a_policy_that_does_not_say_whom_it_allows_is_a_mistake() {
    let head = CART.split_once("spec:").expect("a spec").0;
    let lines_of = |text: &str| lines(&parse(text).expect_err("a mistake"));
    assert_eq!(
        lines_of(head),
        [
            "echo.yaml:1: spec of AuthorizationPolicy shop/cart: missing; list the allowed callers, as `spec: {allow: [{identities: [ns/shop/sa/web]}]}`"
        ]
    );
    assert_eq!(
        lines_of(&format!("{head}spec: {{healthChecks: [/healthz]}}\n")),
        [
            "echo.yaml:4: spec.allow of AuthorizationPolicy shop/cart: missing; list the allowed callers, or write [] to allow no caller"
        ]
    );
}

#[test]
fn what_is_not_quite_a_kind_of_ours_is_a_problem_and_another_groups_policy_is_not() {
    let of = |version: &str, kind: &str| {
        let text = CART.replace("leno.dev/v1alpha1", version).replace("AuthorizationPolicy", kind);
        parse(&text).map(|manifest| lines(&manifest.notices)).map_err(|problems| lines(&problems))
    };
    for (version, kind, line) in [
        (
            "leno.dev/v1alpha1",
            "AuthorisationPolicy",
            "echo.yaml:2: kind of AuthorisationPolicy shop/cart: \"AuthorisationPolicy\" is not a kind of leno.dev/v1alpha1; did you mean AuthorizationPolicy?",
        ),
        (
            "leno.dev/v1alpha1",
            "NetworkPolicy",
            "echo.yaml:2: kind of NetworkPolicy shop/cart: \"NetworkPolicy\" is not a kind of leno.dev/v1alpha1; use AuthorizationPolicy or TrafficPolicy",
        ),
        (
            "leno.dev/v1",
            "AuthorizationPolicy",
            "echo.yaml:1: apiVersion of AuthorizationPolicy shop/cart: \"leno.dev/v1\" is not read; use leno.dev/v1alpha1",
        ),
    ] {
        assert_eq!(of(version, kind), Err(vec![line.to_owned()]));
    }
    let foreign = "echo.yaml:1: AuthorizationPolicy shop/cart: ignored: Leno reads Services, EndpointSlices, routes, ReferenceGrants, XBackendTrafficPolicies and its own policies";
    assert_eq!(of("security.istio.io/v1", "AuthorizationPolicy"), Ok(vec![foreign.to_owned()]));
}

#[test]
fn the_example_of_the_documentation_is_read_without_a_mistake() {
    let page = include_str!("../../../../docs/policy.md");
    let example = page.split("```").nth(1).and_then(|block| block.strip_prefix("yaml\n")).expect("an example");
    let read = policy(example);
    assert_eq!((read.allow.len(), read.health_checks.len()), (3, 2));
    assert_eq!((read.service_account.as_deref(), read.ports.as_deref()), (Some("cart"), Some(&[8080][..])));
}

/// A deserializer that deserializes nothing, but returns the names of a struct's fields as an error.
struct FieldsOf;

/// The error of [`FieldsOf`]: the names of a struct's fields.
#[derive(Debug, PartialEq)]
struct Fields(&'static [&'static str]);

impl<'de> Deserializer<'de> for FieldsOf {
    type Error = Fields;

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, _: V) -> Result<V::Value, Fields> {
        Err(Fields(&[]))
    }

    fn deserialize_struct<V: serde::de::Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Fields> {
        Err(Fields(fields))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl serde::de::Error for Fields {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Fields {}

#[test]
fn the_custom_resource_has_every_field_that_is_read() {
    let definition = include_str!("../../../../charts/leno/crds/authorizationpolicies.yaml");
    let fields = [
        Spec::deserialize(FieldsOf).expect_err("it has fields"),
        TargetRef::deserialize(FieldsOf).expect_err("it has fields"),
        AllowRule::deserialize(FieldsOf).expect_err("it has fields"),
    ];
    assert_eq!(fields.iter().map(|fields| fields.0.len()).collect::<Vec<_>>(), [5, 3, 2]);
    for field in fields.iter().flat_map(|fields| fields.0) {
        let key = format!("{field}:");
        assert!(definition.lines().any(|line| line.trim() == key), "the definition has no {field}");
    }
}
