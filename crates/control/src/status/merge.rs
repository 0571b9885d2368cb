//! Merges our conditions into the status that an object has.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use leno_model::object::is_core;
use leno_model::route::status::{Condition, ConditionKind, ParentRef, Reason};
use leno_model::traffic::PolicyKind;
use leno_model::traffic::status::{TargetKind, TargetRef};
use serde_json::{Map, Value, json};

use super::wanted::{StatusContent, Wanted};

/// Our name in the statuses of routes, TrafficPolicies and XBackendTrafficPolicies (`controllerName`).
pub(super) const CONTROLLER: &str = "leno.dev/mesh";
/// The condition's reason if a policy names an object that does not exist.
const NOT_FOUND: &str = "NotFound";
/// Maximum number of entries in the status of a policy, of all controllers together (GEP-713).
const ANCESTORS_MAX: usize = 16;
/// Maximum number of entries in the status of a route, of all controllers together: the API server rejects more.
const PARENTS_MAX: usize = 32;
/// Maximum number of characters in the message of a condition: the API server rejects more.
const MESSAGE_MAX_CHARS: usize = 32_768;

/// Returns the status to write to an object; `None` if the object has it already.
pub(super) fn status(object: &Value, wanted: &Wanted, now: Timestamp) -> Option<Value> {
    let said = Said { generation: wanted.revision.generation, now };
    let before = &object["status"];
    let (field, after) = match &wanted.content {
        StatusContent::Route(parents) => {
            let ours = parents.iter().map(|parent| (parent_ref(&parent.parent), parent.conditions.clone())).collect();
            ("parents", said.parents(&before["parents"], ours))
        }
        StatusContent::BrokenRoute(problem) => {
            let refs = object["spec"]["parentRefs"].as_array().into_iter().flatten();
            let ours = refs.filter(|parent| is_service(parent)).map(|parent| (parent.clone(), vec![unread(problem)]));
            ("parents", said.parents(&before["parents"], ours.collect()))
        }
        StatusContent::Traffic(targets) => {
            let mut targets: Vec<_> = targets.iter().collect();
            // `kubectl get` shows only the first entry's condition, so put the failed conditions first.
            targets.sort_by_key(|target| target.condition.status);
            let ours = targets.into_iter().map(|it| (ancestor_ref(&it.target), vec![it.condition.clone()]));
            ("ancestors", said.ancestors(&before["ancestors"], ours.collect()))
        }
        StatusContent::BrokenTraffic(kind, problem) => {
            let targets = object["spec"]["targetRefs"].as_array().into_iter().flatten();
            let targets = targets.filter_map(|written| target(*kind, written));
            let ours = targets.map(|target| (ancestor_ref(&target), vec![invalid(problem)]));
            ("ancestors", said.ancestors(&before["ancestors"], ours.collect()))
        }
        StatusContent::Policy { problem, missing } => {
            let conditions = said.conditions_of_policy(&before["conditions"], problem.as_deref(), missing.as_deref());
            ("conditions", conditions)
        }
    };
    let said = before[field].as_array().cloned().unwrap_or_default();
    (said != after).then(|| match wanted.content {
        StatusContent::Policy { .. } => json!({ "observedGeneration": wanted.revision.generation, field: after }),
        _ => json!({ field: after }),
    })
}

/// The fields that all conditions of one write share.
struct Said {
    generation: i64,
    now: Timestamp,
}

impl Said {
    /// Returns the entries for a route's status.
    fn parents(&self, before: &Value, ours: Vec<(Value, Vec<Condition>)>) -> Vec<Value> {
        self.entries("parentRef", PARENTS_MAX, before, ours)
    }

    /// Returns the entries for the status of a TrafficPolicy or XBackendTrafficPolicy.
    fn ancestors(&self, before: &Value, ours: Vec<(Value, Vec<Condition>)>) -> Vec<Value> {
        self.entries("ancestorRef", ANCESTORS_MAX, before, ours)
    }

    /// Returns the entries of other controllers unchanged, followed by ours: at most `max` entries. If other
    /// controllers leave too few places, our last entries are left out. `field` is the name of the reference in each
    /// entry.
    fn entries(&self, field: &str, max: usize, before: &Value, ours: Vec<(Value, Vec<Condition>)>) -> Vec<Value> {
        let (own, others): (Vec<&Value>, Vec<&Value>) =
            before.as_array().into_iter().flatten().partition(|entry| entry["controllerName"] == CONTROLLER);
        let mut all: Vec<Value> = others.into_iter().cloned().collect();
        let places = max.saturating_sub(all.len());
        for (reference, conditions) in ours.into_iter().take(places) {
            let before = own.iter().find(|entry| entry[field] == reference).map(|entry| &entry["conditions"]);
            let conditions: Vec<Value> = conditions
                .iter()
                .map(|condition| {
                    let (kind, reason) = (condition.kind.to_string(), condition.reason.to_string());
                    self.condition(before, &kind, condition.status, &reason, &condition.message)
                })
                .collect();
            all.push(json!({ field: reference, "controllerName": CONTROLLER, "conditions": conditions }));
        }
        all
    }

