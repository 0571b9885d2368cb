//! Review: ends accepted calls and connections that are no longer allowed because of a new policy, a new trust bundle
//! or an expired certificate.
//!
//! After a change of policy, calls, streams of tunnels, upgrades and opaque connections are authorized again. A
//! client's connection ends when the certificate that it showed expires or is no longer trusted. It stays if the same
//! workload has shown a better certificate since, on another connection from the same address (`standing`).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leno_http2::ErrorCode;
use leno_identity::TlsIdentity;
use leno_model::policy::Decision;

use super::Worker;
use super::accept::Door;
use super::authorize::Gate;
use super::call::{CallId, Response};
use super::client::ClientId;
use super::cluster::ClusterId;
use super::hop::Protocol;
use super::link::LinkId;
use super::reply::ProxyError;
use super::upstream::UpstreamId;
use crate::failure::ConnectionFailure;

/// How long a peer whose certificate is no longer trusted may take to show a better one on a new connection.
const REPLACEMENT_TIME: Duration = Duration::from_millis(800);

impl Worker {
    /// Checks all accepted calls again. Ends calls that the current policies deny, and opaque connections to ports that
    /// are now declared to speak HTTP.
    pub(super) fn review_calls(&mut self) {
        // While the policies are unknown, no new call is accepted, and calls that were accepted before cannot be
        // authorized again.
        if self.mesh.unanswered_inbound().is_some() {
            return;
        }
        let from_others = self.clients.iter().filter(|(_, client)| client.origin.door != Door::Outbound);
        for id in from_others.map(|(id, _)| id).collect::<Vec<_>>() {
            self.review_calls_of(id);
        }
    }

    fn review_calls_of(&mut self, client_id: ClientId) {
        let Some(client) = self.clients.get(client_id) else { return };
        let mut gate: Option<(ClusterId, Option<Gate>)> = None;
        for (stream, token) in client.link.codec.open_streams() {
            let Some((id, call)) = self.calls.of(client_id, stream, token) else { continue };
            let Some(cluster) = call.cluster else { continue };
            if gate.as_ref().is_none_or(|(of, _)| *of != cluster) {
                gate = self.clients.get(client_id).map(|client| (cluster, self.gate(client, cluster)));
            }
            if let Err(denied) = self.check_contents(client_id) {
                self.end_accepted(id, &denied);
            } else if let Some((_, Some(gate))) = &gate {
                self.review_call(client_id, id, gate);
            }
        }
    }

    fn review_call(&mut self, client_id: ClientId, id: CallId, gate: &Gate) {
        let (Some(client), Some(call)) = (self.clients.get(client_id), self.calls.get(id)) else { return };
        let is_opaque = call.protocol == Protocol::Opaque;
        // After the response has begun, calls other than health checks may have lost their request. They are decided
        // without it.
        let Decision::Deny(reason) = gate.decide(client, call) else { return };
        gate.count_denied(is_opaque);
        let (origin, text) = (client.origin, self.denial(client, gate.port(), &reason));
        let why = ConnectionFailure::Withdrawn {
            client: client.peer_id.as_deref().cloned(),
            server: self.identity.as_ref().map(|identity| identity.id.clone()),
            port: gate.port(),
            reason: reason.to_string(),
        };
        self.report(origin, why);
        self.end_accepted(id, &ProxyError::Denied(text));
    }

    /// Ends a call that was accepted before, with the reason why it is denied now.
    fn end_accepted(&mut self, id: CallId, denied: &ProxyError) {
        let Some(call) = self.calls.get(id) else { return };
        if call.response == Response::Ended {
            self.stop_client(call.client, call.client_stream);
        }
        self.fail(id, denied);
    }

