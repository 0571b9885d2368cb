//! Writes a route rule as an xDS Route.
//!
//! Envoy does not support all features of a rule. From a backend's own filters, Envoy gets only the header changes and
//! the host rewrite. The other filters are facts, which only leno-proxy reads.

use leno_model::route::{
    Backend, BackendTarget, Filters, HeaderModifier, Match, Mirror, PathMatch, PathRewrite, Redirect, RouteKind, Rule,
    Scheme, ValueMatch,
};
use leno_model::traffic::{KNOWN_TO_GRPC, Mode, Retry, Setting, TimeLimit};

use super::matching::{connection_match, route_match};
use crate::call_policy;
use crate::facts::{
    BACKEND_MIRROR, BACKEND_PATH, BACKEND_PREFIX, BACKEND_REQUEST_HEADERS, Facts, GRPC, GRPC_METHOD, GRPC_SERVICE,
    INVALID, MIRROR, REQUEST_HEADERS, ROUTE, RULE, SERVER_NAME,
};
use crate::matcher::{escaped, regex};
use crate::name::NOWHERE;
use crate::pb::PreviousHostsPredicate;
use crate::pb::core::{HeaderValue, HeaderValueOption, RuntimeFractionalPercent, header_value_option};
use crate::pb::matcher::RegexMatchAndSubstitute;
use crate::pb::route::retry_policy::{RetryBackOff, RetryHostPredicate, retry_host_predicate};
use crate::pb::route::route_action::{
    ClusterNotFoundResponseCode, ClusterSpecifier, HostRewriteSpecifier, MaxStreamDuration, RequestMirrorPolicy,
};
use crate::pb::route::weighted_cluster::{ClusterWeight, cluster_weight};
use crate::pb::route::{
    DirectResponseAction, RedirectAction, RetryPolicy, Route, RouteAction, WeightedCluster, redirect_action, route,
};
use crate::pb::types::{FractionalPercent, fractional_percent::DenominatorType};
use crate::proto::{any, duration, uint32};
use crate::view::Dialect;

/// Maximum number of times that Envoy chooses again if a retry's endpoint is one that the call has already tried. The
/// retry then goes to the endpoint that was chosen last. For example, if a call has tried two of three endpoints, all
/// 17 choices miss the third endpoint in 0.1 % of the retries.
const HOST_SELECTIONS_MAX: i64 = 16;

/// Writes a rule for requests that match `matches` and are sent to the Service's port `port`.
pub(super) fn route(matches: &Match, rule: &Rule, port: u16, dialect: Dialect) -> Route {
    let repeated = repeated_headers(rule);
    let request = Changes::of(rule.filters.request_headers.as_ref().filter(|_| repeated.is_none()));
    let response = Changes::of(rule.filters.response_headers.as_ref());
    Route {
        name: rule.route.to_string(),
        r#match: Some(match rule.route.kind {
            RouteKind::Tls => connection_match(),
            _ => route_match(matches, dialect),
        }),
        metadata: facts(matches, rule, repeated).metadata(),
        request_headers_to_add: request.add,
        request_headers_to_remove: request.remove,
        response_headers_to_add: response.add,
        response_headers_to_remove: response.remove,
        action: Some(action(&matches.path, rule, repeated, (port, dialect))),
        ..Default::default()
    }
}

/// Returns the rule's changes of request header fields if each `ClusterWeight` must repeat them: if a backend changes
/// these fields too. Envoy applies the changes of a Route after the changes of a `ClusterWeight`, so the rule's changes
/// would override the backend's. Leno changes responses in the same order as Envoy.
fn repeated_headers(rule: &Rule) -> Option<&HeaderModifier> {
    let has_changes = |backend: &Backend| backend.filters.request_headers.is_some();
    rule.filters.request_headers.as_ref().filter(|_| rule.backends.iter().any(has_changes))
}

