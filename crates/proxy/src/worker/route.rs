//! Route: a client's frames, and which cluster each request is for.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use leno_http2::fields::Known;
use leno_http2::{ErrorCode, Event, FieldSection, Section, StreamKey};
use leno_model::mesh::Cluster;

use super::Worker;
use super::accept::{Door, canonical};
use super::balance::TargetKey;
use super::call::{Call, CallId, NO_CALL, Response};
use super::client::{Client, LatestRoute};
use super::codec::Codec;
use super::grpc;
use super::hop::Protocol;
use super::link::LinkId;
use super::record::Ending;
use super::reply::ProxyError;
use crate::metrics::Direction;

/// Field sections kept for the next calls.
const MAX_SPARE_SECTIONS: usize = 256;
/// Memory that a spare field section may keep.
const MAX_SPARE_SECTION_BYTES: usize = 4_096;

impl Worker {
    pub(super) fn on_client_event(&mut self, client: usize, event: &Event<'_>, fields: &mut FieldSection) {
        match *event {
            Event::Headers { stream, section: Section::Request, end_stream, oversize, .. } => {
                self.on_request(client, stream, end_stream, oversize, fields);
            }
            Event::Headers { stream, token, oversize, .. } => {
                self.on_request_trailers(client, stream, token, oversize, fields);
            }
            Event::Data { stream, token, bytes, end_stream } => {
                self.on_request_data(client, stream, token, bytes, end_stream);
            }
            Event::Reset { stream, token, .. } => {
                if self.is_call_of(client, stream, token) {
                    self.end_call(token, Ending::Cancelled);
                }
            }
            Event::GoAway { .. } | Event::Settings => {}
        }
    }

    fn on_request(
        &mut self,
        client: usize,
        stream: StreamKey,
        end_stream: bool,
        oversize: bool,
        fields: &mut FieldSection,
    ) {
        let Some(downstream) = self.clients.get_mut(client) else { return };
        downstream.idle_since = None;
        let relay = &self.limits.relay;
        if downstream.cancelled_calls >= relay.max_cancelled_calls_per_client {
            // Its cancelled calls still occupy endpoints: no more until these know.
            downstream.link.codec.reset(stream, ErrorCode::REFUSED_STREAM);
            return;
        }
        let mut request = self.spare_sections.pop().unwrap_or_default();
        std::mem::swap(&mut request, fields);
        let protocol = protocol_of(downstream, &mut request);
        let serial = self.take_serial();
        let is_grpc = grpc::is_grpc(&request);
        let is_head = request.get(Known::Method) == Some(b"HEAD");
        let slot = self.calls.insert(Call {
            serial,
            client,
            client_stream: stream,
            cluster: None,
            traffic: None,
            upstream: None,
            pick: None,
            waiting_at: None,
            waiting_since: self.now,
            request,
            body: Vec::new(),
            trailers: None,
            request_ended: end_stream,
            replayable: true,
            sent: 0,
            released: 0,
            started: self.now,
            sent_at: self.now,
            deadline: None,
            attempts: 0,
            tried: Vec::new(),
            protocol,
            is_grpc,
            is_head,
            response: Response::Awaited,
            http_status: 0,
            request_bytes: 0,
            response_bytes: 0,
            interim_responses: 0,
            recorded: false,
        }) as u32;
        if let Some(downstream) = self.clients.get_mut(client) {
            downstream.link.codec.set_token(stream, slot);
        }
        let routed = if oversize {
            Err(ProxyError::HeaderListTooLarge { limit_bytes: self.limits.client.max_header_list_bytes })
        } else {
            self.route(client, slot)
        };
        if let Ok(cluster) = &routed {
            self.count_inbound(client, slot, *cluster);
        }
        match routed {
            Err(error) => self.fail(slot, &error),
            Ok(cluster) => match self.authorize(client, slot) {
                Ok(()) => self.admit(CallId { slot, serial }, cluster),
                Err(denied) => self.fail(slot, &denied),
            },
        }
    }

