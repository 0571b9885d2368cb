//! Who may call whom: a pure decision for each connection and each request that comes in.
//!
//! An [`AuthorizationPolicy`] is a list of who may call the workloads that it selects. Where none is enforced on a port,
//! the proxy's [`DefaultInboundPolicy`] decides; where one is, whatever no rule of any of them allows is denied. Policies
//! only ever add to the list, so their order does not matter. One in audit mode changes nothing but the log.

mod decision;
mod default;
mod health;
mod identities;
mod network;

use std::net::IpAddr;
use std::sync::Arc;

pub use decision::{Decision, Reason};
pub use default::{DefaultInboundPolicy, UnknownDefault};
pub use health::{BadPath, HealthPath};
pub use identities::{BadIdentities, Identities};
pub use network::{BadNetwork, Network};
use serde::Serialize;

use crate::spiffe::{SpiffeId, TrustDomain, Workload};

/// Who may call some workloads of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuthorizationPolicy {
    /// Its namespace, which is also that of the workloads.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// The service account of the workloads; `None` for every workload of the namespace.
    pub service_account: Option<Box<str>>,
    /// The ports that it is about, as the workload listens on them; `None` for all.
    pub ports: Option<Box<[u16]>>,
    /// Whether it is in force.
    pub mode: Mode,
    /// Who may call. Nobody, if it is empty.
    pub allow: Box<[Rule]>,
    /// What everybody may ask for.
    pub health_checks: Box<[HealthPath]>,
}

/// Whether a policy is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub enum Mode {
    /// What no rule allows is denied.
    #[default]
    Enforce,
    /// What would be denied is told, and goes on as if the policy did not exist.
    Audit,
}

/// Some callers. A rule that names neither identities nor networks allows nobody, so that omission opens nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The caller must be one of these; `None` if its identity, or that it has none, does not matter.
    pub identities: Option<Box<[Identities]>>,
    /// The caller's address must be in one of these; `None` if it does not matter.
    pub networks: Option<Box<[Network]>>,
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// What its certificate says, which mutual TLS has verified; `None` without one.
    pub identity: Option<&'a SpiffeId>,
    /// Where the connection comes from.
    pub address: IpAddr,
}

/// What an HTTP caller asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The path, with its query.
    pub path: &'a [u8],
    /// Whether it would turn the connection into something else, whose requests nobody would check.
    pub upgrade: bool,
    /// Whether content may follow the header section: the request did not end with it.
    pub has_content: bool,
}

/// What decides over calls to one port of one workload. Cheap to clone; a new mesh may have another.
#[derive(Clone, Debug)]
pub struct PortPolicy {
    trust_domain: TrustDomain,
    default: DefaultInboundPolicy,
    /// Those that select the port; if one is enforced, only the enforced ones.
    policies: Arc<[Arc<AuthorizationPolicy>]>,
    mode: Mode,
}

impl PortPolicy {
    /// What decides over calls to `port` of the workload `own`, if these are the policies of its namespace.
    pub(crate) fn new<'a>(
        policies: impl IntoIterator<Item = &'a Arc<AuthorizationPolicy>>,
        own: &SpiffeId,
        port: u16,
        default: DefaultInboundPolicy,
    ) -> Self {
        let mut selecting: Vec<&Arc<AuthorizationPolicy>> =
            policies.into_iter().filter(|policy| policy.selects(&own.workload, port)).collect();
        let is_enforced = |policy: &&Arc<AuthorizationPolicy>| policy.mode == Mode::Enforce;
        let mode = if selecting.iter().any(is_enforced) { Mode::Enforce } else { Mode::Audit };
        selecting.retain(|policy| policy.mode == mode);
        let policies = selecting.into_iter().cloned().collect();
        Self { trust_domain: own.trust_domain.clone(), default, policies, mode }
    }

    /// Whether `caller` may do this. Without a request, whether it may do anything at all on this port, as a
    /// connection whose content is not read does.
    pub fn authorize(&self, caller: &Caller<'_>, request: Option<&Request<'_>>) -> Decision {
        let default = || self.default.decide(caller, &self.trust_domain);
        let Some((first, others)) = self.policies.split_first() else {
            return default();
        };
        let is_listed = self.policies.iter().any(|policy| policy.lists(caller, request, &self.trust_domain));
        let reason = || Reason::NoRule { policy: Arc::clone(first), others: others.len() };
        match self.mode {
            Mode::Enforce if is_listed => Decision::Allow,
            Mode::Enforce => Decision::Deny(reason()),
            // What is not in force cannot allow what the default denies.
            Mode::Audit => match default() {
                Decision::Deny(reason) => Decision::Deny(reason),
                _ if is_listed => Decision::Allow,
                _ => Decision::AllowAudited(reason()),
            },
        }
    }

    /// The first of the policies in force; none where the default policy decides.
    pub fn enforced(&self) -> Option<&AuthorizationPolicy> {
        self.policies.first().filter(|_| self.mode == Mode::Enforce).map(|policy| &**policy)
    }

    /// Whether some request of `caller` may be allowed: if not, its connection can be closed before it is read.
    pub fn may_allow(&self, caller: &Caller<'_>) -> bool {
        let has_health_checks = || self.policies.iter().any(|policy| !policy.health_checks.is_empty());
        !matches!(self.authorize(caller, None), Decision::Deny(_))
            || (self.mode == Mode::Enforce && has_health_checks())
    }
}

impl AuthorizationPolicy {
    /// Whether it is about `port` of `workload`.
    pub fn selects(&self, workload: &Workload, port: u16) -> bool {
        self.namespace == workload.namespace
            && self.selects_account(&workload.service_account)
            && self.ports.as_deref().is_none_or(|ports| ports.contains(&port))
    }

    /// Whether it is about some port of the workloads of its namespace that run as that service account.
    pub fn selects_account(&self, service_account: &str) -> bool {
        self.service_account.as_deref().is_none_or(|account| account == service_account)
    }

    /// Whether some port of some workload may be selected by both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let account = self.service_account.as_deref().zip(other.service_account.as_deref());
        let ports = self.ports.as_deref().zip(other.ports.as_deref());
        self.namespace == other.namespace
            && account.is_none_or(|(a, b)| a == b)
            && ports.is_none_or(|(a, b)| a.iter().any(|port| b.contains(port)))
    }

    fn lists(&self, caller: &Caller<'_>, request: Option<&Request<'_>>, own: &TrustDomain) -> bool {
        let is_health_check = |request: &Request<'_>| self.health_checks.iter().any(|path| path.matches(request));
        self.allow.iter().any(|rule| rule.allows(caller, own)) || request.is_some_and(is_health_check)
    }
}

impl Rule {
    fn allows(&self, caller: &Caller<'_>, own: &TrustDomain) -> bool {
        let by_identity = |all: &[Identities]| {
            caller.identity.is_some_and(|identity| all.iter().any(|some| some.contain(identity, own)))
        };
        let by_network = |all: &[Network]| all.iter().any(|network| network.contains(caller.address));
        let names_any = self.identities.is_some() || self.networks.is_some();
        names_any
            && self.identities.as_deref().is_none_or(by_identity)
            && self.networks.as_deref().is_none_or(by_network)
    }
}

#[cfg(test)]
mod tests;
