//! Client: the connection of a client. The client is our own application, or a caller of our application.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use leno_accept::Source;
use leno_http2::{Connection, Role};
use leno_model::spiffe::SpiffeId;

use crate::Relay;
use crate::call::record::Ending;
use crate::downstream::accounts::{AccountId, AccountKey};
use crate::downstream::authorize::Gate;
use crate::downstream::origin::{Door, Origin};
use crate::effect::{Effect, WireId};
use crate::failure::{ConnectionFailure, FailedConnection};
use crate::link::codec::{Codec, CodecError};
use crate::link::opaque::{Contents, Opaque};
use crate::link::{Link, LinkId};
use crate::metrics::{Direction, PeerLabel};
use crate::pool::upstream::UpstreamId;
use crate::slots::Id;
use crate::target::cluster::ClusterId;
use crate::target::find::IdentityFields;

/// Identifies a client's connection within its worker.
pub type ClientId = Id<Client>;

/// A client's connection.
#[derive(Debug)]
pub struct Client {
    pub(crate) link: Link,
    pub(crate) origin: Origin,
    /// The connection's destination: the address of a Service or an endpoint, or a port of our own application. `None`
    /// if only the calls on the connection name a destination.
    pub(crate) target: Option<SocketAddr>,
    /// The client's identity, proved by its certificate.
    pub(crate) peer_id: Option<Arc<SpiffeId>>,
    /// The proxy terminates the client's TLS.
    pub(crate) has_tls: bool,
    /// Header fields that tell the application who the client is, added to each request.
    pub(crate) identity_fields: Option<Box<IdentityFields>>,
    /// The account that the client's calls are charged to.
    pub(crate) account: AccountId,
    /// The result of the latest route lookup. Later calls with the same authority use this result until the mesh
    /// changes. This saves most lookups, because all calls of a gRPC client have the same authority.
    pub(crate) latest_target: Option<LatestTarget>,
    /// Number of the client's cancelled calls that the relay has not reset at their endpoints yet.
    pub(crate) cancelled_calls: u32,
    /// Connections to our application that the worker does not read, because this tunnel buffers as many bytes as its
    /// limit allows.
    pub(crate) held_back: Vec<UpstreamId>,
    /// Number of calls that wait for connections to endpoints.
    pub(crate) waiting_calls: usize,
    /// Memory of the request fields of all calls of the client, in bytes.
    pub(crate) fields_bytes: usize,
    /// Number of bytes by which the receive windows of the responses to all calls of the client have grown.
    pub(crate) grown_bytes: usize,
    /// The client has reached its maximum number of open streams at least once, and this has been logged.
    pub(crate) is_full: bool,
    pub(crate) idle_since: Option<Instant>,
    /// See [`Accepted::held_since`].
    pub(crate) held_since: Option<Instant>,
    /// When the proxy told the client that it will close the connection (in HTTP/2: GOAWAY).
    pub(crate) leaving_since: Option<Instant>,
    /// The client has sent a complete request head, or at least one byte on an opaque connection.
    pub(crate) has_spoken: bool,
    /// When the proxy decided to end this connection in favor of another connection ([`Relay::yield_place`]). Only set
    /// if the connection may still finish its calls.
    pub(crate) yielding_since: Option<Instant>,
}

/// An accepted connection whose protocol is known.
#[derive(Debug)]
pub struct Accepted {
    pub wire: WireId,
    pub origin: Origin,
    /// The destination of the connection; `None` if only the calls on the connection name a destination.
    pub target: Option<SocketAddr>,
    /// The client's identity, proved by its certificate.
    pub peer_id: Option<Arc<SpiffeId>>,
    /// The proxy terminates the client's TLS.
    pub has_tls: bool,
    pub speaks: Speaks,
    /// The bytes that the client has sent so far.
    pub first: Vec<u8>,
    /// When the worker began to read the connection.
    pub opened: Instant,
    /// When the worker accepted the connection, if it then left the connection unread until the control plane answered
    /// the question about the connection's destination, or until the answer was almost overdue.
    pub held_since: Option<Instant>,
}