    /// Inbound calls count under the name of who makes them. Outbound ones count when it is known who takes them.
    fn count_inbound(&mut self, client: usize, slot: u32, cluster: usize) {
        let latest = self.clients.get(client).and_then(|client| client.latest_route.as_ref());
        let Some(place) = latest.and_then(|latest| latest.traffic) else { return };
        if let Some(traffic) = self.clusters.get(cluster).and_then(|cluster| cluster.traffic(place)) {
            traffic.request();
        }
        if let Some(call) = self.calls.get_mut(slot as usize) {
            call.traffic = Some(place);
        }
    }

    /// A call with a cluster: its deadline runs, and it is sent when all that has come is read.
    fn admit(&mut self, id: CallId, cluster: usize) {
        let calls = self.calls.len();
        let Some(call) = self.calls.get_mut(id.slot as usize) else { return };
        call.cluster = Some(cluster);
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.calls += 1;
        }
        if calls > self.limits.relay.max_calls as usize {
            return self.fail(id.slot, &ProxyError::TooManyCalls { calls });
        }
        if let Some(timeout) = call.request.get(Known::GrpcTimeout).and_then(grpc::parse_timeout) {
            let at = self.now + timeout;
            call.deadline = Some((at, self.timers.set(at, id)));
        }
        self.to_send.push_back(id);
    }

    /// The cluster that a call is for: by the connection's target where it has one, else by what the request says.
    fn route(&mut self, client: usize, slot: u32) -> Result<usize, ProxyError> {
        let (Some(downstream), Some(call)) = (self.clients.get(client), self.calls.get(slot as usize)) else {
            return Err(ProxyError::NoRoute("the connection is gone".to_owned()));
        };
        let authority =
            call.request.get(Known::Authority).or_else(|| call.request.get(Known::Host)).unwrap_or_default();
        if let Some(latest) = &downstream.latest_route
            && latest.mesh_version == self.mesh_version
            && latest.authority == authority
        {
            return Ok(latest.cluster);
        }
        let authority = authority.to_vec();
        let cluster = match self.find_target(downstream, &authority)? {
            Found::Service(cluster) => self.service_state(&cluster),
            Found::Address(target) => self.address_state(target)?,
        };
        let gate = self.clients.get(client).and_then(|client| self.gate(client, cluster));
        let Some(downstream) = self.clients.get_mut(client) else { return Ok(cluster) };
        let is_inbound = downstream.origin.door.direction() == Direction::Inbound;
        let tls = is_inbound.then(|| downstream.tls_label());
        let state = self.clusters.get_mut(cluster);
        let traffic = tls.zip(state).map(|(tls, state)| state.traffic_place(&self.metrics, tls));
        let mesh_version = self.mesh_version;
        downstream.latest_route = Some(LatestRoute { authority, mesh_version, cluster, traffic, gate });
        Ok(cluster)
    }

    fn find_target(&self, client: &Client, authority: &[u8]) -> Result<Found, ProxyError> {
        let local = client.origin.local.ip();
        match (client.origin.door, client.target) {
            (Door::Outbound, Some(address)) if self.is_own(address, local) => Err(ProxyError::Loop { target: address }),
            (Door::Outbound, Some(address)) => Ok(match self.mesh.cluster_by_address(address) {
                Some(cluster) => Found::Service(cluster.clone()),
                None => Found::Address(TargetKey::Address(address)),
            }),
            (Door::Outbound, None) => match self.mesh.cluster_by_authority(authority) {
                Ok(cluster) => Ok(Found::Service(cluster.clone())),
                Err(unroutable) => Err(ProxyError::NoRoute(unroutable.to_string())),
            },
            (Door::Inbound, Some(address)) => self.local_target(address, local),
            (Door::Inbound, None) => {
                let what = "this connection was not redirected here, so nothing tells which port it is for";
                Err(ProxyError::NoRoute(format!("{what}; call the application's port")))
            }
            (Door::Tunnel, _) => self.local_target(tunnel_target(authority, local)?, local),
        }
    }

    /// A port of the application beside us, which must not be a listener of our own.
    fn local_target(&self, address: SocketAddr, local: IpAddr) -> Result<Found, ProxyError> {
        if self.is_own(address, local) {
            return Err(ProxyError::Loop { target: address });
        }
        Ok(Found::Address(TargetKey::Local(address)))
    }

    /// Whether `token` names a call, and that call is this stream's.
    fn is_call_of(&self, client: usize, stream: StreamKey, token: u32) -> bool {
        self.calls.get(token as usize).is_some_and(|call| call.client == client && call.client_stream == stream)
    }

    fn on_request_data(&mut self, client: usize, stream: StreamKey, token: u32, bytes: &[u8], end_stream: bool) {
        if !self.is_call_of(client, stream, token) {
            return;
        }
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        call.request_ended |= end_stream;
        call.request_bytes += bytes.len() as u64;
        let Some((upstream, upstream_stream)) = call.upstream else {
            // Not sent yet: it stays here, and so does the client's room, which bounds it.
            call.body.extend_from_slice(bytes);
            self.replay_bytes += bytes.len();
            return;
        };
        let (replayable, kept_bytes) = (call.replayable, call.body.len());
        if !self.may_keep(kept_bytes, bytes.len()) {
            self.stop_replay(token);
        } else if replayable && let Some(call) = self.calls.get_mut(token as usize) {
            call.body.extend_from_slice(bytes);
            self.replay_bytes += bytes.len();
        }
        let Some(link) = self.upstreams.get_mut(upstream).map(|upstream| &mut upstream.link) else { return };
        let taken = link.codec.send_data(upstream_stream, bytes, end_stream);
        self.mark_dirty(LinkId::endpoint(upstream));
        self.request_bytes_sent(token, taken);
        self.end_call_if_complete(token);
    }

    fn on_request_trailers(
        &mut self,
        client: usize,
        stream: StreamKey,
        token: u32,
        oversize: bool,
        fields: &FieldSection,
    ) {
        if !self.is_call_of(client, stream, token) {
            return;
        }
        if oversize {
            let limit_bytes = self.limits.client.max_header_list_bytes;
            return self.fail(token, &ProxyError::HeaderListTooLarge { limit_bytes });
        }
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        call.request_ended = true;
        if call.replayable || call.upstream.is_none() {
            call.trailers = Some(Box::new(fields.clone()));
        }
        if let Some((upstream, upstream_stream)) = call.upstream {
            if let Some(upstream) = self.upstreams.get_mut(upstream) {
                upstream.link.codec.send_headers(upstream_stream, Section::Trailers, fields, true);
            }
            self.mark_dirty(LinkId::endpoint(upstream));
        }
        self.end_call_if_complete(token);
    }

    /// Request content went on: the client gets as much room again.
    pub(super) fn request_bytes_sent(&mut self, token: u32, bytes: usize) {
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        call.sent += bytes;
        let Some(room) = call.sent.checked_sub(call.released).filter(|&room| room > 0) else { return };
        call.released = call.sent;
        let (client, stream) = (call.client, call.client_stream);
        if let Some(client) = self.clients.get_mut(client) {
            client.link.codec.release(stream, room);
        }
        self.mark_dirty(LinkId::client(client));
    }

    /// Whether a call that was sent may keep so many bytes of its content, and so many more, to be sent elsewhere.
    pub(super) fn may_keep(&self, kept_bytes: usize, more_bytes: usize) -> bool {
        let relay = &self.limits.relay;
        kept_bytes + more_bytes <= relay.max_replay_bytes_per_call as usize
            && self.replay_bytes + more_bytes <= relay.max_replay_bytes as usize
    }

    /// Gives up the copy of the request: the call can no longer be sent elsewhere.
    pub(super) fn stop_replay(&mut self, token: u32) {
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        if !std::mem::replace(&mut call.replayable, false) {
            return;
        }
        self.replay_bytes = self.replay_bytes.saturating_sub(call.body.len());
        call.body = Vec::new();
        call.trailers = None;
        if !self.access_log.is_on() {
            self.recycle_request(token);
        }
    }

    /// A field section that is not needed any more serves the next calls.
    fn recycle_request(&mut self, token: u32) {
        let Some(call) = self.calls.get_mut(token as usize) else { return };
        let mut section = std::mem::take(&mut call.request);
        if self.spare_sections.len() < MAX_SPARE_SECTIONS {
            section.clear();
            section.shrink(MAX_SPARE_SECTION_BYTES);
            self.spare_sections.push(section);
        }
    }

    /// Ends a call of which nothing more is to come: its response is complete, and so is its request.
    pub(super) fn end_call_if_complete(&mut self, token: u32) {
        let complete = |call: &Call| call.request_ended && call.response == Response::Ended;
        if self.calls.get(token as usize).is_some_and(complete) {
            self.end_call(token, Ending::Complete);
        }
    }

    /// Ends a call, whatever its state: both streams forget it, it is recorded, its memory is given back.
    pub(super) fn end_call(&mut self, slot: u32, ending: Ending) {
        self.record(slot, ending);
        self.stop_replay(slot);
        if self.access_log.is_on() {
            self.recycle_request(slot);
        }
        self.leave_queue(slot);
        let Some(mut call) = self.calls.try_remove(slot as usize) else { return };
        if let Some((_, timer)) = call.deadline.take() {
            self.timers.cancel(timer);
        }
        if let Some(client) = self.clients.get_mut(call.client) {
            client.link.codec.set_token(call.client_stream, NO_CALL);
        }
        if let Some((upstream, stream)) = call.upstream {
            self.cancel_upstream(upstream, stream, call.client);
        }
        if let Some(index) = call.cluster {
            self.call_left_cluster(index);
        }
    }

    /// Time left until a call's deadline, if it has one that is worth shortening.
    pub(super) fn time_left(&self, call: &Call) -> Option<Duration> {
        let (at, _) = call.deadline?;
        (self.now > call.started).then(|| at.saturating_duration_since(self.now))
    }

    /// Answers a stream that has no call any more.
    pub(super) fn reset_client_stream(&mut self, client: usize, stream: StreamKey, code: ErrorCode) {
        if let Some(client) = self.clients.get_mut(client) {
            client.link.codec.reset(stream, code);
        }
        self.mark_dirty(LinkId::client(client));
    }
}

