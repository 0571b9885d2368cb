//! Authorize: whether policy lets a call in, asked for each call that comes from others.

use std::sync::Arc;

use leno_http2::fields::Known;
use leno_model::policy::{Caller, Decision, PortPolicy, Reason, Request};

use super::Worker;
use super::client::Client;
use super::cluster::TargetKey;
use super::hop::Protocol;
use super::reply::ProxyError;
use crate::failure::ConnectionFailure;
use crate::metrics::{AuthorizationLabels, AuthorizationMetrics, DecidedBy};

/// What decides over a client's calls to one port of the application.
#[derive(Debug)]
pub(super) struct Gate {
    policy: PortPolicy,
    port: u16,
    metrics: Arc<AuthorizationMetrics>,
}

impl Worker {
    /// What decides over a client's calls to a cluster; nothing where it is the own application that calls.
    pub(super) fn gate(&self, client: &Client, cluster: usize) -> Option<Gate> {
        let target = &self.clusters.get(cluster)?.target;
        let TargetKey::Local(address) = *target else { return None };
        let own = &self.identity.as_ref()?.id;
        let port = address.port();
        let policy = self.mesh.inbound_policy(own, port, self.default_policy).with_probes(self.probes.on(port));
        let decided_by = match policy.enforced() {
            Some(policy) => DecidedBy::AuthorizationPolicy(format!("{}/{}", policy.namespace, policy.name).into()),
            None => DecidedBy::Default(self.default_policy.name()),
        };
        let traffic = target.traffic_labels(client.tls_label());
        let metrics = self.metrics.authorizations(&AuthorizationLabels { traffic, policy: Some(decided_by) });
        Some(Gate { policy, port: address.port(), metrics })
    }

    /// Asks the policy about a call that has been routed.
    pub(super) fn authorize(&mut self, client: usize, slot: u32) -> Result<(), ProxyError> {
        let (Some(downstream), Some(call)) = (self.clients.get(client), self.calls.get(slot as usize)) else {
            return Ok(());
        };
        let Some(gate) = downstream.latest_route.as_ref().and_then(|route| route.gate.as_ref()) else { return Ok(()) };
        let caller = Caller { identity: downstream.peer_id.as_deref(), address: downstream.origin.peer.ip() };
        let request = Request {
            method: call.request.get(Known::Method).unwrap_or_default(),
            path: call.request.get(Known::Path).unwrap_or_default(),
            upgrade: call.request.contains(Known::LenoUpgrade),
        };
        let is_opaque = call.protocol == Protocol::Opaque;
        let decision = gate.policy.authorize(&caller, (!is_opaque).then_some(&request));
        let counts = if is_opaque { &gate.metrics.tcp } else { &gate.metrics.http };
        match decision {
            Decision::Allow => {
                counts.allowed.add(1);
                Ok(())
            }
            Decision::AllowAudited(reason) => {
                counts.audited.add(1);
                tracing::info!("audited: {}", self.describe(downstream, gate.port, &reason));
                Ok(())
            }
            Decision::Deny(reason) => {
                counts.denied.add(1);
                let text = self.describe(downstream, gate.port, &reason);
                let why = ConnectionFailure::Denied {
                    client: downstream.peer_id.as_deref().cloned(),
                    server: self.identity.as_ref().map(|identity| identity.id.clone()),
                    port: gate.port,
                    reason: reason.to_string(),
                };
                let origin = downstream.origin;
                self.report(origin, why);
                Err(ProxyError::Denied(text))
            }
        }
    }

    fn describe(&self, client: &Client, port: u16, reason: &Reason) -> String {
        let caller = match &client.peer_id {
            Some(id) => id.to_string(),
            None => format!("{} without an identity", client.origin.peer.ip()),
        };
        let own = self.identity.as_ref().map_or_else(String::new, |identity| format!(" of {}", identity.id));
        format!("{caller} may not call port {port}{own}: {reason}")
    }
}
