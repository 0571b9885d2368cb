use leno_model::policy::Mode;
use serde_json::{Value, json};

use super::*;

fn object(name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec})).expect("an object")
}

#[test]
fn policies_are_read_as_the_control_plane_reads_them_and_mistakes_are_told() {
    let allow = json!([
        {"identities": ["ns/shop/sa/web", "ns/billing/sa/*"], "networks": ["10.0.0.0/8"]},
        {"networks": ["192.168.7.20"]},
    ]);
    let good = object("cart", &json!({"ports": [8080], "allow": allow, "healthChecks": ["/healthz"]}));
    let bad = object("odd", &json!({"allow": [{}]}));
    let policies = read(vec![good, bad]);
    let modes: Vec<Mode> = policies.all.iter().map(|policy| policy.mode).collect();
    assert_eq!(modes, [Mode::Enforce, Mode::Unreadable]);
    assert!(callers(&policies.all[1]).is_empty());
    assert_eq!(
        callers(&policies.all[0]),
        ["ns/shop/sa/web, ns/billing/sa/* from 10.0.0.0/8", "192.168.7.20/32", "every caller to /healthz"]
    );
    assert!(
        policies.mistakes[0].starts_with("spec.allow[0] of AuthorizationPolicy shop/odd: allows no caller"),
        "{:?}",
        policies.mistakes
    );
}

#[test]
fn a_policy_that_lists_nobody_allows_nobody() {
    assert!(callers(&read(vec![object("none", &json!({"allow": []}))]).all[0]).is_empty());
}