    fn conditions_of_policy(&self, before: &Value, problem: Option<&str>, missing: Option<&str>) -> Vec<Value> {
        let condition = |kind: ConditionKind, good: Reason, bad: &str, why: Option<&str>| {
            let reason = if why.is_some() { bad } else { &good.to_string() };
            self.condition(Some(before), &kind.to_string(), why.is_none(), reason, why.unwrap_or_default())
        };
        vec![
            condition(ConditionKind::Accepted, Reason::Accepted, &Reason::Invalid.to_string(), problem),
            condition(ConditionKind::ResolvedRefs, Reason::ResolvedRefs, NOT_FOUND, missing),
        ]
    }

    /// Makes a condition. Keeps the last transition time of the previous condition if the status has not changed.
    fn condition(&self, before: Option<&Value>, kind: &str, status: bool, reason: &str, message: &str) -> Value {
        let status = if status { "True" } else { "False" };
        let message: Cow<'_, str> = match message.chars().count() {
            0..=MESSAGE_MAX_CHARS => message.into(),
            _ => message.chars().take(MESSAGE_MAX_CHARS - 3).chain("...".chars()).collect(),
        };
        let known = before.and_then(Value::as_array).into_iter().flatten().find(|known| known["type"] == kind);
        let since = known.filter(|known| known["status"] == status).map(|known| known["lastTransitionTime"].clone());
        json!({
            "type": kind,
            "status": status,
            "observedGeneration": self.generation,
            "lastTransitionTime": since.unwrap_or_else(|| json!(Time(self.now))),
            "reason": reason,
            "message": message,
        })
    }
}

/// A parent reference, with the fields that the route sets.
fn parent_ref(parent: &ParentRef) -> Value {
    let mut fields = Map::new();
    let mut field = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    let text = |text: &Option<Box<str>>| text.as_deref().map(Value::from);
    field("group", text(&parent.group));
    field("kind", text(&parent.kind));
    field("namespace", text(&parent.namespace));
    field("name", Some(Value::from(&*parent.name)));
    field("sectionName", text(&parent.section_name));
    field("port", parent.port.map(Value::from));
    Value::Object(fields)
}

/// The reference to a target. It always contains the group: the default for a missing group is the Gateway API's.
fn ancestor_ref(target: &TargetRef) -> Value {
    let mut fields = json!({ "group": target.kind.group(), "kind": target.kind.name(), "name": target.name });
    if let Some(section) = &target.section_name {
        fields["sectionName"] = Value::from(&**section);
    }
    fields
}

/// Reads a target of an invalid policy. Returns `None` if the target itself is invalid, or if a policy of this kind
/// cannot have such a target in Leno.
fn target(policy: PolicyKind, written: &Value) -> Option<TargetRef> {
    let kind = match policy {
        // Do not compare the group: it may be the invalid part.
        PolicyKind::Traffic => TargetKind::ALL.into_iter().find(|kind| written["kind"] == kind.name())?,
        PolicyKind::BackendTraffic => is_service(written).then_some(TargetKind::Service)?,
    };
    let text = |name: &str| written[name].as_str().map(Box::from);
    Some(TargetRef { kind, name: text("name")?, section_name: text("sectionName") })
}

/// Whether a reference to a parent or a target names a Service. A parent reference without a kind names a Gateway.
fn is_service(reference: &Value) -> bool {
    reference["kind"] == "Service" && reference["group"].as_str().is_some_and(is_core)
}

/// The condition of an invalid route, with the message `problem`. The message also describes what stays in force.
fn unread(problem: &str) -> Condition {
    let reason = Reason::UnsupportedValue;
    Condition { kind: ConditionKind::Accepted, status: false, reason, message: problem.to_owned() }
}

/// The condition of an invalid policy, with the message `problem`. The message also describes what stays in force.
fn invalid(problem: &str) -> Condition {
    Condition { kind: ConditionKind::Accepted, status: false, reason: Reason::Invalid, message: problem.to_owned() }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