    /// Uses a new identity from now on: for new connections, and to verify the connected peers again.
    pub(super) fn set_identity(&mut self, identity: &Arc<TlsIdentity>) {
        let before = self.identity.replace(identity.clone());
        self.renew_routes();
        let Some(before) = before else { return };
        if !identity.trusts_all_anchors_of(&before) {
            let clients = self.clients.iter().filter(|(_, client)| client.peer_id.is_some());
            let clients = clients.map(|(id, _)| LinkId::Client(id));
            let endpoints = self.upstreams.iter().filter(|(_, upstream)| upstream.expected.is_some());
            let endpoints = endpoints.map(|(id, _)| LinkId::Endpoint(id));
            self.recheck.begin(clients.chain(endpoints));
            // Handshakes in progress still verify with the old trust bundle.
            for (_, arrival) in self.arrivals.iter_mut() {
                arrival.is_outdated = self.wires.get(arrival.wire).is_some_and(|wire| wire.tls.is_some());
            }
            self.upstreams.iter_mut().for_each(|(_, upstream)| upstream.is_outdated |= !upstream.checked);
        } else {
            self.recheck.forget_verdicts();
        }
        if identity.not_after != before.not_after {
            for (_, upstream) in self.upstreams.iter_mut().filter(|(_, upstream)| upstream.expected.is_some()) {
                upstream.is_outdated = true;
            }
        }
    }

    /// Verifies peers' certificates again after a trust anchor was removed, at the pace of [`super::recheck`].
    pub(super) fn recheck_peers(&mut self) {
        let Some(end) = self.recheck.begin_slice(self.now) else { return };
        while let Some(id) = self.recheck.next(end) {
            match id {
                LinkId::Client(client) => self.recheck_client(client),
                LinkId::Endpoint(upstream) => self.recheck_endpoint(upstream),
                LinkId::Arrival(_) => {}
            }
        }
    }

    /// Verifies a client's certificate again. If it is no longer trusted, tells the client to open another connection,
    /// and closes this one after [`REPLACEMENT_TIME`]. So a client with a new certificate loses no call.
    fn recheck_client(&mut self, client_id: ClientId) {
        let (Some(identity), Some(client)) = (&self.identity, self.clients.get_mut(client_id)) else { return };
        let tls = self.wires.get(client.link.wire).and_then(|wire| wire.tls.as_ref());
        let Some((id, tls)) = client.peer_id.as_ref().zip(tls) else { return };
        let now = SystemTime::now();
        let mut verdict = |chain: &[_]| self.recheck.verdict(chain, |chain| identity.verify_again(chain, now));
        let Err(error) = verdict(tls.peer_certificates()) else { return };
        let is_good = |chain: &[_]| verdict(chain).is_ok();
        if let Some(expiry) = self.standing.expiry_of(id, client.origin.peer.ip(), now, is_good) {
            client.distrusted_since = None;
            return self.extend_stay(client_id, expiry);
        }
        let since = *client.distrusted_since.get_or_insert(self.now);
        if self.now - since >= REPLACEMENT_TIME {
            return self.withdraw(client_id, ConnectionFailure::NoLongerTrusted(error));
        }
        client.shut_down(self.now);
        self.mark_dirty(LinkId::Client(client_id));
        self.recheck.defer(LinkId::Client(client_id));
    }

    /// Verifies a server's certificate again. If it is no longer trusted, the server gets no new calls. Its current
    /// calls fail after [`REPLACEMENT_TIME`], unless a new connection shows a better certificate of the same workload.
    fn recheck_endpoint(&mut self, upstream_id: UpstreamId) {
        let (Some(identity), Some(upstream)) = (&self.identity, self.upstreams.get_mut(upstream_id)) else { return };
        let tls = self.wires.get(upstream.link.wire).and_then(|wire| wire.tls.as_ref());
        let Some(tls) = tls.filter(|_| upstream.checked) else { return };
        let now = SystemTime::now();
        let mut verdict = |chain: &[_]| self.recheck.verdict(chain, |chain| identity.verify_again(chain, now));
        let Err(error) = verdict(tls.peer_certificates()) else { return };
        let is_good = |chain: &[_]| verdict(chain).is_ok();
        let (expected, address) = (upstream.expected.as_ref(), upstream.address.ip());
        if expected.is_some_and(|id| self.standing.expiry_of(id, address, now, is_good).is_some()) {
            return self.retire(upstream_id);
        }
        let is_news = upstream.distrusted_since.is_none();
        let since = *upstream.distrusted_since.get_or_insert(self.now);
        if self.now - since >= REPLACEMENT_TIME {
            return self.end_upstream(upstream_id, &ConnectionFailure::NoLongerTrusted(error));
        }
        let (cluster, key) = (upstream.cluster, upstream.key);
        self.retire(upstream_id);
        if is_news {
            self.connect(cluster, key);
        }
        self.recheck.defer(LinkId::Endpoint(upstream_id));
    }

