//! Review: ends accepted calls that are no longer allowed. After a change of policy, the relay authorizes calls,
//! streams of tunnels, upgrades and opaque connections again.

use leno_http2::ErrorCode;
use leno_model::policy::Decision;

use crate::Relay;
use crate::call::reply::ProxyError;
use crate::call::{CallId, Response};
use crate::certain::Certain;
use crate::downstream::authorize::Gate;
use crate::downstream::client::ClientId;
use crate::downstream::origin::Door;
use crate::failure::ConnectionFailure;
use crate::link::LinkId;
use crate::pool::hop::Protocol;
use crate::target::cluster::ClusterId;

impl Relay {
    /// Checks all accepted calls again. Ends calls that the current policies deny, and opaque connections to ports that
    /// are now declared to speak HTTP.
    pub(crate) fn review_calls(&mut self) {
        // While the policies are unknown, the relay accepts no new calls, and it cannot authorize accepted calls again.
        if self.targets.mesh().unanswered_inbound().is_some() {
            return;
        }
        let from_others = self.downstreams.iter().filter(|(_, client)| client.origin.door != Door::Outbound);
        for id in from_others.map(|(id, _)| id).collect::<Vec<_>>() {
            self.review_calls_of(id);
        }
    }

    fn review_calls_of(&mut self, client_id: ClientId) {
        let Some(client) = self.downstreams.get(client_id) else { return };
        let mut gate: Option<(ClusterId, Option<Gate>)> = None;
        for (stream, token) in client.link.codec.open_streams() {
            let Some((id, call)) = self.calls.of(client_id, stream, token) else { continue };
            let Some(cluster) = call.cluster else { continue };
            if gate.as_ref().is_none_or(|(of, _)| *of != cluster) {
                gate = self.downstreams.get(client_id).map(|client| (cluster, self.gate(client, cluster)));
            }
            if let Err(denied) = self.check_contents(client_id) {
                self.end_accepted(id, &denied);
            } else if let Some((_, Some(gate))) = &gate {
                self.review_call(client_id, id, gate);
            }
        }
    }

    fn review_call(&mut self, client_id: ClientId, id: CallId, gate: &Gate) {
        let (Some(client), Some(call)) = (self.downstreams.get(client_id), self.calls.get(id)) else { return };
        let is_opaque = call.protocol == Protocol::Opaque;
        // The relay may have dropped the request of a call whose response has begun, unless the call is a health check.
        // The gate then decides without the request.
        let Decision::Deny(reason) = gate.decide_again(client, call) else { return };
        gate.count_denied(is_opaque);
        let (origin, text) = (client.origin, self.denial(client, gate.port(), &reason));
        let why = ConnectionFailure::Withdrawn {
            client: client.peer_id.as_deref().cloned(),
            server: self.targets.own().cloned(),
            port: gate.port(),
            reason: reason.to_string(),
        };
        self.report(origin, why);
        self.end_accepted(id, &ProxyError::Denied(text));
    }

    /// Ends a call that was accepted before, with the reason why it is denied now.
    pub(crate) fn end_accepted(&mut self, id: CallId, denied: &ProxyError) {
        let Some(call) = self.calls.get(id).certain() else { return };
        if call.response == Response::Ended {
            self.stop_client(call.client, call.client_stream);
        }
        self.fail(id, denied);
    }

    /// Ends the connection of a client whose certificate is no longer valid: answers its calls with the reason, and
    /// sends GOAWAY.
    pub fn withdraw(&mut self, client_id: ClientId, why: ConnectionFailure) {
        let Some(client) = self.downstreams.get(client_id) else { return };
        let (origin, denied) = (client.origin, ProxyError::Denied(why.to_string()));
        for (stream, token) in client.link.codec.open_streams() {
            if let Some((id, _)) = self.calls.of(client_id, stream, token) {
                self.end_accepted(id, &denied);
            }
        }
        self.report(origin, why);
        if let Some(client) = self.downstreams.get_mut(client_id) {
            client.link.codec.go_away(ErrorCode::NO_ERROR, "your certificate is good no more; connect with a new one");
        }
        self.begin_closing(LinkId::Client(client_id));
    }
}
