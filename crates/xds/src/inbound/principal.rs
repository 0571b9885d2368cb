//! Allowed callers as RBAC principals, from rules and from health checks.

use leno_model::policy::{HealthPath, Identities, Network, Rule};
use leno_model::spiffe::TrustDomain;

use crate::matcher::{escaped, exactly, header, pattern};
use crate::pb::core::CidrRange;
use crate::pb::matcher::{PathMatcher, StringMatcher, path_matcher, string_matcher};
use crate::pb::rbac::Principal;
use crate::pb::rbac::principal::{Authenticated, Identifier, Set};
use crate::pb::route::{HeaderMatcher, header_matcher};
use crate::proto::uint32;

/// Regular expression that matches any one part of a SPIFFE id.
const ANY_PART: &str = "[^/]+";
/// The wildcard in a policy; it matches any name.
const ANY: &str = "*";

/// Returns a principal that matches every caller, with or without an identity.
pub(super) fn anybody() -> Principal {
    principal(Identifier::Any(true))
}

/// Returns a principal that matches no caller.
pub(super) fn nobody() -> Principal {
    principal(Identifier::NotId(Box::new(anybody())))
}

/// Returns a principal for the callers that a rule allows: callers with one of the rule's identities that call from one
/// of the rule's networks.
pub(super) fn of_rule(rule: &Rule, own: &TrustDomain) -> Principal {
    let identities = rule.identities.as_deref().map(|all| all.iter().map(|some| of_identities(some, own)).collect());
    let networks = rule.networks.as_deref().map(|all| all.iter().map(of_network).collect());
    match (identities, networks) {
        // A rule with neither identities nor networks allows no caller.
        (None, None) => all_of(vec![nobody(), nobody()]),
        (identities, networks) => all_of(vec![one_of(identities), one_of(networks)]),
    }
}

/// Returns a principal for every caller that requests this path without asking for an upgrade.
pub(super) fn of_health_check(path: &HealthPath) -> Principal {
    let rule = Some(path_matcher::Rule::Path(exactly(&path.to_string())));
    let upgrade = HeaderMatcher {
        name: "upgrade".to_owned(),
        header_match_specifier: Some(header_matcher::HeaderMatchSpecifier::PresentMatch(true)),
        ..Default::default()
    };
    all_of(vec![
        principal(Identifier::UrlPath(PathMatcher { rule })),
        principal(Identifier::Header(header(":method", exactly(path.method())))),
        principal(Identifier::NotId(Box::new(principal(Identifier::Header(upgrade))))),
    ])
}

/// Reads a rule. Checks only the parts that it reads; `rbac::read` compares the whole entry.
pub(super) fn read_rule(given: &Principal, own: &TrustDomain) -> Option<Rule> {
    let [identities, networks] = set(given)? else { return None };
    if *identities == nobody() && *networks == nobody() {
        return Some(Rule { identities: None, networks: None });
    }
    Some(Rule {
        identities: read_list(identities, |one| read_identities(one, own))?,
        networks: read_list(networks, read_network)?,
    })
}

