//! Explains a decision: the policy that decides, the line of this policy that allows the caller, and the policy's other
//! lines.

use serde::{Deserialize, Serialize};

use super::{Allow, AuthorizationPolicy, Caller, Decision, Mode, PortPolicy, Request, Rule};
use crate::spiffe::TrustDomain;

/// Maximum number of a policy's lines in an explanation.
const LINES_MAX: usize = 16;
/// Maximum number of policies in an explanation.
const POLICIES_MAX: usize = 16;

/// A decision about a call to one port, and its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortExplanation {
    pub verdict: Verdict,
    pub decided_by: DecidedBy,
    /// The reason for the verdict `Denied` or `Audited`; `None` for `Allowed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The default inbound policy of the proxy.
    pub default_policy: String,
    /// The policies that select the port, at most 16. If one of them is enforced, the list contains only enforced
    /// policies.
    #[serde(default)]
    pub policies: Vec<PolicyLines>,
    /// Number of further policies.
    #[serde(default)]
    pub omitted: usize,
}

/// The result of a decision: whether the proxy allows the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Allowed,
    /// The call is allowed and logged, because a policy in audit mode, or the default policy `audit`, would deny the
    /// call.
    Audited,
    Denied,
}

/// The policy or probe that determines the verdict about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// An AuthorizationPolicy with this name, for example `shop/cart`. The policy allows the call or, if the call is
    /// denied, is the policy that the reason names.
    AuthorizationPolicy(String),
    /// The default inbound policy with this name.
    Default(String),
    /// The call is a probe that the Pod's spec lists, so no policy applies to the call.
    Probe,
}

/// A policy and its lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLines {
    /// The policy's namespace and name, for example `shop/cart`.
    pub name: String,
    /// The ports and workloads that the policy selects, in words.
    pub target: String,
    /// `Enforce`, `Audit` or `Unreadable`.
    pub mode: String,
    /// The first line that allows the call; `None` if no line allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_by: Option<Line>,
    /// The lines of the policy, at most 16.
    #[serde(default)]
    pub lines: Vec<Line>,
    /// Number of further lines.
    #[serde(default)]
    pub omitted: usize,
}

/// A line of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The field's path, for example `spec.allow[1].identities[0]`.
    pub field: String,
    /// The value, for example `ns/shop/sa/web`. For a rule with identities and networks, both values.
    pub value: String,
}

impl PortPolicy {
    /// Explains what [`PortPolicy::authorize`] decides about this call.
    pub fn explain(&self, caller: &Caller<'_>, request: &Request<'_>) -> PortExplanation {
        let decision = self.authorize(caller, Some(request));
        let shown = self.policies.iter().take(POLICIES_MAX);
        let policies: Vec<_> = shown.map(|policy| policy.explain(caller, request, &self.trust_domain)).collect();
        let name = |policy: &AuthorizationPolicy| format!("{}/{}", policy.namespace, policy.name);
        let default = || DecidedBy::Default(self.default.name().to_owned());
        let listing = || self.policies.iter().find(|policy| policy.lists(caller, Some(request), &self.trust_domain));
        let (verdict, decided_by) = match &decision {
            // `authorize` allows the call, but the policies alone would not: the call is a probe.
            Decision::Allow if self.decide(caller, Some(request)) != Decision::Allow => {
                (Verdict::Allowed, DecidedBy::Probe)
            }
            Decision::Allow => {
                let by = listing().filter(|_| self.is_enforced).map(|policy| name(policy));
                (Verdict::Allowed, by.map_or_else(default, DecidedBy::AuthorizationPolicy))
            }
            Decision::AllowAudited(_) => (Verdict::Audited, default()),
            Decision::Deny(super::Reason::NoRule { policy, .. }) => {
                (Verdict::Denied, DecidedBy::AuthorizationPolicy(name(policy)))
            }
            Decision::Deny(super::Reason::Default(_) | super::Reason::Private) => (Verdict::Denied, default()),
        };
        let reason = match decision {
            Decision::Allow => None,
            Decision::AllowAudited(reason) | Decision::Deny(reason) => Some(reason.to_string()),
        };
        PortExplanation {
            verdict,
            decided_by,
            reason,
            default_policy: self.default.name().to_owned(),
            omitted: self.policies.len() - policies.len(),
            policies,
        }
    }
}

