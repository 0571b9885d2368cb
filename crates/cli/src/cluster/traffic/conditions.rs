//! Evaluates the conditions of a rule, and describes the calls that match them.

use leno_model::route::{GrpcMethod, PathMatch, Pattern, ValueMatch};
use serde_json::Value;

use super::super::diagnose::shown;

/// Returns whether calls with the path `path` may match an entry of a rule table. Also returns true if this version of
/// the tool does not understand the entry's condition on the path.
pub(super) fn may_match(entry: &Value, path: &str) -> bool {
    path_match(&entry["matches"]["path"]).is_none_or(|wanted| wanted.is_match(path.as_bytes()))
}

fn path_match(path: &Value) -> Option<PathMatch> {
    let (kind, value) = path.as_object()?.iter().next()?;
    match kind.as_str() {
        "exact" => Some(PathMatch::Exact(value.as_str()?.into())),
        "prefix" => Some(PathMatch::prefix(value.as_str()?)),
        "pattern" => Pattern::new(value.as_str()?).ok().map(PathMatch::Pattern),
        "grpc" => {
            let [service, method] = ["service", "method"].map(|part| value_match(&value[part]));
            Some(PathMatch::Grpc(GrpcMethod { service: service?, method: method? }))
        }
        _ => None,
    }
}

/// Parses a condition on a text. Returns `Some(None)` if there is no condition, and `None` if this version of the tool
/// does not understand the condition.
fn value_match(value: &Value) -> Option<Option<ValueMatch>> {
    let Some(condition) = value.as_object() else { return Some(None) };
    let (kind, text) = condition.iter().next()?;
    match kind.as_str() {
        "exact" => Some(Some(ValueMatch::Exact(text.as_str()?.into()))),
        "pattern" => Pattern::new(text.as_str()?).ok().map(|pattern| Some(ValueMatch::Pattern(pattern))),
        _ => None,
    }
}

/// Returns whether the conditions concern only the path, so that the path alone decides whether a call matches.
pub(super) fn has_only_a_path(matches: &Value) -> bool {
    matches.as_object().is_some_and(|matches| matches.keys().all(|condition| condition == "path"))
        && path_match(&matches["path"]).is_some()
}

/// Describes the calls that match, for example `shop.v1.Cart/Pay`, `GET /items/*` or `all with header x-canary`.
pub(super) fn calls(matches: &Value) -> String {
    let verb = matches["method"].as_str().map(|verb| format!("{verb} ")).unwrap_or_default();
    let path = path(&matches["path"]);
    let conditions = [("headers", "header"), ("query", "query parameter")].into_iter().flat_map(|(list, kind)| {
        let names = matches[list].as_array().into_iter().flatten().map(|condition| shown(&condition["name"]));
        names.map(move |name| format!("{kind} {name}"))
    });
    let conditions: Vec<String> = conditions.collect();
    let with = if conditions.is_empty() { String::new() } else { format!(" with {}", conditions.join(" and ")) };
    format!("{verb}{path}{with}")
}

fn path(path: &Value) -> String {
    let condition = |value: &Value| match (value["exact"].as_str(), value["pattern"].as_str()) {
        (Some(exact), _) => exact.to_owned(),
        (None, Some(pattern)) => format!("({pattern})"),
        (None, None) => "*".to_owned(),
    };
    let grpc = &path["grpc"];
    match path["prefix"].as_str() {
        Some("") => "all".to_owned(),
        Some(prefix) => format!("{prefix}/*"),
        None if grpc.is_null() => condition(path),
        None if grpc["service"].is_null() && grpc["method"].is_null() => "all".to_owned(),
        None => format!("{}/{}", condition(&grpc["service"]), condition(&grpc["method"])),
    }
}