/// Returns the parts of a rule and its match for which a Route has no field, as facts. `repeated` is the result of
/// [`repeated_headers`].
fn facts(matches: &Match, rule: &Rule, repeated: Option<&HeaderModifier>) -> Facts {
    let mut facts = Facts::default()
        .with(ROUTE, &rule.route)
        .with_some(RULE, rule.name.as_deref())
        .with_some(SERVER_NAME, matches.server_name.as_ref());
    facts = call_policy::with_policy(facts, &rule.calls);
    if let PathMatch::Grpc(grpc) = &matches.path {
        let value = |value: &Option<ValueMatch>| {
            value.as_ref().map(|value| match value {
                ValueMatch::Exact(exact) => format!("={exact}"),
                ValueMatch::Pattern(pattern) => format!("~{}", pattern.as_str()),
            })
        };
        facts = facts
            .with(GRPC, &true)
            .with_some(GRPC_SERVICE, value(&grpc.service))
            .with_some(GRPC_METHOD, value(&grpc.method));
    }
    facts = facts.with_some(REQUEST_HEADERS, repeated.map(json));
    for (number, backend) in rule.backends.iter().enumerate() {
        if let BackendTarget::Invalid(why) = &backend.to {
            facts = facts.with(format!("{INVALID}{number}"), why);
        }
        let own = backend.filters.request_headers.as_ref().filter(|_| repeated.is_some());
        facts = facts.with_some(&format!("{BACKEND_REQUEST_HEADERS}{number}"), own.map(json));
        facts = with_filters(facts, number, &backend.filters);
    }
    for (number, mirror) in rule.filters.mirrors.iter().enumerate() {
        facts = facts.with(format!("{MIRROR}{number}"), &share(mirror));
    }
    facts
}

/// Adds a backend's own filters, except those for which Envoy's `ClusterWeight` has a field.
fn with_filters(mut facts: Facts, number: usize, filters: &Filters) -> Facts {
    match filters.rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref()) {
        Some(PathRewrite::Full(path)) => facts = facts.with(format!("{BACKEND_PATH}{number}"), path),
        Some(PathRewrite::Prefix(prefix)) => facts = facts.with(format!("{BACKEND_PREFIX}{number}"), prefix),
        None => {}
    }
    for (place, mirror) in filters.mirrors.iter().enumerate() {
        let value = format!("{} {}", share(mirror), mirror.to);
        facts = facts.with(format!("{BACKEND_MIRROR}{number}-{place}"), &value);
    }
    facts
}

fn json(modifier: &HeaderModifier) -> String {
    // Only a map with keys that are not text would fail, and a modifier has no map.
    serde_json::to_string(modifier).unwrap_or_default()
}

/// Returns the share of requests that a mirror gets, for example `1/3`.
fn share(mirror: &Mirror) -> String {
    format!("{}/{}", mirror.numerator, mirror.denominator)
}

fn action(
    path: &PathMatch,
    rule: &Rule,
    repeated: Option<&HeaderModifier>,
    (port, dialect): (u16, Dialect),
) -> route::Action {
    if let Some(redirect) = &rule.filters.redirect {
        return route::Action::Redirect(redirected(redirect, path, port));
    }
    let weights: u64 = rule.backends.iter().map(|backend| u64::from(backend.weight)).sum();
    if weights == 0 {
        return route::Action::DirectResponse(DirectResponseAction { status: 500, ..Default::default() });
    }
    let limit = |limit: &Option<Setting<TimeLimit>>| enforced(limit).map(|limit| limit.after);
    let (request, attempt) = (limit(&rule.calls.request_timeout), limit(&rule.calls.backend_request_timeout));
    let retry = enforced(&rule.calls.retry);
    // Without retries, a request has only one attempt, so the timeout of an attempt also limits the whole request. Use
    // the shorter timeout: if different objects set the two timeouts, either timeout may be the shorter one.
    let timeout = match (request, attempt) {
        (Some(request), Some(attempt)) if retry.is_none() => Some(request.min(attempt)),
        (None, attempt) if retry.is_none() => attempt,
        (request, _) => request,
    };
    let mut action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::WeightedClusters(WeightedCluster {
            clusters: rule.backends.iter().map(|backend| weighted(backend, repeated)).collect(),
            ..Default::default()
        })),
        cluster_not_found_response_code: ClusterNotFoundResponseCode::InternalServerError.into(),
        // Zero means no limit; without the field, Envoy's limit would be 15 s.
        timeout: Some(duration(timeout.unwrap_or_default())),
        max_stream_duration: timeout
            .map(|timeout| MaxStreamDuration { max_stream_duration: Some(duration(timeout)), ..Default::default() }),
        request_mirror_policies: rule.filters.mirrors.iter().map(mirror).collect(),
        retry_policy: retry.map(|retry| retry_policy(retry, attempt, dialect)),
        idle_timeout: limit(&rule.calls.stream_idle_timeout).map(duration),
        ..Default::default()
    };
    if let Some(rewrite) = &rule.filters.rewrite {
        action.host_rewrite_specifier =
            rewrite.hostname.as_ref().map(|host| HostRewriteSpecifier::HostRewriteLiteral(host.to_string()));
        match (&rewrite.path, path) {
            (Some(PathRewrite::Full(full)), _) => action.regex_rewrite = Some(whole_path(full)),
            (Some(PathRewrite::Prefix(new)), PathMatch::Prefix(old)) => match new.trim_end_matches('/') {
                "" => action.regex_rewrite = Some(without_prefix(old)),
                new => new.clone_into(&mut action.prefix_rewrite),
            },
            (Some(PathRewrite::Prefix(_)) | None, _) => {}
        }
    }
    route::Action::Route(action)
}