/// What the relay detected in a connection's first bytes.
#[derive(Debug)]
pub enum Speaks {
    Http2,
    Http1,
    /// Bytes that the proxy does not parse.
    Opaque(Contents),
    /// The client has sent nothing so far: the server may speak first.
    Nothing,
}

/// The result of a route lookup.
#[derive(Debug)]
pub(crate) struct LatestTarget {
    pub(crate) authority: Vec<u8>,
    pub(crate) mesh_version: u64,
    pub(crate) cluster: ClusterId,
    /// For inbound calls, the index of their metrics series among the cluster's series.
    pub(crate) traffic: Option<u32>,
    /// Decides whether inbound calls are allowed.
    pub(crate) gate: Option<Gate>,
}

impl Client {
    pub(crate) fn new(
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
            identity_fields: None,
            account,
            latest_target: None,
            cancelled_calls: 0,
            held_back: Vec::new(),
            waiting_calls: 0,
            fields_bytes: 0,
            grown_bytes: 0,
            is_full: false,
            held_since: None,
            leaving_since: None,
            has_spoken: false,
            yielding_since: None,
        }
    }

    /// Returns whether the client is the proxy of a caller of our application, or such a caller with a certificate of
    /// its own. After REFUSED_STREAM, it sends the call to another endpoint (RFC 9113 section 8.7).
    pub(crate) fn is_callers_proxy(&self) -> bool {
        self.origin.door != Door::Outbound && self.peer_id.is_some()
    }

    /// Returns whether the connection is a tunnel. Each stream of a tunnel is a connection of another application, with
    /// flow control of its own. That application may stop reading its stream, with no time limit.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.origin.door == Door::Tunnel
    }

    /// Returns the memory that the client's state uses besides its link, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let authority = self.latest_target.as_ref().map_or(0, |latest| latest.authority.capacity());
        self.fields_bytes + authority + self.held_back.capacity() * size_of::<UpstreamId>()
    }

    /// Tells the client that its connection ends, unless the proxy has told the client before.
    pub(crate) fn shut_down(&mut self, now: Instant) {
        self.leaving_since.get_or_insert(now);
        self.link.codec.shut_down();
    }
}

impl Relay {
    /// Begins to serve an accepted connection whose protocol is known. The relay handles the first bytes when the event
    /// loop reads the connection next.
    pub fn add_client(&mut self, accepted: Accepted) -> ClientId {
        let Accepted { wire, origin, target, peer_id, has_tls, speaks, first, opened, held_since } = accepted;
        let mut link = Link::new(Some(wire), self.codec_for(speaks, origin.door, target), self.now);
        link.has_received = !first.is_empty();
        link.pending_input = first;
        link.opened = opened;
        link.codec.save_memory(self.is_short_of_memory());
        let ids = peer_id.as_ref().zip(self.targets.own());
        let identity_fields =
            ids.map(|(id, own)| Box::new(IdentityFields::of(id, own, self.settings.forwarded_client_cert)));
        if let (Direction::Inbound, Some(target)) = (origin.door.direction(), target) {
            self.ports.name(target.port());
        }
        let account = account_of(&origin, peer_id.as_ref());
        let client = |account| Client {
            identity_fields,
            has_tls,
            held_since,
            ..Client::new(link, origin, target, peer_id, account)
        };
        let id = self.downstreams.add(account, client);
        let series = self.downstreams.get(id).map(|client| self.client_series(client));
        self.effects.extend(series.map(|series| Effect::Count(wire, series)));
        id
    }

    fn codec_for(&self, speaks: Speaks, door: Door, target: Option<SocketAddr>) -> Codec {
        let limits = &self.limits;
        let written = || target.map(|target| target.to_string());
        match speaks {
            Speaks::Http2 => Codec::Http2(Connection::new(Role::Server, limits.client.clone(), self.now)),
            Speaks::Http1 => {
                let mut http1 = leno_http1::Connection::new(Role::Server, limits.http1_client.clone(), self.now);
                // The server at the destination may be a forward proxy, which needs the form in which our application
                // sent the request. Without a known destination, this proxy itself is the forward proxy. An application
                // behind this proxy always gets the path alone.
                if door == Door::Outbound && target.is_some() {
                    http1.keep_absolute_form();
                }
                Codec::Http1(http1)
            }
            Speaks::Opaque(contents) => {
                let name = match &contents {
                    Contents::Tls(Some(name)) => Some(format!("{name}:443")),
                    Contents::Tls(None) | Contents::Unknown => None,
                };
                Codec::Opaque(Opaque::accepted(written().or(name).unwrap_or_default(), contents))
            }
            Speaks::Nothing => Codec::Opaque(Opaque::guessed(written().unwrap_or_default())),
        }
    }

