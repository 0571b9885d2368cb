use k8s_openapi::jiff::Timestamp;
use leno_model::route::status::{Condition, ConditionKind, ParentRef, ParentStatus, Reason};
use leno_model::route::{RouteKind, RouteName};
use serde_json::{Value, json};

use super::super::wanted::{StatusContent, Wanted};
use super::{CONTROLLER, status};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

/// The status of a route that the Service echo accepts or rejects.
fn route(is_accepted: bool) -> Wanted {
    let condition = Condition {
        kind: ConditionKind::Accepted,
        status: is_accepted,
        reason: if is_accepted { Reason::Accepted } else { Reason::NoMatchingParent },
        message: String::new(),
    };
    let parent = ParentRef {
        group: Some("".into()),
        kind: Some("Service".into()),
        name: "echo".into(),
        port: Some(80),
        ..ParentRef::default()
    };
    let route = RouteName { kind: RouteKind::Http, namespace: "shop".into(), name: "canary".into() };
    let parents = vec![ParentStatus { route, parent, conditions: vec![condition] }];
    Wanted { generation: 2, content: StatusContent::Route(parents) }
}

fn entry(status: &str, reason: &str, since: &str) -> Value {
    json!({
        "parentRef": { "group": "", "kind": "Service", "name": "echo", "port": 80 },
        "controllerName": CONTROLLER,
        "conditions": [{
            "type": "Accepted", "status": status, "observedGeneration": 2, "lastTransitionTime": since,
            "reason": reason, "message": "",
        }],
    })
}

#[test]
fn what_others_say_of_a_route_stays() {
    let others =
        json!({ "parentRef": { "name": "a-gateway" }, "controllerName": "example.com/gateway", "conditions": [] });
    let object = json!({ "status": { "parents": [others] } });
    let after = status(&object, &route(true), at(0)).expect("ours is new");
    assert_eq!(after, json!({ "parents": [others, entry("True", "Accepted", "1970-01-01T00:00:00Z")] }));
}

#[test]
fn what_is_said_already_is_not_said_again() {
    let object = json!({ "status": { "parents": [entry("True", "Accepted", "1970-01-01T00:00:01Z")] } });
    assert_eq!(status(&object, &route(true), at(60)), None);
}

#[test]
fn a_condition_that_turns_has_a_new_time() {
    let object = json!({ "status": { "parents": [entry("True", "Accepted", "1970-01-01T00:00:01Z")] } });
    let after = status(&object, &route(false), at(60)).expect("it turned");
    assert_eq!(after, json!({ "parents": [entry("False", "NoMatchingParent", "1970-01-01T00:01:00Z")] }));
}

#[test]
fn an_entry_for_a_parent_that_is_gone_goes() {
    let object = json!({ "status": { "parents": [entry("True", "Accepted", "1970-01-01T00:00:01Z")] } });
    let none = Wanted { generation: 2, content: StatusContent::Route(Vec::new()) };
    assert_eq!(status(&object, &none, at(60)), Some(json!({ "parents": [] })));
    // A route that never had an entry of ours gets no status at all.
    assert_eq!(status(&json!({}), &none, at(60)), None);
}

#[test]
fn a_route_that_cannot_be_read_says_so_at_each_service_it_is_for() {
    let service = json!({ "group": "", "kind": "Service", "name": "echo" });
    let object = json!({ "spec": { "parentRefs": [service, { "name": "a-gateway" }] } });
    let broken = Wanted { generation: 2, content: StatusContent::BrokenRoute("spec.rules: too many".to_owned()) };
    let after = status(&object, &broken, at(0)).expect("news");
    let parents = after["parents"].as_array().expect("a list");
    assert_eq!(parents.len(), 1);
    assert_eq!(parents[0]["parentRef"], service);
    let condition = &parents[0]["conditions"][0];
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("UnsupportedValue")));
    let message = condition["message"].as_str().expect("text");
    assert!(message.contains("spec.rules: too many") && message.contains("stays in force"), "{message}");
}

#[test]
fn a_policy_is_accepted_or_says_why_not() {
    let said = |object: &Value, problem: Option<&str>| {
        let content = StatusContent::Policy { problem: problem.map(str::to_owned), missing: None };
        status(object, &Wanted { generation: 5, content }, at(0))
    };
    let good = said(&json!({}), None).expect("news");
    assert_eq!(good["observedGeneration"], 5);
    assert_eq!(good["conditions"][0]["status"], "True");
    assert_eq!(said(&json!({ "status": good }), None), None);
    let bad = said(&json!({ "status": good }), Some("spec.allow: no")).expect("news");
    let condition = &bad["conditions"][0];
    assert_eq!((&condition["reason"], &condition["message"]), (&json!("Invalid"), &json!("spec.allow: no")));
}

#[test]
fn a_policy_that_names_what_does_not_exist_is_accepted_and_says_so() {
    let missing = Some("there is no service account shop/crat".to_owned());
    let wanted = Wanted { generation: 1, content: StatusContent::Policy { problem: None, missing } };
    let said = status(&json!({}), &wanted, at(0)).expect("news");
    let [accepted, resolved] = [0, 1].map(|index| &said["conditions"][index]);
    assert_eq!((&accepted["type"], &accepted["status"]), (&json!("Accepted"), &json!("True")));
    assert_eq!((&resolved["type"], &resolved["status"]), (&json!("ResolvedRefs"), &json!("False")));
    assert_eq!(resolved["reason"], "NotFound");
    assert_eq!(resolved["message"], "there is no service account shop/crat");
}
