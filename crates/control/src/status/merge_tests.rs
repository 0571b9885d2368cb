use k8s_openapi::jiff::Timestamp;
use leno_model::route::status::{Condition, ConditionKind, ParentRef, ParentStatus, Reason};
use leno_model::route::{RouteKind, RouteName};
use leno_model::traffic::PolicyKind;
use leno_model::traffic::status::{TargetKind, TargetRef, TargetStatus};
use serde_json::{Value, json};

use super::super::wanted::{StatusContent, Wanted};
use super::{ANCESTORS_MAX, CONTROLLER, MESSAGE_MAX_CHARS, PARENTS_MAX, status};
use crate::index::Revision;

fn revision(generation: i64) -> Revision {
    Revision { uid: "a".into(), generation }
}

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
    Wanted { revision: revision(2), content: StatusContent::Route(parents) }
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
    let none = Wanted { revision: revision(2), content: StatusContent::Route(Vec::new()) };
    assert_eq!(status(&object, &none, at(60)), Some(json!({ "parents": [] })));
    // A route that never had an entry of ours gets no status at all.
    assert_eq!(status(&json!({}), &none, at(60)), None);
}

#[test]
fn a_route_that_cannot_be_read_says_so_at_each_service_it_is_for() {
    let service = json!({ "group": "", "kind": "Service", "name": "echo" });
    let object = json!({ "spec": { "parentRefs": [service, { "name": "a-gateway" }] } });
    let broken = Wanted {
        revision: revision(2),
        content: StatusContent::BrokenRoute("spec.rules: too many. It stays in force.".to_owned()),
    };
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
        status(object, &Wanted { revision: revision(5), content }, at(0))
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
    let wanted = Wanted { revision: revision(1), content: StatusContent::Policy { problem: None, missing } };
    let said = status(&json!({}), &wanted, at(0)).expect("news");
    let [accepted, resolved] = [0, 1].map(|index| &said["conditions"][index]);
    assert_eq!((&accepted["type"], &accepted["status"]), (&json!("Accepted"), &json!("True")));
    assert_eq!((&resolved["type"], &resolved["status"]), (&json!("ResolvedRefs"), &json!("False")));
    assert_eq!(resolved["reason"], "NotFound");
    assert_eq!(resolved["message"], "there is no service account shop/crat");
}

/// A policy for this number of Services: `svc-0`, `svc-1` and so on. It is not accepted at the last Service if
/// `has_conflict`.
fn traffic(targets: usize, has_conflict: bool) -> Wanted {
    let status = |number: usize| {
        let is_accepted = !has_conflict || number + 1 < targets;
        let reason = if is_accepted { Reason::Accepted } else { Reason::Conflicted };
        TargetStatus {
            kind: PolicyKind::Traffic,
            namespace: "shop".into(),
            policy: "cart".into(),
            target: TargetRef { kind: TargetKind::Service, name: format!("svc-{number}").into(), section_name: None },
            condition: Condition { kind: ConditionKind::Accepted, status: is_accepted, reason, message: String::new() },
        }
    };
    Wanted { revision: revision(2), content: StatusContent::Traffic((0..targets).map(status).collect()) }
}

/// The name of each target in a status, with the reason of its first condition.
fn ancestors(status: &Value) -> Vec<(&str, &str)> {
    let entries = status["ancestors"].as_array().expect("a list").iter();
    entries
        .map(|entry| {
            let (name, reason) = (&entry["ancestorRef"]["name"], &entry["conditions"][0]["reason"]);
            (name.as_str().unwrap_or_default(), reason.as_str().unwrap_or_default())
        })
        .collect()
}

#[test]
fn a_traffic_policy_has_an_entry_for_each_target_and_first_those_where_it_is_not_in_force() {
    let after = status(&json!({}), &traffic(2, true), at(0)).expect("news");
    assert_eq!(ancestors(&after), [("svc-1", "Conflicted"), ("svc-0", "Accepted")]);
    let expected = json!({
        "ancestorRef": { "group": "", "kind": "Service", "name": "svc-0" },
        "controllerName": CONTROLLER,
        "conditions": [{
            "type": "Accepted", "status": "True", "observedGeneration": 2,
            "lastTransitionTime": "1970-01-01T00:00:00Z", "reason": "Accepted", "message": "",
        }],
    });
    assert_eq!(after["ancestors"][1], expected);
    let object = json!({ "status": after });
    assert_eq!(status(&object, &traffic(2, true), at(60)), None);
    let mended = status(&object, &traffic(2, false), at(60)).expect("news");
    let since = |index: usize| mended["ancestors"][index]["conditions"][0]["lastTransitionTime"].clone();
    assert_eq!([since(0), since(1)], ["1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z"]);
}