/// Writes the conditions for retries. gRPC clients (gRFC A44) and Envoy know five gRPC statuses, by their names in
/// lower case. Only Envoy can avoid the endpoints that the call has tried.
fn retry_policy(retry: &Retry, attempt: Option<std::time::Duration>, dialect: Dialect) -> RetryPolicy {
    let on_grpc = retry.grpc_codes.iter().filter(|(code, _)| KNOWN_TO_GRPC.contains(code));
    let on_grpc = on_grpc.map(|(_, name)| name.to_ascii_lowercase().replace('_', "-"));
    let on_failures = ["connect-failure", "refused-stream", "reset", "retriable-status-codes"];
    let most = retry.pause(u8::MAX, 0);
    RetryPolicy {
        retry_on: on_failures.into_iter().map(str::to_owned).chain(on_grpc).collect::<Vec<_>>().join(","),
        num_retries: Some(uint32(retry.attempts.into())),
        per_try_timeout: attempt.map(duration),
        retriable_status_codes: retry.http_codes.iter().map(|code| u32::from(*code)).collect(),
        retry_back_off: Some(RetryBackOff {
            // gRPC clients and Envoy reject a pause of zero, so write at least 1 ms.
            base_interval: Some(duration(retry.backoff.max(std::time::Duration::from_millis(1)))),
            max_interval: Some(duration(most.max(std::time::Duration::from_millis(1)))),
        }),
        retry_host_predicate: (dialect == Dialect::Envoy).then(previous_hosts).into_iter().collect(),
        host_selection_retry_max_attempts: if dialect == Dialect::Envoy { HOST_SELECTIONS_MAX } else { 0 },
        ..Default::default()
    }
}

/// Returns Envoy's extension that rejects the choice of an endpoint for a retry if the call has already tried this
/// endpoint.
fn previous_hosts() -> RetryHostPredicate {
    let config = any(&PreviousHostsPredicate::default());
    RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(retry_host_predicate::ConfigType::TypedConfig(config)),
    }
}

/// Returns a part of a policy if the part is enforced; `None` in audit mode, which gRPC clients and Envoy do not
/// support.
fn enforced<T>(part: &Option<Setting<T>>) -> Option<&T> {
    part.as_ref().filter(|part| part.mode == Mode::Enforce).map(|part| &part.value)
}

/// Returns the cluster name of a backend.
pub(crate) fn destination(backend: &Backend) -> String {
    match &backend.to {
        BackendTarget::Cluster(key) => key.to_string(),
        BackendTarget::Invalid(_) => NOWHERE.to_owned(),
    }
}

/// Writes a backend. The changes `of_rule` apply to requests before the backend's own changes.
fn weighted(backend: &Backend, of_rule: Option<&HeaderModifier>) -> ClusterWeight {
    let Filters { request_headers, response_headers, rewrite, .. } = &backend.filters;
    let request = match (of_rule, request_headers) {
        (Some(of_rule), Some(own)) => Changes::of(Some(&of_rule.then(own))),
        (of_rule, own) => Changes::of(of_rule.or(own.as_ref())),
    };
    let response = Changes::of(response_headers.as_ref());
    let host = rewrite.as_ref().and_then(|rewrite| rewrite.hostname.as_ref());
    ClusterWeight {
        name: destination(backend),
        weight: Some(uint32(backend.weight)),
        request_headers_to_add: request.add,
        request_headers_to_remove: request.remove,
        response_headers_to_add: response.add,
        response_headers_to_remove: response.remove,
        host_rewrite_specifier: host
            .map(|host| cluster_weight::HostRewriteSpecifier::HostRewriteLiteral(host.to_string())),
        ..Default::default()
    }
}

