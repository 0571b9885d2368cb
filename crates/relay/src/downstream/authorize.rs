//! Authorize: checks each call from other workloads against the authorization policies.

use std::sync::Arc;

use leno_http2::fields::Known;
use leno_model::policy::{Caller, Decision, PortPolicy, Reason, Request};

use crate::Relay;
use crate::call::reply::ProxyError;
use crate::call::{Call, CallId};
use crate::downstream::client::{Client, ClientId};
use crate::failure::ConnectionFailure;
use crate::metrics::{AuthorizationLabels, AuthorizationMetrics, DecidedBy, Decisions};
use crate::pool::hop::Protocol;
use crate::target::cluster::{ClusterId, TargetKey};
use crate::target::find::{has_overrides, strip_overrides};

/// Decides whether a client's calls to one port of our application are allowed.
#[derive(Debug)]
pub(crate) struct Gate {
    policy: PortPolicy,
    port: u16,
    metrics: Arc<AuthorizationMetrics>,
    /// The decision about this client without regard to the request. If the decision is [`Decision::Allow`], the
    /// client's calls need no further check of the policy. Otherwise, the policy may still allow a call that is a
    /// health check.
    standing: Decision,
}

impl Gate {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Counts a denied call. The call may have been accepted before the policy changed.
    pub(crate) fn count_denied(&self, is_opaque: bool) {
        self.counts(is_opaque).denied.add(1);
    }

    /// Counts an accepted connection that the relay guessed to be opaque. Called when the guess is confirmed.
    pub(crate) fn count_guess(&self) {
        match self.standing {
            Decision::Allow => self.metrics.tcp.allowed.add(1),
            Decision::AllowAudited(_) => self.metrics.tcp.audited.add(1),
            // The policy has changed since the connection was accepted, so do not count the connection as denied.
            Decision::Deny(_) => {}
        }
    }

    fn counts(&self, is_opaque: bool) -> &Decisions {
        if is_opaque { &self.metrics.tcp } else { &self.metrics.http }
    }

    /// Returns whether a call is a kubelet's probe of this port. A client with an identity is no kubelet.
    fn is_probe(&self, client: &Client, call: &Call) -> bool {
        let can_be = self.policy.has_probes() && client.peer_id.is_none() && call.protocol != Protocol::Opaque;
        can_be && !call.request.is_empty() && self.policy.is_probe(&request(call))
    }

    /// Decides whether a client's call is allowed. If the request is no longer stored, the call does not count as a
    /// health check.
    pub(crate) fn decide(&self, client: &Client, call: &Call) -> Decision {
        if self.standing == Decision::Allow || call.protocol == Protocol::Opaque || call.request.is_empty() {
            return self.standing.clone();
        }
        self.policy.authorize(&caller(client), Some(&request(call)))
    }

    /// Decides whether an accepted call is still allowed. A request that was sent with fields that may replace its path
    /// or its method does not count as a health check: it is too late to remove these fields.
    pub(crate) fn decide_again(&self, client: &Client, call: &Call) -> Decision {
        if has_overrides(&call.request) { self.standing.clone() } else { self.decide(client, call) }
    }
}

fn caller(client: &Client) -> Caller<'_> {
    Caller { identity: client.peer_id.as_deref(), address: client.origin.peer.ip() }
}

/// Returns the parts of a request that policies match.
pub(crate) fn request(call: &Call) -> Request<'_> {
    Request {
        method: call.request.get(Known::Method).unwrap_or_default(),
        path: call.request.get(Known::Path).unwrap_or_default(),
        upgrade: call.request.contains(Known::LenoUpgrade),
        // The whole content may have arrived before the policies, so `request_ended` would hide it.
        has_content: call.has_content,
    }
}

impl Relay {
    /// Returns the gate for a client's calls to a cluster; `None` if our own application makes the calls, or if the
    /// proxy has no identity.
    pub(crate) fn gate(&self, client: &Client, cluster: ClusterId) -> Option<Gate> {
        let cluster = self.targets.get(cluster)?;
        let TargetKey::Local(address) = cluster.target else { return None };
        let policy = self.port_policy(address.port())?;
        let decided_by = match policy.enforced() {
            Some(policy) => DecidedBy::AuthorizationPolicy(format!("{}/{}", policy.namespace, policy.name).into()),
            None => DecidedBy::Default(policy.default_policy().name()),
        };
        let traffic = cluster.traffic_labels(client.tls_label());
        let metrics = self.metrics.authorizations(&AuthorizationLabels { traffic, policy: Some(decided_by) });
        let standing = policy.authorize(&caller(client), None);
        Some(Gate { policy, port: address.port(), metrics, standing })
    }