impl AuthorizationPolicy {
    fn explain(&self, caller: &Caller<'_>, request: &Request<'_>, own: &TrustDomain) -> PolicyLines {
        // `lists` is fast, because it uses an index, but it does not return the line. Scan the lines only if `lists`
        // returns true.
        let is_listed = self.lists(caller, Some(request), own);
        let health_checks = self.health_checks.iter().enumerate();
        let check = |(place, path): (usize, &super::HealthPath)| Line {
            field: format!("spec.healthChecks[{place}]"),
            value: format!("every caller to {path}"),
        };
        let health_check = || health_checks.clone().find(|(_, path)| path.matches(request)).map(check);
        let allowed_by = if is_listed { self.allow.line(caller, own).or_else(health_check) } else { None };
        let all = self.allow.lines().chain(health_checks.clone().map(check));
        let lines: Vec<Line> = all.take(LINES_MAX).collect();
        PolicyLines {
            name: format!("{}/{}", self.namespace, self.name),
            target: self.target(),
            mode: match self.mode {
                Mode::Enforce => "Enforce",
                Mode::Unreadable => "Unreadable",
                Mode::Audit => "Audit",
            }
            .to_owned(),
            allowed_by,
            omitted: self.allow.lines().count() + self.health_checks.len() - lines.len(),
            lines,
        }
    }
}

impl Allow {
    /// Returns the first line that allows the caller. Scans all lines.
    fn line(&self, caller: &Caller<'_>, own: &TrustDomain) -> Option<Line> {
        self.iter().enumerate().find_map(|(place, rule)| rule.line(place, caller, own))
    }

    /// Returns one line for each identity and for each network. A rule with both is a single line.
    fn lines(&self) -> impl Iterator<Item = Line> {
        self.iter().enumerate().flat_map(|(place, rule)| rule.lines(place))
    }
}

impl Rule {
    fn line(&self, place: usize, caller: &Caller<'_>, own: &TrustDomain) -> Option<Line> {
        let identities = self.identities.as_deref().map(|identities| {
            let holds_caller = |identities: &super::Identities| {
                caller.identity.is_some_and(|identity| identities.contain(identity, own))
            };
            identities.iter().position(holds_caller)
        });
        let networks = self
            .networks
            .as_deref()
            .map(|networks| networks.iter().position(|network| network.contains(caller.address.to_canonical())));
        match (identities, networks) {
            (Some(Some(identity)), None) => self.lines(place).into_iter().nth(identity),
            (None, Some(Some(network))) => self.lines(place).into_iter().nth(network),
            (Some(Some(_)), Some(Some(_))) => self.lines(place).into_iter().next(),
            _ => None,
        }
    }

    fn lines(&self, place: usize) -> Vec<Line> {
        let each = |field: &str, values: Vec<String>| {
            let line = |(member, value)| Line { field: format!("spec.allow[{place}].{field}[{member}]"), value };
            values.into_iter().enumerate().map(line).collect()
        };
        let texts = |values: &[String]| values.join(" or ");
        let identities = self.identities.as_deref().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        let networks = self.networks.as_deref().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        match (identities, networks) {
            (Some(identities), None) => each("identities", identities),
            (None, Some(networks)) => each("networks", networks),
            (Some(identities), Some(networks)) => {
                let value = format!("{} from {}", texts(&identities), texts(&networks));
                vec![Line { field: format!("spec.allow[{place}]"), value }]
            }
            (None, None) => Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
