//! A gateway.networking.k8s.io/v1 GRPCRoute.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::Object;
use super::route::written::{BackendRef, Filter, NamedMatch, ParentRef, Unread};
use super::route::{Reading, RuleParts, header_matches, text_match};
use crate::manifest::Review;
use crate::problem::quoted;
use crate::route::status::Reason;
use crate::route::{GrpcMethod, Match, PathMatch, RouteKind, ValueMatch};
use crate::traffic::CallPolicy;

/// The `kind` of a GRPCRoute.
pub(crate) const KIND: &str = "GRPCRoute";
/// Maximum length of the name of a service or method.
const NAME_MAX_BYTES: usize = 1024;

/// The object as written.
#[derive(Debug, Deserialize)]
#[serde(rename = "GRPCRoute", rename_all = "camelCase")]
pub(crate) struct Written {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    // These fields exist only so that they are not reported as unknown.
    #[serde(default, rename = "apiVersion")]
    _api_version: Option<Unread>,
    #[serde(default, rename = "kind")]
    _kind: Option<Unread>,
    #[serde(default, rename = "status")]
    _status: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "GRPCRouteSpec", rename_all = "camelCase", default)]
struct Spec {
    parent_refs: Option<Vec<ParentRef>>,
    hostnames: Option<Vec<String>>,
    rules: Option<Vec<Rule>>,
    #[serde(rename = "useDefaultGateways")]
    _use_default_gateways: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "GRPCRouteRule", rename_all = "camelCase", default)]
struct Rule {
    name: Option<String>,
    matches: Option<Vec<RuleMatch>>,
    filters: Option<Vec<Filter>>,
    backend_refs: Option<Vec<BackendRef>>,
    session_persistence: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "GRPCRouteMatch", default)]
struct RuleMatch {
    method: Option<WrittenMethod>,
    headers: Option<Vec<NamedMatch>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "GRPCMethodMatch", default)]
struct WrittenMethod {
    #[serde(rename = "type")]
    kind: Option<String>,
    service: Option<String>,
    method: Option<String>,
}

/// Checks a GRPCRoute, and extracts the parts that the mesh keeps.
pub(crate) fn review(written: Written, review: &mut Review<'_>) -> Option<Object> {
    let mut reading = Reading::new(RouteKind::Grpc, review);
    let Spec { parent_refs, hostnames, rules, .. } = written.spec;
    reading.hostnames(&hostnames.unwrap_or_default());
    for (index, rule) in rules.unwrap_or_default().into_iter().enumerate() {
        read_rule(index, rule, &mut reading);
    }
    reading.finish(&written.metadata, parent_refs.unwrap_or_default())
}

fn read_rule(index: usize, rule: Rule, reading: &mut Reading<'_, '_>) {
    let field = format!("spec.rules[{index}]");
    if rule.session_persistence.is_some() {
        let what = "an experimental field that Leno does not support; requests that match the rule are rejected";
        reading.refuse(&format!("{field}.sessionPersistence"), Reason::UnsupportedValue, what, "remove it");
    }
    let written = rule.matches.unwrap_or_default();
    let mut matches = Vec::new();
    if written.is_empty() {
        matches.push(Match::any());
    }
    for (index, written) in written.into_iter().enumerate() {
        let field = format!("{field}.matches[{index}]");
        let method = match written.method {
            None => Some(GrpcMethod { service: None, method: None }),
            Some(method) => read_method(&format!("{field}.method"), &method, reading),
        };
        let headers = header_matches(&format!("{field}.headers"), &written.headers.unwrap_or_default(), reading);
        if let (Some(method), Some(headers)) = (method, headers) {
            matches.push(Match { path: PathMatch::Grpc(method), headers, ..Match::any() });
        }
    }
    let parts = RuleParts {
        name: rule.name,
        matches,
        filters: rule.filters.unwrap_or_default(),
        backend_refs: rule.backend_refs.unwrap_or_default(),
        calls: CallPolicy::default(),
    };
    reading.rule(index, parts);
}

/// Reads a method match. `None` if its type is unknown, or if a pattern could not be compiled.
fn read_method(field: &str, written: &WrittenMethod, reading: &mut Reading<'_, '_>) -> Option<GrpcMethod> {
    const KINDS: [(&str, bool); 2] = [("Exact", false), ("RegularExpression", true)];
    let is_pattern = reading.choose(&format!("{field}.type"), written.kind.as_deref().unwrap_or("Exact"), &KINDS)?;
    if written.service.is_none() && written.method.is_none() {
        reading.problem(field, "neither a service nor a method", "name one or both of them");
    }
    let mut read = |name: &str, text: Option<&str>, is_name: fn(&str) -> bool| match text {
        None => Some(None),
        Some(text) => {
            let field = format!("{field}.{name}");
            if text.len() > NAME_MAX_BYTES || !(is_pattern || is_name(text)) {
                let what = format!("{} is not the name of a gRPC {name}", quoted(text));
                reading.problem(&field, what, format!("write the {name} as the .proto file names it"));
            }
            text_match(&field, is_pattern, text, reading).map(Some)
        }
    };
    let service: Option<Option<ValueMatch>> = read("service", written.service.as_deref(), is_service);
    let method = read("method", written.method.as_deref(), is_identifier);
    Some(GrpcMethod { service: service?, method: method? })
}

/// Returns whether `text` is a service name with its package, for example `shop.v1.Cart`.
fn is_service(text: &str) -> bool {
    text.split('.').all(is_identifier)
}

fn is_identifier(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
#[path = "grpc_route_tests.rs"]
mod tests;
