//! Authorization: decides whether each incoming connection and request is allowed. A decision is a pure function of the
//! policies, the caller and the request.
//!
//! An [`AuthorizationPolicy`] lists the callers that may call the workloads that it selects. If no policy is enforced
//! on a port, the proxy's [`DefaultInboundPolicy`] decides. If policies are enforced on the port, the proxy allows only
//! the calls that a rule of one of these policies allows. Each further policy only extends the list of allowed callers,
//! so the order of the policies does not matter. A policy in audit mode changes only the log.

mod allow;
mod decision;
mod default;
mod explain;
mod health;
mod identities;
mod network;
mod probe;

use std::net::IpAddr;
use std::sync::Arc;

pub use allow::Allow;
pub use decision::{Decision, Reason};
pub use default::{DefaultInboundPolicy, UnknownDefault};
pub use explain::{DecidedBy, Line, PolicyLines, PortExplanation, Verdict};
pub use health::{BadPath, GRPC_HEALTH_CHECK, HealthPath};
pub use identities::{BadIdentities, Identities};
pub use network::{BadNetwork, Network};
pub use probe::{BadProbe, PortProbes, Probe, Probes};
use serde::Serialize;

use crate::spiffe::{SpiffeId, TrustDomain, Workload};

/// An AuthorizationPolicy: selects workloads of its namespace, and lists their allowed callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuthorizationPolicy {
    /// The policy's namespace, which is also the workloads' namespace.
    pub namespace: Box<str>,
    pub name: Box<str>,
    /// The service account of the workloads; `None` for every workload of the namespace.
    pub service_account: Option<Box<str>>,
    /// The selected ports: numbers on which the workload listens, not ports of a Service. `None` for all ports.
    pub ports: Option<Box<[u16]>>,
    pub mode: Mode,
    /// The allowed callers. An empty list allows no caller.
    pub allow: Allow,
    /// Paths that every caller may request.
    pub health_checks: Box<[HealthPath]>,
}

/// The mode of an [`AuthorizationPolicy`]: whether it denies calls or only logs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub enum Mode {
    /// The proxy denies the calls that no rule of an enforced policy allows.
    #[default]
    Enforce,
    /// The policy cannot be read, and allows no caller until it is corrected.
    Unreadable,
    /// The proxy logs the calls that the policy would deny, and otherwise decides as if the policy did not exist.
    Audit,
}

/// A rule that allows some callers. A rule without identities and networks allows no caller, so that a forgotten field
/// never allows more callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The caller must have one of these identities; `None` for any caller, with or without an identity.
    pub identities: Option<Box<[Identities]>>,
    /// The caller's address must be in one of these networks; `None` for any address.
    pub networks: Option<Box<[Network]>>,
}

/// The caller of a connection or request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The identity in the caller's certificate, verified by mutual TLS; `None` without a certificate.
    pub identity: Option<&'a SpiffeId>,
    /// The source address of the connection.
    pub address: IpAddr,
}

/// The parts of an HTTP request that policies check.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: &'a [u8],
    /// The path with its query.
    pub path: &'a [u8],
    /// Whether the request asks to switch the connection to another protocol. Requests in that protocol would not be
    /// checked.
    pub upgrade: bool,
    /// Whether the request may have content, because it did not end with its header section.
    pub has_content: bool,
}

/// Decides whether callers may call one port of one workload. Cheap to clone. A [`PortPolicy`] never changes: create a
/// new one after a change of the policies.
#[derive(Clone, Debug)]
pub struct PortPolicy {
    trust_domain: TrustDomain,
    default: DefaultInboundPolicy,
    /// The policies that select the port. If any of them is enforced, this list has only the enforced policies.
    policies: Arc<[Arc<AuthorizationPolicy>]>,
    is_enforced: bool,
    /// Whether the port serves private data of the proxy.
    is_private: bool,
    probes: PortProbes,
}

