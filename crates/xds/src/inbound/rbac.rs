//! Policies as an RBAC filter, for Envoy and gRPC (gRFC A41).
//!
//! The enforced policies are the filter's rules: a caller is allowed if at least one of them allows it. The policies in
//! audit mode are the filter's shadow rules, which deny no call.
//!
//! A policy is one entry named `namespace/name`. Its permissions are the policy's ports, and its principals are the
//! policy's rules and health checks. An unreadable policy's principals match no caller.
//!
//! One more entry, `default`, allows every caller on ports that no policy selects, because the default inbound policy
//! decides on these ports. No policy's entry can have this name.

use std::collections::BTreeSet;
use std::sync::Arc;

use leno_model::policy::{AuthorizationPolicy, Mode};
use leno_model::spiffe::{TrustDomain, is_name};
use prost::{Message, Name};

use super::EVERY;
use super::principal::{self, anybody, nobody};
use crate::facts::{Facts, TARGET, UNREADABLE};
use crate::limits::POLICIES_MAX;
use crate::pb::rbac::{Permission, Policy, Principal, Rbac, permission, rbac};
use crate::pb::{Any, RbacFilter};

/// The entry for ports that no policy selects.
const DEFAULT: &str = "default";

/// An error: the name of the invalid field, and what is wrong with it.
pub(super) type Fault = (&'static str, String);

/// The name of a policy's entry.
pub(super) fn name(policy: &AuthorizationPolicy) -> String {
    format!("{}/{}", policy.namespace, policy.name)
}

pub(super) fn write(policies: &[&AuthorizationPolicy], trust_domain: &TrustDomain) -> Any {
    let of = |is_enforced| policies.iter().copied().filter(move |policy| policy.mode.is_enforced() == is_enforced);
    let (enforced, audited) = (selected_ports(of(true)), selected_ports(of(false)));
    let everywhere_but = |ports: &Option<BTreeSet<u16>>| ports.as_ref().map(none_of);
    // On a port with an enforced policy, audited policies have no effect. So the shadow rules allow every caller on
    // these ports, and on ports without an audited policy.
    let unaudited = everywhere_but(&audited).into_iter().chain(match &enforced {
        None => vec![any_port()],
        Some(ports) => ports.iter().copied().map(port).collect(),
    });
    // Equal resources must have equal bytes, but the entries of a map in one message would have any order. So encode
    // each entry as a message of its own: a decoder merges concatenated messages into one message with all fields
    // (Protobuf encoding, "Last One Wins").
    let mut bytes = Vec::new();
    for (name, entry) in entries(of(true), everywhere_but(&enforced).into_iter(), trust_domain) {
        bytes.extend(RbacFilter { rules: Some(set_of(name, entry)), ..Default::default() }.encode_to_vec());
    }
    for (name, entry) in entries(of(false), unaudited, trust_domain) {
        bytes.extend(RbacFilter { shadow_rules: Some(set_of(name, entry)), ..Default::default() }.encode_to_vec());
    }
    Any { type_url: RbacFilter::type_url(), value: bytes }
}

/// Returns the entries of the policies, and an entry that allows every caller on the ports in `left`. Returns no
/// entries if there are no policies.
fn entries<'a>(
    policies: impl Iterator<Item = &'a AuthorizationPolicy>,
    left: impl Iterator<Item = Permission>,
    trust_domain: &TrustDomain,
) -> Vec<(String, Policy)> {
    let mut entries: Vec<_> = policies.map(|policy| (name(policy), entry(policy, trust_domain))).collect();
    let permissions: Vec<Permission> = left.collect();
    if !entries.is_empty() && !permissions.is_empty() {
        entries.push((DEFAULT.to_owned(), Policy { permissions, principals: vec![anybody()], ..Default::default() }));
    }
    entries
}

fn set_of(name: String, entry: Policy) -> Rbac {
    Rbac { action: rbac::Action::Allow.into(), policies: [(name, entry)].into(), ..Default::default() }
}

/// Returns the ports that any of the policies selects; `None` for all ports.
fn selected_ports<'a>(policies: impl Iterator<Item = &'a AuthorizationPolicy>) -> Option<BTreeSet<u16>> {
    let lists: Option<Vec<&[u16]>> = policies.map(|policy| policy.ports.as_deref()).collect();
    Some(lists?.into_iter().flatten().copied().collect())
}

