//! Client: the connection of a client, which is our own application or a caller of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use leno_accept::Source;
use leno_model::spiffe::SpiffeId;

use super::Worker;
use super::accept::{Door, Origin};
use super::accounts::{AccountId, AccountKey};
use super::authorize::Gate;
use super::cluster::ClusterId;
use super::codec::CodecError;
use super::link::{Link, LinkId};
use super::record::Ending;
use super::review::Stay;
use super::slots::Id;
use super::target::Told;
use super::upstream::UpstreamId;
use crate::metrics::Direction;

/// Identifies a client's connection within its worker.
pub(super) type ClientId = Id<Client>;

/// A client's connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) link: Link,
    pub(super) origin: Origin,
    /// The connection's destination: the address of a Service or an endpoint, or a port of our own application. `None`
    /// if only the calls themselves name it.
    pub(super) target: Option<SocketAddr>,
    /// The client's identity, proved by its certificate.
    pub(super) peer_id: Option<Arc<SpiffeId>>,
    /// The client's TLS ends at the proxy.
    pub(super) has_tls: bool,
    /// When the worker found that no current trust anchor vouches for that certificate; `None` while one does.
    pub(super) distrusted_since: Option<Instant>,
    /// How long that certificate lets the connection stay; `None` without a certificate.
    pub(super) stay: Option<Stay>,
    /// Header fields that tell the application who the client is, added to each request.
    pub(super) told: Option<Box<Told>>,
    /// The account that the client's calls are charged to.
    pub(super) account: AccountId,
    /// The route of the latest call. The next calls use it too, since all calls of a gRPC client have the same
    /// authority.
    pub(super) latest_route: Option<LatestRoute>,
    /// Number of cancelled calls that endpoints have not been told of.
    pub(super) cancelled_calls: u32,
    /// Connections to our application that are not read because this tunnel already buffers as many bytes as it may.
    pub(super) held_back: Vec<UpstreamId>,
    /// Number of calls that wait for connections to endpoints.
    pub(super) waiting_calls: usize,
    /// Memory of the request fields of all its calls, in bytes.
    pub(super) fields_bytes: usize,
    /// The client has or had as many streams open as it may, and this has been logged.
    pub(super) is_full: bool,
    pub(super) idle_since: Option<Instant>,
    /// When the client was told that its connection ends.
    pub(super) leaving_since: Option<Instant>,
    /// The client has sent something complete: a request, or bytes that the proxy does not parse.
    pub(super) has_spoken: bool,
    /// When the connection lost its place to another connection.
    pub(super) yielding_since: Option<Instant>,
}

/// The result of a route lookup.
#[derive(Debug)]
pub(super) struct LatestRoute {
    pub(super) authority: Vec<u8>,
    pub(super) mesh_version: u64,
    pub(super) cluster: ClusterId,
    /// Index of the metrics series of inbound calls, among the cluster's series.
    pub(super) traffic: Option<u32>,
    /// Decides whether inbound calls are allowed.
    pub(super) gate: Option<Gate>,
}

impl Client {
    pub(super) fn new(
        link: Link,
        origin: Origin,
        target: Option<SocketAddr>,
        peer_id: Option<Arc<SpiffeId>>,
        account: AccountId,
    ) -> Self {
        Self {
            idle_since: Some(link.last_read),
            link,
            origin,
            target,
            peer_id,
            has_tls: false,
            distrusted_since: None,
            stay: None,
            told: None,
            account,
            latest_route: None,
            cancelled_calls: 0,
            held_back: Vec::new(),
            waiting_calls: 0,
            fields_bytes: 0,
            is_full: false,
            leaving_since: None,
            has_spoken: false,
            yielding_since: None,
        }
    }

    /// Returns whether the connection is a tunnel. Each stream of a tunnel is a connection of an application, with flow
    /// control of its own, and may stay unread as long as that application likes.
    pub(super) fn is_tunnel(&self) -> bool {
        self.origin.door == Door::Tunnel
    }

    /// Returns the client's memory besides its link, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let authority = self.latest_route.as_ref().map_or(0, |latest| latest.authority.capacity());
        self.fields_bytes + authority + self.held_back.capacity() * size_of::<UpstreamId>()
    }

    /// Tells the client that its connection ends, unless it has been told.
    pub(super) fn shut_down(&mut self, now: Instant) {
        self.leaving_since.get_or_insert(now);
        self.link.codec.shut_down();
    }
}

impl Worker {
    /// Begins to serve a client's connection, which was an arrival until now. Reads what has been received.
    pub(super) fn watch_client(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get(id)
            && let (Direction::Inbound, Some(target)) = (client.origin.door.direction(), client.target)
        {
            self.ports.name(target.port());
        }
        let series = self.clients.get(id).map(|client| self.client_series(client));
        let is_short_of_memory = self.is_short_of_memory();
        let Some(client) = self.clients.get_mut(id) else { return };
        if let (Some(series), Some(wire)) = (series, self.wires.get_mut(client.link.wire)) {
            wire.meter.count_in(series);
        }
        client.link.codec.save_memory(is_short_of_memory);
        self.read(LinkId::Client(id));
        // Requests that the client has already sent are still answered.
        if self.draining.is_some()
            && let Some(client) = self.clients.get_mut(id)
        {
            client.shut_down(self.now);
            self.mark_dirty(LinkId::Client(id));
        }
        self.mark_unfinished(LinkId::Client(id));
    }

    /// Closes a client's connection and cancels its calls.
    pub(super) fn close_client(&mut self, id: ClientId) {
        self.cancel_calls_of(id);
        if let Some(client) = self.clients.remove(id) {
            self.discharge(&client.link);
            self.drop_wire(client.link.wire);
            self.doors.leave(client.link.wire);
            if client.yielding_since.is_some() {
                self.doors.yielded();
            }
            self.accounts.leave(client.account);
            self.burst = true;
        }
    }

    pub(super) fn cancel_calls_of(&mut self, client_id: ClientId) {
        let Some(client) = self.clients.get(client_id) else { return };
        for (stream, token) in client.link.codec.open_streams() {
            if let Some((id, _)) = self.calls.of(client_id, stream, token) {
                self.end_call(id, Ending::Cancelled);
            }
        }
    }

    /// Ends the connection of a client that broke the protocol or a limit. Cancels its calls, and sends the output that
    /// tells the client why.
    pub(super) fn dismiss_client(&mut self, id: ClientId, error: &CodecError) {
        self.cancel_calls_of(id);
        let Some(client) = self.clients.get(id) else { return };
        tracing::info!("{} is disconnected: {error}", client.origin.peer);
        self.metrics.count_abuse(error.label());
        self.begin_closing(LinkId::Client(id));
    }

    /// Returns the key of the account that a connection's calls are charged to. `None` for our own application: each of
    /// its connections is a separate account.
    pub(super) fn account_of(origin: &Origin, peer_id: Option<&Arc<SpiffeId>>) -> Option<AccountKey> {
        match (origin.door, peer_id) {
            (Door::Outbound, _) => None,
            (_, Some(id)) => Some(AccountKey::Identity(id.clone())),
            (_, None) => Some(AccountKey::Address(Source::of(origin.peer.ip()))),
        }
    }
}
