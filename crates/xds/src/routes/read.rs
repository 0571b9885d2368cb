//! Reads the routes of one cluster.

use leno_model::mesh::ClusterKey;
use leno_model::route::{
    Entry, GrpcMethod, HeaderMatch, Match, PathMatch, Pattern, QueryMatch, RouteKind, RouteTable, ServerName,
    TABLE_MAX_BYTES, ValueMatch,
};
use prost::Message;

use super::read_rule;
use crate::error::Unreadable;
use crate::facts::{Facts, GRPC, GRPC_METHOD, GRPC_SERVICE, ROUTE, SERVER_NAME};
use crate::limits::{RESOURCE_MAX_BYTES, ROUTES_MAX};
use crate::name;
use crate::pb::matcher::{StringMatcher, string_matcher};
use crate::pb::route::{
    HeaderMatcher, QueryParameterMatcher, Route, RouteConfiguration, RouteMatch, header_matcher,
    query_parameter_matcher, route_match,
};

/// The routes of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    pub key: ClusterKey,
    /// The rules for calls. `None`: calls go to the cluster itself.
    pub table: Option<RouteTable>,
}

/// An error: the name of the invalid field, and what is wrong with it.
pub(super) type Fault = (&'static str, String);

/// Reads the routes of calls for one cluster.
///
/// # Errors
/// [`Unreadable`] if the bytes are not a RouteConfiguration that Leno writes for one cluster in the dialect Envoy.
pub fn read(bytes: &[u8]) -> Result<Routes, Unreadable> {
    const KIND: &str = "RouteConfiguration";
    if bytes.len() > RESOURCE_MAX_BYTES {
        return Err(Unreadable::new("", KIND, format!("has more than {RESOURCE_MAX_BYTES} bytes")));
    }
    let resource = RouteConfiguration::decode(bytes).map_err(|error| Unreadable::new("", KIND, error.to_string()))?;
    let bad = |field, what: String| Unreadable::new(&resource.name, field, what);
    let key =
        name::cluster_key(&resource.name).ok_or_else(|| bad("name", "is not service.namespace:port".to_owned()))?;
    let [host] = &resource.virtual_hosts[..] else {
        return Err(bad("virtual_hosts", "are not one".to_owned()));
    };
    if host.routes.len() > ROUTES_MAX {
        return Err(bad("routes", format!("are more than {ROUTES_MAX}")));
    }
    let facts = |route: &Route| Facts::from_metadata(route.metadata.as_ref());
    // A configuration with one entry and no route object sends calls to the cluster itself.
    if let [only] = &host.routes[..]
        && facts(only).get(ROUTE).is_none()
    {
        return Ok(Routes { key, table: None });
    }
    let mut kind = RouteKind::Http;
    let mut entries = Vec::new();
    for route in &host.routes {
        let facts = facts(route);
        // The last entry of TLSRoutes sends connections without TLS to the cluster itself. The model implies this rule
        // for TLSRoutes, so skip the entry.
        if kind == RouteKind::Tls && facts.get(ROUTE).is_none() {
            continue;
        }
        let entry = entry(route, &facts).map_err(|(field, what)| bad(field, what))?;
        kind = entry.rule.route.kind;
        entries.push(entry);
    }
    let table = RouteTable::new(kind, entries);
    if table.size_bytes() > TABLE_MAX_BYTES {
        return Err(bad("routes", format!("take more than {TABLE_MAX_BYTES} bytes")));
    }
    Ok(Routes { key, table: Some(table) })
}

fn entry(route: &Route, facts: &Facts) -> Result<Entry, Fault> {
    let route_match = route.r#match.as_ref().ok_or_else(|| ("match", "is missing".to_owned()))?;
    let matches = read_match(route_match, facts)?;
    let rule = read_rule::rule(route, facts)?;
    Ok(Entry { matches: matches.into(), rule: rule.into() })
}

fn read_match(route_match: &RouteMatch, facts: &Facts) -> Result<Match, Fault> {
    if let Some(route_match::PathSpecifier::ConnectMatcher(_)) = &route_match.path_specifier {
        let bad = || (SERVER_NAME, "is no name of a server".to_owned());
        let server_name = facts.get(SERVER_NAME).map(|name| ServerName::parse(name).ok_or_else(bad)).transpose()?;
        return Ok(Match { server_name, ..Match::any() });
    }
    let (mut method, mut headers) = (None, Vec::new());
    for matcher in &route_match.headers {
        match header(matcher)? {
            HeaderMatch { name, value: ValueMatch::Exact(exact) } if &*name == ":method" => method = Some(exact),
            HeaderMatch { name, value } if &*name == ":authority" => {
                headers.push(HeaderMatch { name: "host".into(), value });
            }
            other => headers.push(other),
        }
    }
    Ok(Match {
        server_name: None,
        path: path(route_match, facts)?,
        method,
        headers: headers.into(),
        query: route_match.query_parameters.iter().map(query).collect::<Result<_, _>>()?,
    })
}

fn path(route_match: &RouteMatch, facts: &Facts) -> Result<PathMatch, Fault> {
    use route_match::PathSpecifier;
    if facts.get(GRPC).is_some() {
        let (service, method) = (grpc_part(facts, GRPC_SERVICE)?, grpc_part(facts, GRPC_METHOD)?);
        return Ok(PathMatch::Grpc(GrpcMethod { service, method }));
    }
    match &route_match.path_specifier {
        Some(PathSpecifier::Path(path)) => Ok(PathMatch::Exact(path.as_str().into())),
        Some(PathSpecifier::Prefix(prefix)) if prefix.is_empty() => Ok(PathMatch::Prefix("".into())),
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => Ok(PathMatch::prefix(prefix)),
        Some(PathSpecifier::SafeRegex(regex)) => Ok(PathMatch::Pattern(pattern("safe_regex", &regex.regex)?)),
        _ => Err(("path_specifier", "is none that Leno writes for Envoy".to_owned())),
    }
}

fn grpc_part(facts: &Facts, name: &'static str) -> Result<Option<ValueMatch>, Fault> {
    let Some(text) = facts.get(name) else {
        return Ok(None);
    };
    match (text.strip_prefix('='), text.strip_prefix('~')) {
        (Some(exact), _) => Ok(Some(ValueMatch::Exact(exact.into()))),
        (None, Some(regex)) => Ok(Some(ValueMatch::Pattern(pattern(name, regex)?))),
        (None, None) => Err((name, "begins with neither = nor ~".to_owned())),
    }
}

fn header(matcher: &HeaderMatcher) -> Result<HeaderMatch, Fault> {
    let Some(header_matcher::HeaderMatchSpecifier::StringMatch(value)) = &matcher.header_match_specifier else {
        return Err(("headers", "are not matched by a string".to_owned()));
    };
    Ok(HeaderMatch { name: matcher.name.as_str().into(), value: value_match(value)? })
}

fn query(matcher: &QueryParameterMatcher) -> Result<QueryMatch, Fault> {
    use query_parameter_matcher::QueryParameterMatchSpecifier::StringMatch;
    let Some(StringMatch(value)) = &matcher.query_parameter_match_specifier else {
        return Err(("query_parameters", "are not matched by a string".to_owned()));
    };
    Ok(QueryMatch { name: matcher.name.as_str().into(), value: value_match(value)? })
}

fn value_match(matcher: &StringMatcher) -> Result<ValueMatch, Fault> {
    match &matcher.match_pattern {
        Some(string_matcher::MatchPattern::Exact(exact)) => Ok(ValueMatch::Exact(exact.as_str().into())),
        Some(string_matcher::MatchPattern::SafeRegex(regex)) => {
            Ok(ValueMatch::Pattern(pattern("safe_regex", &regex.regex)?))
        }
        _ => Err(("string_match", "is neither exact nor a regular expression".to_owned())),
    }
}

fn pattern(field: &'static str, text: &str) -> Result<Pattern, Fault> {
    Pattern::new(text).map_err(|error| (field, error.to_string()))
}