    /// Tells a client that its connection ends, unless the proxy has told the client before.
    pub fn shut_down_client(&mut self, id: ClientId) {
        if let Some(client) = self.downstreams.get_mut(id) {
            client.shut_down(self.now);
            self.mark_dirty(LinkId::Client(id));
        }
    }

    /// Ends a connection in favor of another connection, because the proxy has reached its limit on connections. The
    /// connection may finish its calls if it meets all these conditions:
    ///
    /// - `may_finish` is set.
    /// - The connection has calls or unsent output.
    /// - The connection is not opaque.
    /// - This function has not been called for the connection before.
    ///
    /// Otherwise, the connection ends at once. Returns whether the connection finishes its calls.
    pub fn yield_place(&mut self, id: ClientId, may_finish: bool) -> bool {
        let Some(client) = self.downstreams.get_mut(id) else { return false };
        // Even if the relay has no call of the client any more, the last response may still wait for the client's
        // socket.
        let link = &client.link;
        let is_busy = link.codec.stream_count() > 0 || link.codec.wants_write() || link.is_blocked();
        let may_finish = may_finish && !client.link.codec.is_opaque();
        let finishes = may_finish && is_busy && client.yielding_since.is_none();
        let origin = client.origin;
        if finishes {
            client.yielding_since = Some(self.now);
            self.shut_down_client(id);
        } else {
            self.close_client(id);
        }
        self.report(origin, ConnectionFailure::Yielded);
        finishes
    }

    /// Closes a client's connection and cancels its calls.
    pub(crate) fn close_client(&mut self, id: ClientId) {
        self.cancel_calls_of(id);
        if let Some(client) = self.downstreams.remove(id) {
            self.release(&client.link);
        }
    }

    pub(crate) fn cancel_calls_of(&mut self, client_id: ClientId) {
        let Some(client) = self.downstreams.get(client_id) else { return };
        for (stream, token) in client.link.codec.open_streams() {
            if let Some((id, _)) = self.calls.of(client_id, stream, token) {
                self.end_call(id, Ending::Cancelled);
            }
        }
    }

    /// Ends the connection of a client that broke the protocol or a limit. Cancels its calls, and sends the output that
    /// tells the client why.
    pub(crate) fn dismiss_client(&mut self, id: ClientId, error: &CodecError) {
        self.cancel_calls_of(id);
        let Some(client) = self.downstreams.get(id) else { return };
        tracing::info!("{} is disconnected: {error}", client.origin.peer);
        self.metrics.count_abuse(error.label());
        self.begin_closing(LinkId::Client(id));
    }

    /// Counts and logs a client's connection that was refused or ended.
    pub fn report(&mut self, origin: Origin, why: ConnectionFailure) {
        let direction = origin.door.direction();
        self.metrics.count_failed_connection(direction, why.label());
        let failed = FailedConnection { direction, peer: PeerLabel::Source, address: origin.peer, why };
        if let Some(line) = self.failures.line(&failed, self.now) {
            tracing::warn!("{line}");
        }
    }
}

/// Returns the key of the account that a connection's calls are charged to. `None` for our own application: each of its
/// connections is a separate account.
fn account_of(origin: &Origin, peer_id: Option<&Arc<SpiffeId>>) -> Option<AccountKey> {
    match (origin.door, peer_id) {
        (Door::Outbound, _) => None,
        (_, Some(id)) => Some(AccountKey::Identity(id.clone())),
        (_, None) => Some(AccountKey::Address(Source::of(origin.peer.ip()))),
    }
}
