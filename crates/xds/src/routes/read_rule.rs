//! Reads a rule: its backends, filters and policy for calls.

use leno_model::route::{
    Backend, BackendTarget, Filters, Header, HeaderModifier, Mirror, PathRewrite, Redirect, Rewrite, RouteKind,
    RouteName, Rule, Scheme,
};

use super::read::Fault;
use crate::call_policy;
use crate::facts::{
    BACKEND_MIRROR, BACKEND_PATH, BACKEND_PREFIX, BACKEND_REQUEST_HEADERS, Facts, INVALID, MIRROR, REQUEST_HEADERS,
    ROUTE, RULE,
};
use crate::name::{NOWHERE, cluster_key};
use crate::pb::core::{HeaderValueOption, header_value_option::HeaderAppendAction};
use crate::pb::matcher::RegexMatchAndSubstitute;
use crate::pb::route::route_action::{ClusterSpecifier, HostRewriteSpecifier, RequestMirrorPolicy};
use crate::pb::route::weighted_cluster::{ClusterWeight, cluster_weight};
use crate::pb::route::{RedirectAction, Route, RouteAction, redirect_action, route};

/// Reads the rule of a Route.
pub(super) fn rule(route: &Route, facts: &Facts) -> Result<Rule, Fault> {
    let of_route = facts.get(ROUTE).and_then(route_name).ok_or_else(|| (ROUTE, "names no route".to_owned()))?;
    let mut filters = Filters {
        request_headers: fact_modifier(facts, REQUEST_HEADERS)?
            .or_else(|| modifier(&route.request_headers_to_add, &route.request_headers_to_remove)),
        response_headers: modifier(&route.response_headers_to_add, &route.response_headers_to_remove),
        ..Filters::default()
    };
    let mut backends = Vec::new();
    let calls = call_policy::policy(facts, facts.get(ROUTE).unwrap_or_default())?;
    match &route.action {
        Some(route::Action::Redirect(action)) => filters.redirect = Some(redirect(action)?),
        Some(route::Action::Route(action)) => {
            filters.rewrite = rewrite(action);
            let mirrors = action.request_mirror_policies.iter().enumerate();
            filters.mirrors =
                mirrors.map(|(number, policy)| mirror(policy, number, facts)).collect::<Result<_, _>>()?;
            let Some(ClusterSpecifier::WeightedClusters(weighted)) = &action.cluster_specifier else {
                return Err(("cluster_specifier", "is not a list with weights".to_owned()));
            };
            let clusters = weighted.clusters.iter().enumerate();
            backends = clusters.map(|(number, cluster)| backend(cluster, number, facts)).collect::<Result<_, _>>()?;
        }
        // The rule has no backends.
        Some(route::Action::DirectResponse(_)) => {}
        _ => return Err(("action", "is none that Leno writes".to_owned())),
    }
    let name = facts.get(RULE).map(Into::into);
    Ok(Rule { route: of_route, name, filters: filters.into(), backends: backends.into(), calls })
}

/// Parses `HTTPRoute namespace/name`.
fn route_name(text: &str) -> Option<RouteName> {
    let (kind, name) = text.split_once(' ')?;
    let (namespace, name) = name.split_once('/')?;
    let kind = RouteKind::OBJECTS.into_iter().chain([RouteKind::Service]).find(|known| known.name() == kind)?;
    Some(RouteName { kind, namespace: namespace.into(), name: name.into() })
}

fn modifier(options: &[HeaderValueOption], remove: &[String]) -> Option<HeaderModifier> {
    if options.is_empty() && remove.is_empty() {
        return None;
    }
    let of = |wanted: HeaderAppendAction| {
        let options = options.iter().filter(move |option| option.append_action == i32::from(wanted));
        let header = |option: &HeaderValueOption| {
            let header = option.header.as_ref()?;
            Some(Header { name: header.key.as_str().into(), value: header.value.replace("%%", "%").into() })
        };
        options.filter_map(header).collect()
    };
    Some(HeaderModifier {
        set: of(HeaderAppendAction::OverwriteIfExistsOrAdd),
        add: of(HeaderAppendAction::AppendIfExistsOrAdd),
        remove: remove.iter().map(|name| name.as_str().into()).collect(),
    })
}

/// Reads a modifier in the form of [`REQUEST_HEADERS`].
fn fact_modifier(facts: &Facts, name: &str) -> Result<Option<HeaderModifier>, Fault> {
    let modifier = facts.get(name).map(serde_json::from_str).transpose();
    modifier.map_err(|_| (REQUEST_HEADERS, "are not changes of header fields".to_owned()))
}

