//! Matches of rules, as RouteMatch messages.

use leno_model::route::{GrpcMethod, HeaderMatch, Match, PathMatch, QueryMatch, ValueMatch};

use crate::matcher::{escaped, exactly, header, pattern, regex};
use crate::pb::matcher::StringMatcher;
use crate::pb::route::{HeaderMatcher, QueryParameterMatcher, RouteMatch, query_parameter_matcher, route_match};
use crate::view::Dialect;

/// Regular expression that matches any one part of a gRPC path.
const ANY_PART: &str = "[^/]+";

pub(super) fn route_match(matches: &Match, dialect: Dialect) -> RouteMatch {
    // A gRPC client matches header conditions against a call's metadata only (gRFC A28). So conditions on `:method` and
    // `:authority` never match. Every gRPC call has the method POST, so leave this condition out.
    let method = matches.method.as_deref().filter(|method| dialect == Dialect::Envoy || *method != "POST");
    let method = method.map(|method| header(":method", exactly(method)));
    RouteMatch {
        path_specifier: Some(path(&matches.path, dialect)),
        headers: method.into_iter().chain(matches.headers.iter().map(header_match)).collect(),
        query_parameters: matches.query.iter().map(query_match).collect(),
        ..Default::default()
    }
}

/// Writes the match for opaque connections, whose bytes are sent in CONNECT requests. CONNECT requests have no path.
pub(super) fn connection_match() -> RouteMatch {
    let connect = route_match::PathSpecifier::ConnectMatcher(route_match::ConnectMatcher {});
    RouteMatch { path_specifier: Some(connect), ..Default::default() }
}

fn path(path: &PathMatch, dialect: Dialect) -> route_match::PathSpecifier {
    use route_match::PathSpecifier;
    match path {
        PathMatch::Exact(path) => PathSpecifier::Path(path.to_string()),
        PathMatch::Prefix(prefix) if prefix.is_empty() => PathSpecifier::Prefix(String::new()),
        PathMatch::Prefix(prefix) => match dialect {
            Dialect::Envoy => PathSpecifier::PathSeparatedPrefix(prefix.to_string()),
            Dialect::Grpc => PathSpecifier::SafeRegex(regex(format!("{}(/.*)?", escaped(prefix)))),
        },
        PathMatch::Pattern(pattern) => PathSpecifier::SafeRegex(regex(pattern.as_str().to_owned())),
        PathMatch::Grpc(GrpcMethod { service: None, method: None }) => PathSpecifier::Prefix(String::new()),
        PathMatch::Grpc(GrpcMethod { service: Some(ValueMatch::Exact(service)), method }) => match method {
            Some(ValueMatch::Exact(method)) => PathSpecifier::Path(format!("/{service}/{method}")),
            method => PathSpecifier::SafeRegex(regex(format!("/{}/{}", escaped(service), part(method.as_ref())))),
        },
        PathMatch::Grpc(GrpcMethod { service, method }) => {
            PathSpecifier::SafeRegex(regex(format!("/{}/{}", part(service.as_ref()), part(method.as_ref()))))
        }
    }
}

/// Returns the regular expression for one part of a gRPC path.
fn part(value: Option<&ValueMatch>) -> String {
    match value {
        None => ANY_PART.to_owned(),
        Some(ValueMatch::Exact(exact)) => escaped(exact),
        Some(ValueMatch::Pattern(pattern)) => format!("(?:{})", pattern.as_str()),
    }
}

fn header_match(matches: &HeaderMatch) -> HeaderMatcher {
    let name = if &*matches.name == "host" { ":authority" } else { &matches.name };
    header(name, string_matcher(&matches.value))
}

fn query_match(matches: &QueryMatch) -> QueryParameterMatcher {
    use query_parameter_matcher::QueryParameterMatchSpecifier::StringMatch;
    QueryParameterMatcher {
        name: matches.name.to_string(),
        query_parameter_match_specifier: Some(StringMatch(string_matcher(&matches.value))),
    }
}

fn string_matcher(value: &ValueMatch) -> StringMatcher {
    match value {
        ValueMatch::Exact(exact) => exactly(exact),
        ValueMatch::Pattern(regex) => pattern(regex.as_str().to_owned()),
    }
}
