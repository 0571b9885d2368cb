//! A gateway.networking.k8s.io/v1 HTTPRoute.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::Object;
use super::call_values::{self, Fault};
use super::route::written::{BackendRef, Filter, NamedMatch, ParentRef, Unread};
use super::route::{Reading, RuleParts, header_matches, path_fault, pattern, query_matches};
use crate::http_method;
use crate::manifest::Review;
use crate::route::status::Reason;
use crate::route::{Match, PathMatch, RouteKind};
use crate::traffic::{
    BACKOFF_MAX, CallPolicy, DEFAULT_BACKOFF, GrpcCodes, Mode, RETRIES_MAX, Retry, Setting, TimeLimit,
};

/// The `kind` of an HTTPRoute.
pub(crate) const KIND: &str = "HTTPRoute";

/// The object as written.
#[derive(Debug, Deserialize)]
#[serde(rename = "HTTPRoute", rename_all = "camelCase")]
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
#[serde(rename = "HTTPRouteSpec", rename_all = "camelCase", default)]
struct Spec {
    parent_refs: Option<Vec<ParentRef>>,
    hostnames: Option<Vec<String>>,
    rules: Option<Vec<Rule>>,
    #[serde(rename = "useDefaultGateways")]
    _use_default_gateways: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPRouteRule", rename_all = "camelCase", default)]
struct Rule {
    name: Option<String>,
    matches: Option<Vec<RuleMatch>>,
    filters: Option<Vec<Filter>>,
    backend_refs: Option<Vec<BackendRef>>,
    timeouts: Option<WrittenTimeouts>,
    retry: Option<WrittenRetry>,
    session_persistence: Option<Unread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPRouteMatch", rename_all = "camelCase", default)]
struct RuleMatch {
    path: Option<WrittenPath>,
    method: Option<String>,
    headers: Option<Vec<NamedMatch>>,
    query_params: Option<Vec<NamedMatch>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPPathMatch", default)]
struct WrittenPath {
    #[serde(rename = "type")]
    kind: Option<String>,
    value: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPRouteTimeouts", rename_all = "camelCase", default)]
struct WrittenTimeouts {
    request: Option<String>,
    backend_request: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "HTTPRouteRetry", rename_all = "camelCase", default)]
struct WrittenRetry {
    codes: Option<Vec<u16>>,
    attempts: Option<i64>,
    backoff: Option<String>,
}

/// Checks an HTTPRoute, and extracts the parts that the mesh keeps.
pub(crate) fn review(written: Written, review: &mut Review<'_>) -> Option<Object> {
    let mut reading = Reading::new(RouteKind::Http, review);
    let Spec { parent_refs, hostnames, rules, .. } = written.spec;
    reading.hostnames(&hostnames.unwrap_or_default());
    // Gateway API's default is one rule, which matches all requests and has no backend.
    let rules = rules.unwrap_or_else(|| vec![Rule::default()]);
    for (index, rule) in rules.into_iter().enumerate() {
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
        matches.extend(read_match(&format!("{field}.matches[{index}]"), written, reading));
    }
    let set_by: Arc<str> = reading.object().into();
    let (request_timeout, backend_request_timeout) =
        read_timeouts(&format!("{field}.timeouts"), &rule.timeouts.unwrap_or_default(), &set_by, reading);
    let retry = rule.retry.and_then(|retry| read_retry(&format!("{field}.retry"), retry, &set_by, reading));
    let calls = CallPolicy { request_timeout, backend_request_timeout, retry, ..CallPolicy::default() };
    let parts = RuleParts {
        name: rule.name,
        matches,
        filters: rule.filters.unwrap_or_default(),
        backend_refs: rule.backend_refs.unwrap_or_default(),
        calls,
    };
    reading.rule(index, parts);
}

/// Reads a match. `None` if the type of one of its conditions is unknown, or if a pattern could not be compiled.
fn read_match(field: &str, written: RuleMatch, reading: &mut Reading<'_, '_>) -> Option<Match> {
    let RuleMatch { path, method, headers, query_params } = written;
    let known = http_method::KNOWN.map(|method| (method, ()));
    if let Some(method) = &method {
        reading.choose(&format!("{field}.method"), method, &known);
    }
    let path = read_path(&format!("{field}.path"), path.unwrap_or_default(), reading);
    let headers = header_matches(&format!("{field}.headers"), &headers.unwrap_or_default(), reading);
    let query = query_matches(&format!("{field}.queryParams"), &query_params.unwrap_or_default(), reading);
    Some(Match { path: path?, method: method.map(Into::into), headers: headers?, query: query?, ..Match::any() })
}

fn read_path(field: &str, written: WrittenPath, reading: &mut Reading<'_, '_>) -> Option<PathMatch> {
    #[derive(Clone, Copy)]
    enum Kind {
        Exact,
        Prefix,
        Pattern,
    }
    const KINDS: [(&str, Kind); 3] =
        [("Exact", Kind::Exact), ("PathPrefix", Kind::Prefix), ("RegularExpression", Kind::Pattern)];
    let kind = reading.choose(&format!("{field}.type"), written.kind.as_deref().unwrap_or("PathPrefix"), &KINDS)?;
    let value = written.value.unwrap_or_else(|| "/".to_owned());
    let field = format!("{field}.value");
    if let (Kind::Exact | Kind::Prefix, Some((what, fix))) = (kind, path_fault(&value)) {
        reading.problem(&field, what, fix);
    }
    match kind {
        Kind::Exact => Some(PathMatch::Exact(value.into())),
        Kind::Prefix => Some(PathMatch::prefix(&value)),
        Kind::Pattern => pattern(&field, &value, reading).map(PathMatch::Pattern),
    }
}

/// The time limit for the whole request, and the time limit for each attempt.
type Timeouts = (Option<Setting<TimeLimit>>, Option<Setting<TimeLimit>>);

fn read_timeouts(field: &str, written: &WrittenTimeouts, set_by: &Arc<str>, reading: &mut Reading<'_, '_>) -> Timeouts {
    let request = read_timeout(&format!("{field}.request"), written.request.as_deref(), reading);
    let backend_field = format!("{field}.backendRequest");
    let backend_request = read_timeout(&backend_field, written.backend_request.as_deref(), reading);
    let some = |limit: Option<Duration>| limit.filter(|limit| !limit.is_zero());
    if let Err(Fault { what, fix }) = call_values::check_order(some(request), some(backend_request)) {
        reading.problem(&backend_field, what, fix);
    }
    let setting = |after: Duration| Setting {
        value: TimeLimit { after },
        // A limit of 0 turns the limit off. This also overrides a limit that a less specific policy sets (GEP-1742).
        mode: if after.is_zero() { Mode::Off } else { Mode::Enforce },
        set_by: set_by.clone(),
    };
    (request.map(setting), backend_request.map(setting))
}

fn read_timeout(field: &str, written: Option<&str>, reading: &mut Reading<'_, '_>) -> Option<Duration> {
    valid(field, call_values::duration(written?), reading)
}

/// Returns the value if it is valid. Otherwise, reports the mistake and returns `None`.
fn valid<T>(field: &str, value: Result<T, Fault>, reading: &mut Reading<'_, '_>) -> Option<T> {
    value.map_err(|Fault { what, fix }| reading.problem(field, what, fix)).ok()
}

/// Returns the value if the mesh supports it. Otherwise, records a refusal instead of a mistake, because Kubernetes
/// accepts the value.
fn supported<T>(field: &str, value: Result<T, Fault>, reading: &mut Reading<'_, '_>) -> Option<T> {
    value.map_err(|Fault { what, fix }| reading.refuse(field, Reason::UnsupportedValue, what, fix)).ok()
}

/// Reads the retry settings of a rule (GEP-1731). `None` if a value is invalid or not supported. For gRPC calls, each
/// HTTP code selects the gRPC status with the same meaning.
///
/// Kubernetes accepts any number of retries and any pause. Values above our limits are lowered to the limits: the calls
/// are still retried, and to reject them would be worse.
fn read_retry(
    field: &str,
    written: WrittenRetry,
    set_by: &Arc<str>,
    reading: &mut Reading<'_, '_>,
) -> Option<Setting<Retry>> {
    let codes = call_values::http_codes(written.codes.unwrap_or_default());
    let http_codes = valid(&format!("{field}.codes"), codes, reading)?;
    let attempts_field = format!("{field}.attempts");
    let written_attempts = written.attempts.unwrap_or(1);
    if written_attempts > i64::from(RETRIES_MAX) {
        let what = format!("{written_attempts} retries of one request; the proxy sends at most {RETRIES_MAX}");
        reading.remark(&attempts_field, what);
    }
    let attempts = call_values::retries(written_attempts.min(RETRIES_MAX.into()));
    let attempts = supported(&attempts_field, attempts, reading)?;
    let backoff_field = format!("{field}.backoff");
    let backoff = match written.backoff.as_deref() {
        Some(text) => valid(&backoff_field, call_values::duration(text), reading)?,
        None => DEFAULT_BACKOFF,
    };
    if backoff > BACKOFF_MAX {
        let what = format!("a pause of {backoff:?} before a retry; the proxy begins with a pause of {BACKOFF_MAX:?}");
        reading.remark(&backoff_field, what);
    }
    let backoff = backoff.min(BACKOFF_MAX);
    Some(Setting {
        value: Retry { grpc_codes: GrpcCodes::like_http(&http_codes), http_codes, attempts, backoff },
        // No retries: this also overrides the retries that a less specific policy sets.
        mode: if attempts == 0 { Mode::Off } else { Mode::Enforce },
        set_by: set_by.clone(),
    })
}

#[cfg(test)]
#[path = "http_route_tests.rs"]
mod tests;