fn backend(cluster: &ClusterWeight, number: usize, facts: &Facts) -> Result<Backend, Fault> {
    let to = if cluster.name == NOWHERE {
        BackendTarget::Invalid(facts.get(&format!("{INVALID}{number}")).unwrap_or_default().into())
    } else {
        let key = cluster_key(&cluster.name);
        BackendTarget::Cluster(key.ok_or_else(|| ("clusters", "have a name that is no cluster's".to_owned()))?)
    };
    let hostname = cluster.host_rewrite_specifier.as_ref();
    let hostname = hostname.map(|cluster_weight::HostRewriteSpecifier::HostRewriteLiteral(host)| host.as_str().into());
    let full = facts.get(&format!("{BACKEND_PATH}{number}")).map(|path| PathRewrite::Full(path.into()));
    let prefix = || facts.get(&format!("{BACKEND_PREFIX}{number}")).map(|prefix| PathRewrite::Prefix(prefix.into()));
    let path = full.or_else(prefix);
    let mirrors = (0..).map_while(|place| facts.get(&format!("{BACKEND_MIRROR}{number}-{place}")));
    let request_headers = match facts.get(REQUEST_HEADERS) {
        Some(_) => fact_modifier(facts, &format!("{BACKEND_REQUEST_HEADERS}{number}"))?,
        None => modifier(&cluster.request_headers_to_add, &cluster.request_headers_to_remove),
    };
    Ok(Backend {
        to,
        weight: cluster.weight.map_or(0, |weight| weight.value),
        filters: Filters {
            request_headers,
            response_headers: modifier(&cluster.response_headers_to_add, &cluster.response_headers_to_remove),
            rewrite: (hostname.is_some() || path.is_some()).then_some(Rewrite { hostname, path }),
            mirrors: mirrors.map(backend_mirror).collect::<Result<_, _>>()?,
            ..Filters::default()
        },
    })
}

/// Reads a mirror in the form of [`BACKEND_MIRROR`].
fn backend_mirror(text: &str) -> Result<Mirror, Fault> {
    let (share, to) = text.split_once(' ').unzip();
    let to = to.and_then(cluster_key).ok_or_else(|| (BACKEND_MIRROR, "names no cluster".to_owned()))?;
    let (numerator, denominator) = read_share(share).ok_or_else(|| (BACKEND_MIRROR, "has no share".to_owned()))?;
    Ok(Mirror { to, numerator, denominator })
}

/// Parses a share such as `1/3`.
fn read_share(text: Option<&str>) -> Option<(u32, u32)> {
    let (numerator, denominator) = text?.split_once('/')?;
    Some((numerator.parse().ok()?, denominator.parse().ok().filter(|denominator| *denominator != 0)?))
}

fn mirror(policy: &RequestMirrorPolicy, number: usize, facts: &Facts) -> Result<Mirror, Fault> {
    let to = cluster_key(&policy.cluster);
    match (to, read_share(facts.get(&format!("{MIRROR}{number}")))) {
        (Some(to), Some((numerator, denominator))) => Ok(Mirror { to, numerator, denominator }),
        (None, _) => Err(("request_mirror_policies", "have a name that is no cluster's".to_owned())),
        (Some(_), _) => Err(("request_mirror_policies", "have no share".to_owned())),
    }
}

fn rewrite(action: &RouteAction) -> Option<Rewrite> {
    let hostname = match &action.host_rewrite_specifier {
        Some(HostRewriteSpecifier::HostRewriteLiteral(host)) => Some(host.as_str().into()),
        _ => None,
    };
    let path = match &action.regex_rewrite {
        Some(rewrite) => Some(path_of_regex(rewrite)),
        None if action.prefix_rewrite.is_empty() => None,
        None => Some(PathRewrite::Prefix(action.prefix_rewrite.as_str().into())),
    };
    (hostname.is_some() || path.is_some()).then_some(Rewrite { hostname, path })
}

/// Returns the path rewrite that Leno wrote as this regular expression. Envoy has no field for such a rewrite.
fn path_of_regex(rewrite: &RegexMatchAndSubstitute) -> PathRewrite {
    let is_whole = rewrite.pattern.as_ref().is_some_and(|pattern| pattern.regex == super::action::WHOLE_PATH);
    let path = rewrite.substitution.replace("\\\\", "\\").into();
    if is_whole { PathRewrite::Full(path) } else { PathRewrite::Prefix(path) }
}

fn redirect(action: &RedirectAction) -> Result<Redirect, Fault> {
    use redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier};
    let status = match RedirectResponseCode::try_from(action.response_code) {
        Ok(RedirectResponseCode::MovedPermanently) => 301,
        Ok(RedirectResponseCode::Found) => 302,
        Ok(RedirectResponseCode::SeeOther) => 303,
        Ok(RedirectResponseCode::TemporaryRedirect) => 307,
        Ok(RedirectResponseCode::PermanentRedirect) => 308,
        Err(_) => return Err(("response_code", "is unknown".to_owned())),
    };
    let scheme = match &action.scheme_rewrite_specifier {
        Some(SchemeRewriteSpecifier::SchemeRedirect(name)) => {
            let known = [Scheme::Http, Scheme::Https].into_iter().find(|scheme| scheme.name() == name);
            Some(known.ok_or_else(|| ("scheme_redirect", "is neither http nor https".to_owned()))?)
        }
        _ => None,
    };
    let path = match &action.path_rewrite_specifier {
        None => None,
        Some(PathRewriteSpecifier::PathRedirect(path)) => Some(PathRewrite::Full(path.as_str().into())),
        Some(PathRewriteSpecifier::PrefixRewrite(prefix)) => Some(PathRewrite::Prefix(prefix.as_str().into())),
        Some(PathRewriteSpecifier::RegexRewrite(rewrite)) => Some(path_of_regex(rewrite)),
        Some(PathRewriteSpecifier::PathRewrite(_)) => {
            return Err(("path_rewrite", "is none that Leno writes".to_owned()));
        }
    };
    let hostname = Some(action.host_redirect.as_str()).filter(|host| !host.is_empty()).map(Into::into);
    let port = u16::try_from(action.port_redirect).map_err(|_| ("port_redirect", "is no port".to_owned()))?;
    Ok(Redirect { scheme, hostname, port: Some(port).filter(|port| *port != 0), path, status })
}
