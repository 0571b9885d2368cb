//! Evaluates RBAC as Envoy and gRPC do, for the tests. It supports only what this crate writes.

use std::net::IpAddr;

use fastrand::Rng;
use leno_model::policy::{Caller, Network, Request};
use leno_model::route::Pattern;
use leno_model::spiffe::SpiffeId;

use crate::pb::matcher::{StringMatcher, path_matcher, string_matcher};
use crate::pb::rbac::{Permission, Policy, Principal, Rbac, permission, principal::Identifier};
use crate::pb::route::header_matcher::HeaderMatchSpecifier;

/// A call to a port.
#[derive(Debug)]
pub(super) struct Call {
    identity: Option<SpiffeId>,
    address: IpAddr,
    pub(super) port: u16,
    method: &'static str,
    path: &'static str,
    upgrade: bool,
}

impl Call {
    pub(super) fn random(random: &mut Rng) -> Self {
        let mut one = |of: &[&'static str]| random.choice(of.iter().copied()).expect("one");
        let identity = match one(&["cluster.local", "other.org", ""]) {
            "" => None,
            domain => {
                let (namespace, account) = (one(&["shop", "lab"]), one(&["web", "a.b", "axb"]));
                format!("spiffe://{domain}/ns/{namespace}/sa/{account}").parse().ok()
            }
        };
        let address = one(&["10.1.2.3", "192.168.7.20", "fd00::1", "::1"]).parse().expect("an address");
        let (method, path) = (one(&["GET", "POST"]), one(&["/healthz?a=/b", "/grpc.health.v1.Health/Check", "/"]));
        Self {
            identity,
            address,
            method,
            path,
            port: random.choice([80, 8080, 9090]).expect("one"),
            upgrade: random.bool(),
        }
    }

    pub(super) fn caller(&self) -> Caller<'_> {
        Caller { identity: self.identity.as_ref(), address: self.address }
    }

    pub(super) fn request(&self) -> Request<'_> {
        // Envoy's rules cannot match content, so requests with content are not compared.
        let has_content = false;
        Request { method: self.method.as_bytes(), path: self.path.as_bytes(), upgrade: self.upgrade, has_content }
    }

    pub(super) fn is_in(&self, rules: &Rbac) -> bool {
        let has = |policy: &Policy| {
            has_permission(policy, self.port) && policy.principals.iter().any(|principal| self.is(principal))
        };
        rules.policies.values().any(has)
    }

    fn is(&self, principal: &Principal) -> bool {
        match principal.identifier.as_ref().expect("a principal") {
            Identifier::AndIds(set) => set.ids.iter().all(|id| self.is(id)),
            Identifier::OrIds(set) => set.ids.iter().any(|id| self.is(id)),
            Identifier::NotId(id) => !self.is(id),
            Identifier::Any(any) => *any,
            Identifier::Authenticated(by) => {
                let name = by.principal_name.as_ref().expect("a name");
                self.identity.as_ref().is_some_and(|id| matches(name, &id.to_string()))
            }
            Identifier::DirectRemoteIp(range) => {
                let bits = range.prefix_len.as_ref().expect("a length").value;
                let network = format!("{}/{bits}", range.address_prefix).parse::<Network>();
                network.expect("a network").contains(self.address)
            }
            Identifier::UrlPath(path) => {
                let Some(path_matcher::Rule::Path(path)) = &path.rule else { panic!("no path") };
                matches(path, self.path.split('?').next().unwrap_or_default())
            }
            Identifier::Header(header) => match &header.header_match_specifier {
                Some(HeaderMatchSpecifier::PresentMatch(true)) if header.name == "upgrade" => self.upgrade,
                Some(HeaderMatchSpecifier::StringMatch(value)) if header.name == ":method" => {
                    matches(value, self.method)
                }
                other => panic!("{other:?} of {}", header.name),
            },
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn has_permission(policy: &Policy, port: u16) -> bool {
    policy.permissions.iter().any(|permission| is_for(permission, port))
}

fn is_for(given: &Permission, port: u16) -> bool {
    match given.rule.as_ref().expect("a permission") {
        permission::Rule::Any(any) => *any,
        permission::Rule::DestinationPort(of) => *of == u32::from(port),
        permission::Rule::OrRules(set) => set.rules.iter().any(|rule| is_for(rule, port)),
        permission::Rule::NotRule(rule) => !is_for(rule, port),
        other => panic!("{other:?}"),
    }
}

fn matches(matcher: &StringMatcher, text: &str) -> bool {
    match matcher.match_pattern.as_ref().expect("a pattern") {
        string_matcher::MatchPattern::Exact(exact) => exact == text,
        string_matcher::MatchPattern::SafeRegex(regex) => {
            Pattern::new(&regex.regex).expect("a regular expression").is_match(text.as_bytes())
        }
        other => panic!("{other:?}"),
    }
}
