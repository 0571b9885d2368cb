//! Tests TrafficPolicies and XBackendTrafficPolicies in the index.

use k8s_openapi::api::core::v1::Service;
use leno_model::manifest::read_object;
use leno_model::mesh::ClusterKey;
use leno_model::route::status::Reason;
use leno_model::typed;
use serde_json::{Value, json};

use super::*;

/// An index with the Service `shop/cart`.
fn with_cart() -> Index {
    let mut index = Index::new();
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": "cart", "namespace": "shop" }, "spec": { "ports": [{ "port": 80 }] },
    }))
    .expect("a Service");
    apply(&mut index, Kind::Service, "cart", Content::Object(Revision::default(), typed::service(service)));
    index
}

fn apply(index: &mut Index, kind: Kind, name: &str, content: Content) -> News {
    index.take(kind, Change::Applied(Name::new("shop", name), content))
}

/// Applies a TrafficPolicy for `cart` with these retries, created in `year`.
fn apply_policy(index: &mut Index, name: &str, year: u16, retry: &Value) -> News {
    let object = json!({
        "apiVersion": "leno.dev/v1alpha1",
        "kind": "TrafficPolicy",
        "metadata": { "name": name, "namespace": "shop", "creationTimestamp": format!("{year}-01-01T00:00:00Z") },
        "spec": { "targetRefs": [{ "group": "", "kind": "Service", "name": "cart" }], "retry": retry },
    });
    apply(
        index,
        Kind::TrafficPolicy,
        name,
        Content::Custom(Revision { uid: "a".into(), generation: 1 }, read_object(object)),
    )
}

/// Returns the `attempts` of retries of calls to `cart`, and the reason in each policy's status condition.
fn joined(index: &mut Index) -> (Option<u8>, Vec<(String, Reason)>) {
    let Joined { mesh, traffic, .. } = index.translate();
    let key = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
    let table = mesh.routes(&key, "shop").map(|table| table.entries()[0].rule.calls.retry.clone());
    let reasons = traffic.iter().map(|status| (status.policy.to_string(), status.condition.reason)).collect();
    (table.flatten().map(|retry| retry.value.attempts), reasons)
}

fn problem(index: &Index, name: &str) -> Option<String> {
    index.observed()[&(Kind::TrafficPolicy, Name::new("shop", name))].problem.clone()
}

#[test]
fn the_older_of_two_policies_for_a_service_is_in_force_until_it_is_gone() {
    let mut index = with_cart();
    apply_policy(&mut index, "a-newer", 2026, &json!({ "attempts": 3 }));
    apply_policy(&mut index, "b-older", 2025, &json!({ "attempts": 2 }));
    let expected = vec![("b-older".to_owned(), Reason::Accepted), ("a-newer".to_owned(), Reason::Conflicted)];
    assert_eq!(joined(&mut index), (Some(2), expected));
    index.take(Kind::TrafficPolicy, Change::Removed(Name::new("shop", "b-older")));
    assert_eq!(joined(&mut index), (Some(3), vec![("a-newer".to_owned(), Reason::Accepted)]));
    assert_eq!(index.count(Kind::TrafficPolicy), 1);
    index.take(Kind::TrafficPolicy, Change::NotInstalled);
    assert_eq!(joined(&mut index), (None, Vec::new()));
}

#[test]
fn a_policy_that_becomes_invalid_keeps_its_last_valid_version() {
    let mut index = with_cart();
    apply_policy(&mut index, "cart", 2026, &json!({ "attempts": 2 }));
    assert_eq!(problem(&index, "cart"), None);
    let news = apply_policy(&mut index, "cart", 2026, &json!({ "attempts": 0 }));
    assert_eq!((news.problems.len(), &*news.until_then), (1, "its last valid version stays in force"));
    let told = problem(&index, "cart").expect("it is invalid");
    assert!(told.starts_with("spec.retry.attempts: 0 retries of one request; "), "{told}");
    assert!(told.ends_with(". The last valid version stays in force."), "{told}");
    assert_eq!(joined(&mut index).0, Some(2));
}

#[test]
fn a_policy_that_was_never_valid_has_no_effect_and_says_so() {
    let mut index = with_cart();
    let news = apply_policy(&mut index, "cart", 2026, &json!({ "attempts": 0 }));
    assert_eq!(news.until_then, "it has no effect");
    let told = problem(&index, "cart").expect("it is invalid");
    assert!(told.ends_with(". Until then it has no effect."), "{told}");
    assert_eq!(joined(&mut index), (None, Vec::new()));
    assert!(apply_policy(&mut index, "cart", 2026, &json!({ "attempts": 1 })).mended.is_some());
    assert_eq!(joined(&mut index).0, Some(1));
}

/// Applies an XBackendTrafficPolicy for `cart` with this retryConstraint, created in `year`.
fn apply_constraint(index: &mut Index, name: &str, year: u16, constraint: &Value) -> News {
    let object = json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1",
        "kind": "XBackendTrafficPolicy",
        "metadata": { "name": name, "namespace": "shop", "creationTimestamp": format!("{year}-01-01T00:00:00Z") },
        "spec": { "targetRefs": [{ "group": "", "kind": "Service", "name": "cart" }], "retryConstraint": constraint },
    });
    apply(
        index,
        Kind::BackendTrafficPolicy,
        name,
        Content::Custom(Revision { uid: "a".into(), generation: 1 }, read_object(object)),
    )
}

/// The percentage of the retry budget of `cart`, and the object that sets it.
fn budget(index: &mut Index) -> Option<(u8, String)> {
    let Joined { mesh, .. } = index.translate();
    let key = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
    let budget = mesh.cluster(&key)?.retry_budget.clone()?;
    Some((budget.value.percent, budget.set_by.to_string()))
}

#[test]
fn the_retry_constraint_that_was_last_valid_stays_in_force_until_its_kind_is_gone() {
    let mut index = with_cart();
    apply_constraint(&mut index, "a-newer", 2026, &json!({ "budget": { "percent": 1 } }));
    apply_constraint(&mut index, "b-older", 2025, &json!({ "budget": { "percent": 2 } }));
    let older = Some((2, "XBackendTrafficPolicy shop/b-older".to_owned()));
    assert_eq!(budget(&mut index), older);
    let expected = [("b-older".to_owned(), Reason::Accepted), ("a-newer".to_owned(), Reason::Conflicted)];
    assert_eq!(joined(&mut index).1, expected);
    let news = apply_constraint(&mut index, "b-older", 2025, &json!({ "budget": { "percent": 101 } }));
    assert_eq!((news.problems.len(), &*news.until_then), (1, "its last valid version stays in force"));
    let observed = index.observed();
    let told = observed[&(Kind::BackendTrafficPolicy, Name::new("shop", "b-older"))].problem.as_deref();
    let expected = "spec.retryConstraint.budget.percent: 101 is too much or too little; use 0 to 100. The last valid version \
                    stays in force.";
    assert_eq!(told, Some(expected));
    assert_eq!(budget(&mut index), older);
    // A TrafficPolicy with the name of an XBackendTrafficPolicy is a different object.
    apply_policy(&mut index, "b-older", 2024, &json!({ "attempts": 2 }));
    assert_eq!((joined(&mut index).0, budget(&mut index)), (Some(2), older));
    index.take(Kind::BackendTrafficPolicy, Change::NotInstalled);
    assert_eq!((joined(&mut index).0, budget(&mut index)), (Some(2), None));
}