impl PortPolicy {
    /// Creates the policy for `port` of the workload `own`. `policies` are the policies of the workload's namespace.
    pub(crate) fn new<'a>(
        policies: impl IntoIterator<Item = &'a Arc<AuthorizationPolicy>>,
        own: &SpiffeId,
        port: u16,
        default: DefaultInboundPolicy,
    ) -> Self {
        let mut selecting: Vec<&Arc<AuthorizationPolicy>> =
            policies.into_iter().filter(|policy| policy.selects(&own.workload, port)).collect();
        let is_enforced = selecting.iter().any(|policy| policy.mode.is_enforced());
        selecting.retain(|policy| policy.mode.is_enforced() == is_enforced);
        let policies = selecting.into_iter().cloned().collect();
        let (trust_domain, probes) = (own.trust_domain.clone(), PortProbes::default());
        Self { trust_domain, default, policies, is_enforced, is_private: false, probes }
    }

    /// Creates the policy for a `port` of the workload `own` at which the proxy itself serves private data.
    ///
    /// A call is allowed only by an enforced policy that lists this port, and only by a rule with identities. Policies
    /// without a list of ports are ignored, because their authors meant the ports of the application. Rules without
    /// identities, and health checks, are ignored, because they allow callers without an identity.
    pub(crate) fn private<'a>(
        policies: impl IntoIterator<Item = &'a Arc<AuthorizationPolicy>>,
        own: &SpiffeId,
        port: u16,
    ) -> Self {
        let naming = policies.into_iter().filter(|policy| policy.ports.is_some() && policy.mode.is_enforced());
        let by_identity: Vec<_> = naming.map(|policy| Arc::new(policy.by_identity())).collect();
        Self { is_private: true, ..Self::new(&by_identity, own, port, DefaultInboundPolicy::Deny) }
    }

    /// Additionally allows, for every caller, the requests that the kubelet's probes send to this port.
    #[must_use]
    pub fn with_probes(self, probes: PortProbes) -> Self {
        Self { probes, ..self }
    }

    /// Returns whether a kubelet probes this port.
    pub fn has_probes(&self) -> bool {
        !self.probes.is_empty()
    }

    /// Returns whether the request is one of the kubelet's probes of this port.
    pub fn is_probe(&self, request: &Request<'_>) -> bool {
        self.probes.match_any(request)
    }

    /// Decides whether `caller` may make `request`. `request` is `None` for a connection whose content the proxy does
    /// not parse. For such a connection, decides whether the caller may send any bytes to the port.
    pub fn authorize(&self, caller: &Caller<'_>, request: Option<&Request<'_>>) -> Decision {
        match self.decide(caller, request) {
            Decision::Allow => Decision::Allow,
            _ if request.is_some_and(|request| self.probes.match_any(request)) => Decision::Allow,
            other => other,
        }
    }

    fn decide(&self, caller: &Caller<'_>, request: Option<&Request<'_>>) -> Decision {
        let default = || match self.is_private {
            true => Decision::Deny(Reason::Private),
            false => self.default.decide(caller, &self.trust_domain),
        };
        let Some(first) = self.policies.first() else {
            return default();
        };
        let is_listed = self.policies.iter().any(|policy| policy.lists(caller, request, &self.trust_domain));
        let reason = || {
            // Name an unreadable policy first: it is certainly at fault, whereas another policy may deny on purpose.
            let unreadable = self.policies.iter().find(|policy| policy.mode == Mode::Unreadable);
            Reason::NoRule { policy: Arc::clone(unreadable.unwrap_or(first)), others: self.policies.len() - 1 }
        };
        match self.is_enforced {
            true if is_listed => Decision::Allow,
            true => Decision::Deny(reason()),
            // An audited policy cannot allow calls that the default policy denies.
            false => match default() {
                Decision::Deny(reason) => Decision::Deny(reason),
                _ if is_listed => Decision::Allow,
                _ => Decision::AllowAudited(reason()),
            },
        }
    }

    /// Returns the policy that decides if no [`AuthorizationPolicy`] is enforced on the port.
    pub fn default_policy(&self) -> DefaultInboundPolicy {
        self.default
    }

    /// Returns the first enforced policy; `None` if the default policy decides.
    pub fn enforced(&self) -> Option<&AuthorizationPolicy> {
        self.policies.first().filter(|_| self.is_enforced).map(|policy| &**policy)
    }

    /// Returns whether the policy could allow some request of `caller`. If not, the proxy can close the caller's
    /// connection without reading from it.
    pub fn may_allow(&self, caller: &Caller<'_>) -> bool {
        let has_health_checks = || self.policies.iter().any(|policy| !policy.health_checks.is_empty());
        !matches!(self.authorize(caller, None), Decision::Deny(_))
            || (self.is_enforced && has_health_checks())
            || !self.probes.is_empty()
    }
}

impl Mode {
    /// Returns whether the policy denies calls, instead of only logging them.
    pub fn is_enforced(self) -> bool {
        self != Self::Audit
    }
}

impl AuthorizationPolicy {
    /// Returns the replacement for an unreadable policy: it allows no caller on the ports that it selects.
    pub fn unreadable(
        namespace: &str,
        name: &str,
        service_account: Option<Box<str>>,
        ports: Option<Box<[u16]>>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            service_account,
            ports,
            mode: Mode::Unreadable,
            allow: Allow::default(),
            health_checks: Box::default(),
        }
    }

    /// Returns a copy of the policy that allows only callers with an identity: drops rules without identities, and all
    /// health checks.
    fn by_identity(&self) -> Self {
        let rules: Vec<Rule> = self.allow.iter().filter(|rule| rule.identities.is_some()).cloned().collect();
        Self { allow: rules.into(), health_checks: Box::default(), ..self.clone() }
    }

    /// Returns a text for the policy's target, for example `port 8080 of service account cart` or `every port in
    /// namespace shop`.
    pub fn target(&self) -> String {
        let ports = match self.ports.as_deref() {
            None => "every port".to_owned(),
            Some([port]) => format!("port {port}"),
            Some(ports) => format!("ports {}", ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")),
        };
        match &self.service_account {
            Some(account) => format!("{ports} of service account {account}"),
            None => format!("{ports} in namespace {}", self.namespace),
        }
    }

    /// Returns whether the policy selects `port` of `workload`.
    pub fn selects(&self, workload: &Workload, port: u16) -> bool {
        self.namespace == workload.namespace
            && self.selects_account(&workload.service_account)
            && self.ports.as_deref().is_none_or(|ports| ports.contains(&port))
    }

    /// Returns whether the policy selects workloads that run as this service account in the policy's namespace, at any
    /// port.
    pub fn selects_account(&self, service_account: &str) -> bool {
        self.service_account.as_deref().is_none_or(|account| account == service_account)
    }

    fn lists(&self, caller: &Caller<'_>, request: Option<&Request<'_>>, own: &TrustDomain) -> bool {
        let is_health_check = |request: &Request<'_>| self.health_checks.iter().any(|path| path.matches(request));
        self.allow.allows(caller, own) || request.is_some_and(is_health_check)
    }
}

#[cfg(test)]
mod tests;