fn entry(policy: &AuthorizationPolicy, trust_domain: &TrustDomain) -> Policy {
    let permissions = match policy.ports.as_deref() {
        None => vec![any_port()],
        Some([]) => vec![no_port()],
        Some(ports) => ports.iter().copied().map(port).collect(),
    };
    let rules = policy.allow.iter().map(|rule| principal::of_rule(rule, trust_domain));
    let principals: Vec<Principal> = rules.chain(policy.health_checks.iter().map(principal::of_health_check)).collect();
    // RBAC rejects an entry without principals.
    let principals = if principals.is_empty() { vec![nobody()] } else { principals };
    Policy { permissions, principals, ..Default::default() }
}

fn permission(rule: permission::Rule) -> Permission {
    Permission { rule: Some(rule) }
}

fn port(port: u16) -> Permission {
    permission(permission::Rule::DestinationPort(port.into()))
}

fn any_port() -> Permission {
    permission(permission::Rule::Any(true))
}

fn no_port() -> Permission {
    permission(permission::Rule::NotRule(Box::new(any_port())))
}

fn none_of(ports: &BTreeSet<u16>) -> Permission {
    if ports.is_empty() {
        return any_port();
    }
    let rules = ports.iter().copied().map(port).collect();
    let any_of_them = permission(permission::Rule::OrRules(permission::Set { rules }));
    permission(permission::Rule::NotRule(Box::new(any_of_them)))
}

pub(super) fn read(
    filter: &RbacFilter,
    trust_domain: &TrustDomain,
    facts: &Facts,
) -> Result<Vec<Arc<AuthorizationPolicy>>, Fault> {
    if filter.matcher.is_some() || filter.shadow_matcher.is_some() {
        return Err(("matcher", "is none that Leno writes".to_owned()));
    }
    let sets = [(&filter.rules, Mode::Enforce), (&filter.shadow_rules, Mode::Audit)];
    let mut policies = Vec::new();
    for (set, mode) in sets.into_iter().filter_map(|(set, mode)| Some((set.as_ref()?, mode))) {
        if set.action != i32::from(rbac::Action::Allow) {
            return Err(("action", "is not ALLOW".to_owned()));
        }
        for (name, given) in set.policies.iter().filter(|(name, _)| *name != DEFAULT) {
            if policies.len() >= POLICIES_MAX {
                return Err(("policies", format!("are more than {POLICIES_MAX}")));
            }
            let policy = read_entry(name, given, mode, trust_domain, facts)
                .ok_or_else(|| ("policies", format!("{}: is no policy that Leno writes", name.escape_debug())))?;
            policies.push(Arc::new(policy));
        }
    }
    policies.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    if policies.windows(2).any(|pair| matches!(pair, [a, b] if a.namespace == b.namespace && a.name == b.name)) {
        return Err(("policies", "are enforced and audited at once".to_owned()));
    }
    Ok(policies)
}

fn read_entry(
    name: &str,
    given: &Policy,
    mode: Mode,
    trust_domain: &TrustDomain,
    facts: &Facts,
) -> Option<AuthorizationPolicy> {
    let (namespace, own_name) = name.split_once('/').filter(|(a, b)| is_name(a) && is_name(b))?;
    let service_account = match facts.get(&format!("{TARGET}{name}"))? {
        EVERY => None,
        account if is_name(account) => Some(account.into()),
        _ => return None,
    };
    let principals = if given.principals[..] == [nobody()] { &[] } else { &given.principals[..] };
    let (mut allow, mut health_checks) = (Vec::new(), Vec::new());
    for given in principals {
        match principal::read_health_check(given) {
            Some(path) => health_checks.push(path),
            None => allow.push(principal::read_rule(given, trust_domain)?),
        }
    }
    let mode = if facts.get(&format!("{UNREADABLE}{name}")).is_some() { Mode::Unreadable } else { mode };
    let policy = AuthorizationPolicy {
        namespace: namespace.into(),
        name: own_name.into(),
        service_account,
        ports: read_ports(&given.permissions)?,
        mode,
        allow: allow.into(),
        health_checks: health_checks.into(),
    };
    // Reject an entry that differs from the entry that we would write for `policy`. The difference may be a condition
    // of the entry that `policy` lacks. Without this condition, the proxy would allow too many calls.
    (entry(&policy, trust_domain) == *given).then_some(policy)
}

fn read_ports(permissions: &[Permission]) -> Option<Option<Box<[u16]>>> {
    if permissions == [any_port()] {
        return Some(None);
    }
    if permissions == [no_port()] {
        return Some(Some(Box::default()));
    }
    let port = |permission: &Permission| match permission.rule {
        Some(permission::Rule::DestinationPort(port)) => u16::try_from(port).ok(),
        _ => None,
    };
    permissions.iter().map(port).collect::<Option<_>>().map(Some)
}