    /// Checks when a client's certificate expires: announces the end of its connection in advance, and ends the
    /// connection at that time. Returns whether the connection still exists.
    pub(super) fn check_expiry(&mut self, client_id: ClientId, now: SystemTime) -> bool {
        let Some(client) = self.clients.get(client_id) else { return false };
        let (Some(id), Some(stay)) = (client.peer_id.as_ref(), client.stay) else { return true };
        if now < stay.notice || client.link.closing_since.is_some() {
            return true;
        }
        let is_good = |chain: &[_]| self.identity.as_ref().is_some_and(|own| own.verify_again(chain, now).is_ok());
        if let Some(later) = self.standing.expiry_of(id, client.origin.peer.ip(), stay.expiry, is_good) {
            self.extend_stay(client_id, later);
        } else if now >= stay.expiry {
            self.withdraw(client_id, ConnectionFailure::Expired);
            return false;
        } else if client.leaving_since.is_none()
            && let Some(client) = self.clients.get_mut(client_id)
        {
            client.shut_down(self.now);
            self.mark_dirty(LinkId::Client(client_id));
        }
        true
    }

    /// Records the certificate that a server has shown.
    pub(super) fn note_server(&mut self, upstream_id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(upstream_id) else { return };
        let Some((id, tls)) = upstream.expected.as_ref().zip(self.tls_on(upstream.link.wire)) else { return };
        let (now, chain) = (SystemTime::now(), tls.peer_certificates());
        if let Some(expiry) = leno_identity::peer_expiry(chain, now) {
            self.standing.note(id, upstream.address.ip(), (expiry, now), chain);
        }
    }

    fn extend_stay(&mut self, id: ClientId, expiry: SystemTime) {
        if let Some(client) = self.clients.get_mut(id) {
            client.stay = Some(Stay::until(expiry, SystemTime::now()));
        }
    }

    /// Ends the connection of a client whose certificate is no longer valid: answers its calls with the reason, and
    /// sends GOAWAY.
    fn withdraw(&mut self, client_id: ClientId, why: ConnectionFailure) {
        let Some(client) = self.clients.get(client_id) else { return };
        let (origin, denied) = (client.origin, ProxyError::Denied(why.to_string()));
        for (stream, token) in client.link.codec.open_streams() {
            if let Some((id, _)) = self.calls.of(client_id, stream, token) {
                self.end_accepted(id, &denied);
            }
        }
        self.report(origin, why);
        if let Some(client) = self.clients.get_mut(client_id) {
            client.link.codec.go_away(ErrorCode::NO_ERROR, "your certificate is good no more; connect with a new one");
        }
        self.begin_closing(LinkId::Client(client_id));
    }
}

/// The times that a client's certificate sets for its connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stay {
    /// From this time on the connection accepts no new calls, and its client is told to open another one.
    notice: SystemTime,
    expiry: SystemTime,
}

impl Stay {
    /// Longest time between the notice and the expiry. For a certificate with less than ten minutes left, it is a tenth
    /// of the remaining time.
    const MAX_NOTICE: Duration = Duration::from_secs(60);

    pub(super) fn until(expiry: SystemTime, now: SystemTime) -> Self {
        let left = expiry.duration_since(now).unwrap_or_default();
        Self { notice: expiry - (left / 10).min(Self::MAX_NOTICE), expiry }
    }
}