#[test]
fn entries_of_other_controllers_stay_and_all_together_are_at_most_16() {
    let theirs =
        json!({ "ancestorRef": { "name": "a-gateway" }, "controllerName": "example.com/gateway", "conditions": [] });
    let object = json!({ "status": { "ancestors": [theirs, theirs] } });
    let after = status(&object, &traffic(16, true), at(0)).expect("news");
    let all = ancestors(&after);
    assert_eq!(all.len(), ANCESTORS_MAX);
    assert_eq!(all[..3], [("a-gateway", ""), ("a-gateway", ""), ("svc-15", "Conflicted")]);
}

#[test]
fn an_invalid_traffic_policy_says_so_at_each_target_that_it_names() {
    let route =
        json!({ "group": "gateway.networking.k8s.io", "kind": "GRPCRoute", "name": "cart", "sectionName": "get" });
    let targets =
        json!([{ "group": "core", "kind": "Service", "name": "cart" }, route, { "kind": "Gateway", "name": "g" }]);
    let object = json!({ "spec": { "targetRefs": targets } });
    let problem = "spec.retry.attempts: 0 retries of one request. The last valid version stays in force.";
    let broken = Wanted {
        revision: revision(2),
        content: StatusContent::BrokenTraffic(PolicyKind::Traffic, problem.to_owned()),
    };
    let after = status(&object, &broken, at(0)).expect("news");
    assert_eq!(ancestors(&after), [("cart", "Invalid"), ("cart", "Invalid")]);
    assert_eq!(after["ancestors"][0]["ancestorRef"], json!({ "group": "", "kind": "Service", "name": "cart" }));
    assert_eq!(after["ancestors"][1]["ancestorRef"], route);
    let condition = &after["ancestors"][0]["conditions"][0];
    assert_eq!((&condition["status"], &condition["message"]), (&json!("False"), &json!(problem)));
}

/// Leno reports only at Services: other implementations may support the other targets, and report there.
#[test]
fn an_invalid_backend_traffic_policy_says_so_at_each_service_that_it_names() {
    let targets = json!([
        { "group": "", "kind": "Service", "name": "cart" },
        { "group": "multicluster.x-k8s.io", "kind": "ServiceImport", "name": "cart" },
        { "group": "example.com", "kind": "Service", "name": "cart" },
    ]);
    let object = json!({ "spec": { "targetRefs": targets } });
    let content = StatusContent::BrokenTraffic(PolicyKind::BackendTraffic, "why".to_owned());
    let after = status(&object, &Wanted { revision: revision(2), content }, at(0)).expect("news");
    assert_eq!(ancestors(&after), [("cart", "Invalid")]);
    assert_eq!(after["ancestors"][0]["ancestorRef"], targets[0]);
}

/// The API server rejects more entries and longer messages, so such a status could never be written.
#[test]
fn the_status_of_a_route_has_no_more_entries_and_no_longer_messages_than_the_api_server_stores() {
    let theirs =
        json!({ "parentRef": { "name": "a-gateway" }, "controllerName": "example.com/gateway", "conditions": [] });
    let object = json!({ "status": { "parents": [theirs, theirs] } });
    let mut wanted = route(false);
    let StatusContent::Route(parents) = &mut wanted.content else { panic!("a route") };
    parents[0].conditions[0].message = "ä".repeat(MESSAGE_MAX_CHARS + 1);
    parents.extend(vec![parents[0].clone(); 31]);
    let after = status(&object, &wanted, at(0)).expect("news");
    let all = after["parents"].as_array().expect("a list");
    assert_eq!(all.len(), PARENTS_MAX);
    assert_eq!(all[..2], [theirs.clone(), theirs]);
    let message = all[2]["conditions"][0]["message"].as_str().expect("text");
    assert!(message.chars().count() == MESSAGE_MAX_CHARS && message.ends_with("ä..."));
}