    /// Returns the policy for calls to a port of our application or to the port of our taps; `None` if the proxy has no
    /// identity.
    pub(crate) fn port_policy(&self, port: u16) -> Option<PortPolicy> {
        let own = self.targets.own()?;
        if self.settings.tap_port == Some(port) {
            return Some(self.targets.mesh().private_policy(own, port));
        }
        let policy = self.targets.mesh().inbound_policy(own, port, self.settings.default_policy);
        Some(policy.with_probes(self.settings.probes.on(port)))
    }

    /// Returns whether a routed call is a probe that the spec of our own Pod describes.
    pub(crate) fn is_probe(&self, client: ClientId, id: CallId) -> bool {
        let (Some(client), Some(call)) = (self.downstreams.get(client), self.calls.get(id)) else {
            return false;
        };
        let gate = client.latest_target.as_ref().and_then(|route| route.gate.as_ref());
        gate.is_some_and(|gate| gate.is_probe(client, call))
    }

    /// Returns an error if a connection carries bytes that are neither HTTP nor TLS, but its port is declared to speak
    /// HTTP. The connection may have begun before the proxy knew this declaration.
    pub(crate) fn check_contents(&mut self, client: ClientId) -> Result<(), ProxyError> {
        let Some(origin) =
            self.downstreams.get(client).filter(|client| self.breaks_declaration(client)).map(|c| c.origin)
        else {
            return Ok(());
        };
        self.report(origin, ConnectionFailure::NotHttp);
        Err(ProxyError::Denied(ConnectionFailure::NotHttp.to_string()))
    }

    /// Checks a routed call against the policy, and counts the decision.
    pub(crate) fn authorize(&mut self, client: ClientId, id: CallId) -> Result<(), ProxyError> {
        self.check_contents(client)?;
        let (Some(downstream), Some(call)) = (self.downstreams.get(client), self.calls.get_mut(id)) else {
            return Ok(());
        };
        let Some(gate) = downstream.latest_target.as_ref().and_then(|route| route.gate.as_ref()) else { return Ok(()) };
        let is_opaque = call.protocol == Protocol::Opaque;
        match gate.decide(downstream, call) {
            Decision::Allow => {
                call.is_health_check = gate.standing != Decision::Allow;
                if matches!(gate.standing, Decision::Deny(_)) {
                    strip_overrides(&mut call.request);
                }
                if !call.is_guess {
                    gate.counts(is_opaque).allowed.add(1);
                }
                Ok(())
            }
            Decision::AllowAudited(reason) => {
                if !call.is_guess {
                    gate.counts(is_opaque).audited.add(1);
                }
                tracing::info!("audited: {}", self.describe(downstream, gate.port, &reason));
                Ok(())
            }
            Decision::Deny(reason) => {
                gate.count_denied(is_opaque);
                let text = self.denial(downstream, gate.port, &reason);
                let why = ConnectionFailure::Denied {
                    client: downstream.peer_id.as_deref().cloned(),
                    server: self.targets.own().cloned(),
                    port: gate.port,
                    reason: reason.to_string(),
                };
                let origin = downstream.origin;
                self.report(origin, why);
                Err(ProxyError::Denied(text))
            }
        }
    }

    /// Returns the error text for a client that is denied. Only a client with an identity learns the name of the
    /// workload and the names of its policies. Our own log has these names for all clients.
    pub(crate) fn denial(&self, client: &Client, port: u16, reason: &Reason) -> String {
        match client.peer_id {
            Some(_) => self.describe(client, port, reason),
            None => "denied: policy does not allow this call; ask the owner of the workload for access".to_owned(),
        }
    }

    fn describe(&self, client: &Client, port: u16, reason: &Reason) -> String {
        let caller = match &client.peer_id {
            Some(id) => id.to_string(),
            None => format!("{} without an identity", client.origin.peer.ip()),
        };
        let own = self.targets.own().map_or_else(String::new, |own| format!(" of {own}"));
        format!("{caller} may not call port {port}{own}: {reason}")
    }
}

#[cfg(test)]
#[path = "authorize_tests.rs"]
mod tests;