/// What a call is for.
enum Found {
    Service(Arc<Cluster>),
    Address(TargetKey),
}

/// The address that a CONNECT request asks for, which must be here: a tunnel leads to no third party.
fn tunnel_target(authority: &[u8], local: IpAddr) -> Result<SocketAddr, ProxyError> {
    let refused = |why: &str| ProxyError::NoRoute(format!("CONNECT {}: {why}", authority.escape_ascii()));
    let text = std::str::from_utf8(authority).map_err(|_| refused("not an address and port"))?;
    let address: SocketAddr = text.parse().map_err(|_| refused("not an address and port"))?;
    // Not to a loopback address either, unless that is what was called: what listens there is for this machine only.
    if address.ip().to_canonical() == local {
        Ok(canonical(address))
    } else {
        Err(refused("not an address of the workload that this proxy stands before"))
    }
}

/// What the application that made a request speaks. Fields that only proxies may send each other are taken off.
fn protocol_of(client: &Client, request: &mut FieldSection) -> Protocol {
    let asks_for_tunnel = client.target.is_none() && request.get(Known::Method) == Some(b"CONNECT");
    let protocol = match (&client.link.codec, client.origin.door) {
        (Codec::Opaque(_), _) | (_, Door::Tunnel) => Protocol::Opaque,
        // Who calls us a proxy by name (RFC 9110 section 9.3.6) gets bytes carried, whatever they are.
        (_, Door::Outbound) if asks_for_tunnel => Protocol::Opaque,
        (Codec::Http1(_), _) => Protocol::Http1,
        (Codec::Http2(_), Door::Inbound) if client.peer_id.is_some() => Protocol::of_request_from_proxy(request),
        (Codec::Http2(_), _) => Protocol::Http2,
    };
    request.remove(Known::LenoOrigProto);
    if protocol == Protocol::Http2 {
        request.remove(Known::LenoUpgrade);
    }
    protocol
}