/// Reads a health check's path. Checks only the parts that it reads; `rbac::read` compares the whole entry.
pub(super) fn read_health_check(given: &Principal) -> Option<HealthPath> {
    match set(given)?.first()?.identifier.as_ref()? {
        Identifier::UrlPath(PathMatcher { rule: Some(path_matcher::Rule::Path(path)) }) => match &path.match_pattern {
            Some(string_matcher::MatchPattern::Exact(path)) => path.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn principal(identifier: Identifier) -> Principal {
    Principal { identifier: Some(identifier) }
}

fn all_of(ids: Vec<Principal>) -> Principal {
    principal(Identifier::AndIds(Set { ids }))
}

/// Returns a principal that matches if any principal in the list matches. Without a list, it matches every caller.
fn one_of(list: Option<Vec<Principal>>) -> Principal {
    match list {
        None => anybody(),
        // RBAC rejects an empty set.
        Some(empty) if empty.is_empty() => principal(Identifier::OrIds(Set { ids: vec![nobody()] })),
        Some(ids) => principal(Identifier::OrIds(Set { ids })),
    }
}

/// Returns the list of principals that [`all_of`] combined into this principal.
fn set(given: &Principal) -> Option<&[Principal]> {
    match &given.identifier {
        Some(Identifier::AndIds(set)) => Some(&set.ids),
        _ => None,
    }
}

/// Reads a list that [`one_of`] wrote.
fn read_list<T>(given: &Principal, read: impl Fn(&Principal) -> Option<T>) -> Option<Option<Box<[T]>>> {
    match given.identifier.as_ref()? {
        Identifier::Any(true) => Some(None),
        Identifier::OrIds(Set { ids }) if ids[..] == [nobody()] => Some(Some(Box::default())),
        Identifier::OrIds(Set { ids }) => ids.iter().map(read).collect::<Option<_>>().map(Some),
        _ => None,
    }
}

/// Returns a principal for certificates with one of these identities. An exact identity of the workload's own trust
/// domain becomes an exact match. If the policy itself names a trust domain, the pattern has the trust domain in a
/// group, so that [`read_identities`] can distinguish it from the workload's own trust domain.
fn of_identities(identities: &Identities, own: &TrustDomain) -> Principal {
    let part = |name: &Option<Box<str>>| name.as_deref().map_or_else(|| ANY_PART.to_owned(), escaped);
    let id = match identities {
        Identities::Any => pattern(format!("spiffe://{ANY_PART}/ns/{ANY_PART}/sa/{ANY_PART}")),
        Identities::Of { trust_domain: None, namespace: Some(namespace), service_account: Some(account) } => {
            exactly(&format!("spiffe://{own}/ns/{namespace}/sa/{account}"))
        }
        Identities::Of { trust_domain, namespace, service_account } => {
            let domain = match trust_domain {
                None => escaped(own.as_str()),
                Some(named) => format!("(?:{})", escaped(named.as_str())),
            };
            pattern(format!("spiffe://{domain}/ns/{}/sa/{}", part(namespace), part(service_account)))
        }
    };
    principal(Identifier::Authenticated(Authenticated { principal_name: Some(id) }))
}

fn read_identities(given: &Principal, own: &TrustDomain) -> Option<Identities> {
    let Some(Identifier::Authenticated(Authenticated { principal_name: Some(id) })) = &given.identifier else {
        return None;
    };
    let id = unescaped(id)?;
    let (domain, workload) = id.strip_prefix("spiffe://")?.split_once('/')?;
    if domain == ANY {
        return Some(Identities::Any);
    }
    match domain.strip_prefix("(?:").and_then(|rest| rest.strip_suffix(')')) {
        Some(named) => format!("spiffe://{named}/{workload}").parse().ok(),
        None if domain == own.as_str() => workload.parse().ok(),
        None => None,
    }
}

/// Converts a matcher back to the text of an identity in a policy: without escapes, and with `*` as the wildcard.
fn unescaped(matcher: &StringMatcher) -> Option<String> {
    match matcher.match_pattern.as_ref()? {
        string_matcher::MatchPattern::Exact(text) => Some(text.clone()),
        string_matcher::MatchPattern::SafeRegex(regex) => Some(regex.regex.replace(ANY_PART, ANY).replace("\\.", ".")),
        _ => None,
    }
}

/// Returns a principal for source addresses in this network. It matches the connection's source address, and ignores
/// addresses in request headers.
fn of_network(network: &Network) -> Principal {
    principal(Identifier::DirectRemoteIp(CidrRange {
        address_prefix: network.first().to_string(),
        prefix_len: Some(uint32(network.prefix_bits().into())),
    }))
}

fn read_network(given: &Principal) -> Option<Network> {
    match given.identifier.as_ref()? {
        Identifier::DirectRemoteIp(CidrRange { address_prefix, prefix_len: Some(bits) }) => {
            format!("{address_prefix}/{}", bits.value).parse().ok()
        }
        _ => None,
    }
}