/// Header changes in Envoy's form.
#[derive(Default)]
struct Changes {
    add: Vec<HeaderValueOption>,
    remove: Vec<String>,
}

impl Changes {
    fn of(modifier: Option<&HeaderModifier>) -> Self {
        use header_value_option::HeaderAppendAction::{AppendIfExistsOrAdd, OverwriteIfExistsOrAdd};
        let Some(modifier) = modifier else {
            return Self::default();
        };
        let option = |header: &leno_model::route::Header, action: header_value_option::HeaderAppendAction| {
            // Escape percent signs: they begin Envoy's variables.
            let value = header.value.replace('%', "%%");
            HeaderValueOption {
                header: Some(HeaderValue { key: header.name.to_string(), value, ..Default::default() }),
                append_action: action.into(),
                keep_empty_value: true,
                ..Default::default()
            }
        };
        let set = modifier.set.iter().map(|header| option(header, OverwriteIfExistsOrAdd));
        let add = modifier.add.iter().map(|header| option(header, AppendIfExistsOrAdd));
        Self { add: set.chain(add).collect(), remove: modifier.remove.iter().map(ToString::to_string).collect() }
    }
}

fn mirror(mirror: &Mirror) -> RequestMirrorPolicy {
    const MILLION: u64 = 1_000_000;
    let numerator = u64::from(mirror.numerator) * MILLION / u64::from(mirror.denominator.max(1));
    let share = FractionalPercent {
        numerator: u32::try_from(numerator).unwrap_or(u32::MAX),
        denominator: DenominatorType::Million.into(),
    };
    RequestMirrorPolicy {
        cluster: mirror.to.to_string(),
        runtime_fraction: Some(RuntimeFractionalPercent { default_value: Some(share), ..Default::default() }),
        disable_shadow_host_suffix_append: true,
        ..Default::default()
    }
}

/// Writes a redirect of requests that match `path` and are sent to the Service's port `service_port`.
fn redirected(redirect: &Redirect, path: &PathMatch, service_port: u16) -> RedirectAction {
    use redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier};
    let code = match redirect.status {
        301 => RedirectResponseCode::MovedPermanently,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        _ => RedirectResponseCode::Found,
    };
    let path = redirect.path.as_ref().and_then(|new| match (new, path) {
        (PathRewrite::Full(full), _) => Some(PathRewriteSpecifier::PathRedirect(path_or_root(full).to_owned())),
        (PathRewrite::Prefix(new), PathMatch::Prefix(old)) => Some(match new.trim_end_matches('/') {
            "" => PathRewriteSpecifier::RegexRewrite(without_prefix(old)),
            new => PathRewriteSpecifier::PrefixRewrite(new.to_owned()),
        }),
        (PathRewrite::Prefix(_), _) => None,
    });
    // Without `port_redirect`, Envoy writes a new host without a port, and the request's host with the request's port.
    // If the scheme changes to https, Envoy drops the request's port 80.
    let is_implied = redirect.port.is_none()
        && (service_port == Scheme::Http.port() || redirect.scheme.is_some() && redirect.hostname.is_some());
    let port = if is_implied { 0 } else { redirect.port_from(service_port) };
    RedirectAction {
        host_redirect: redirect.hostname.as_deref().unwrap_or_default().to_owned(),
        port_redirect: port.into(),
        response_code: code.into(),
        scheme_rewrite_specifier: redirect
            .scheme
            .map(|scheme| SchemeRewriteSpecifier::SchemeRedirect(scheme.name().to_owned())),
        path_rewrite_specifier: path,
        ..Default::default()
    }
}

pub(super) const WHOLE_PATH: &str = "^.*$";

/// Replaces the whole path.
fn whole_path(path: &str) -> RegexMatchAndSubstitute {
    let substitution = path_or_root(path).replace('\\', "\\\\");
    RegexMatchAndSubstitute { pattern: Some(regex(WHOLE_PATH.to_owned())), substitution }
}

/// Returns the path, or `/` instead of an empty path. Envoy reads an empty path as no change of the path.
fn path_or_root(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// Replaces the prefix with `/` and keeps the rest.
fn without_prefix(prefix: &str) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute { pattern: Some(regex(format!("^{}/*", escaped(prefix)))), substitution: "/".to_owned() }
}
