//! A client's connection: of the application beside us, or of somebody who calls it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use leno_accept::Source;
use leno_model::spiffe::SpiffeId;
use mio::Interest;

use super::Worker;
use super::accept::{Door, Origin};
use super::accounts::AccountKey;
use super::authorize::Gate;
use super::codec::CodecError;
use super::link::{Link, LinkId};
use super::places::Seat;
use super::record::Ending;
use super::review::Stay;
use super::target::Told;
use crate::metrics::Direction;

/// A client's connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) link: Link,
    pub(super) origin: Origin,
    /// Where it was going: a Service's or an endpoint's address, or a port of the application beside us. None where
    /// nothing tells but the calls themselves.
    pub(super) target: Option<SocketAddr>,
    /// Who it is, proved by its certificate.
    pub(super) peer_id: Option<Arc<SpiffeId>>,
    /// No anchor that is trusted now vouches for that certificate.
    pub(super) distrusted_since: Option<Instant>,
    /// How long that certificate lets it stay; none without one.
    pub(super) stay: Option<Stay>,
    /// What the application is told about it with each request.
    pub(super) told: Option<Box<Told>>,
    /// The account that is answerable for its calls.
    pub(super) account: usize,
    /// Tells this client from a later one at the same index.
    pub(super) serial: u64,
    /// The cluster of its latest call: a gRPC client's calls all have the same authority.
    pub(super) latest_route: Option<LatestRoute>,
    /// Cancelled calls that endpoints have not been told of.
    pub(super) cancelled_calls: u32,
    /// Connections to the application that are left unread because this tunnel holds as much as it may.
    pub(super) held_back: Vec<usize>,
    /// Calls that wait for connections to endpoints.
    pub(super) waiting_calls: usize,
    /// Memory of the fields of its calls' requests.
    pub(super) fields_bytes: usize,
    /// It has, or had, as many streams open as it may, which was said.
    pub(super) is_full: bool,
    pub(super) idle_since: Option<Instant>,
    /// When it was told that its connection ends.
    pub(super) leaving_since: Option<Instant>,
    pub(super) seat: Seat,
    /// Its client has said something whole: a request, or bytes that nobody interprets.
    pub(super) has_spoken: bool,
    /// When it lost its place to another connection.
    pub(super) yielding_since: Option<Instant>,
}

/// A route that was looked up.
#[derive(Debug)]
pub(super) struct LatestRoute {
    pub(super) authority: Vec<u8>,
    pub(super) mesh_version: u64,
    pub(super) cluster: usize,
    /// Where inbound calls count: a place of the cluster's series.
    pub(super) traffic: Option<u32>,
    /// What decides over inbound calls.
    pub(super) gate: Option<Gate>,
}

impl Client {
    pub(super) fn new(
        link: Link,
        origin: Origin,
        target: Option<SocketAddr>,
        peer_id: Option<Arc<SpiffeId>>,
        account: usize,
        serial: u64,
        seat: Seat,
    ) -> Self {
        Self {
            idle_since: Some(link.last_read),
            link,
            origin,
            target,
            peer_id,
            distrusted_since: None,
            stay: None,
            told: None,
            account,
            serial,
            latest_route: None,
            cancelled_calls: 0,
            held_back: Vec::new(),
            waiting_calls: 0,
            fields_bytes: 0,
            is_full: false,
            leaving_since: None,
            seat,
            has_spoken: false,
            yielding_since: None,
        }
    }

    /// Whether its streams are connections of applications, which share it: each is held back by itself, and may be for as
    /// long as its application likes.
    pub(super) fn is_tunnel(&self) -> bool {
        self.origin.door == Door::Tunnel
    }

    /// Memory that it takes beside its link, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let authority = self.latest_route.as_ref().map_or(0, |latest| latest.authority.capacity());
        self.fields_bytes + authority + self.held_back.capacity() * size_of::<usize>()
    }

    /// Tells it that its connection ends, once.
    pub(super) fn shut_down(&mut self, now: Instant) {
        self.leaving_since.get_or_insert(now);
        self.link.codec.shut_down();
    }
}

impl Worker {
    /// A connection that was an arrival until now is a client's: events name it so, and what has come is read.
    pub(super) fn watch_client(&mut self, index: usize) {
        if let Some(client) = self.clients.get(index)
            && let (Direction::Inbound, Some(target)) = (client.origin.door.direction(), client.target)
        {
            self.ports.name(target.port());
        }
        let series = self.clients.get(index).map(|client| self.client_series(client));
        let is_short_of_memory = self.is_short_of_memory();
        let Some(client) = self.clients.get_mut(index) else { return };
        if let Some(series) = series {
            client.link.wire.meter.count_in(series);
        }
        client.link.codec.save_memory(is_short_of_memory);
        let (token, interest) = (LinkId::client(index).token(), Interest::READABLE | Interest::WRITABLE);
        if let Err(error) = self.poll.registry().reregister(&mut client.link.wire.socket, token, interest) {
            tracing::warn!("cannot watch a connection: {error}");
            return self.close_client(index);
        }
        self.read(LinkId::client(index));
        // What it has sent already is answered.
        if self.draining.is_some()
            && let Some(client) = self.clients.get_mut(index)
        {
            client.shut_down(self.now);
            self.mark_dirty(LinkId::client(index));
        }
        self.mark_unfinished(LinkId::client(index));
    }

    /// Forgets a client's connection; its calls are cancelled.
    pub(super) fn close_client(&mut self, index: usize) {
        self.cancel_calls_of(index);
        if let Some(mut client) = self.clients.try_remove(index) {
            self.discharge(&client.link);
            client.link.wire.meter.close(self.now);
            self.doors.leave(client.seat);
            if client.yielding_since.is_some() {
                self.doors.yielded();
            }
            self.accounts.leave(client.account);
            self.burst = true;
        }
    }

    pub(super) fn cancel_calls_of(&mut self, index: usize) {
        let Some(client) = self.clients.get(index) else { return };
        for (stream, token) in client.link.codec.open_streams() {
            if self.calls.get(token as usize).is_some_and(|call| call.client == index && call.client_stream == stream) {
                self.end_call(token, Ending::Cancelled);
            }
        }
    }

    /// Ends the connection of a client that broke the protocol or a limit: the last words say why, calls are cancelled.
    pub(super) fn dismiss_client(&mut self, index: usize, error: &CodecError) {
        self.cancel_calls_of(index);
        let Some(client) = self.clients.get_mut(index) else { return };
        tracing::info!("{} is disconnected: {error}", client.origin.peer);
        self.metrics.count_abuse(error.label());
        client.link.begin_closing(self.now, &mut self.buffers);
    }

    /// Who is answerable for the calls of a connection; the application beside us for each of its connections apart.
    pub(super) fn account_of(origin: &Origin, peer_id: Option<&Arc<SpiffeId>>) -> Option<AccountKey> {
        match (origin.door, peer_id) {
            (Door::Outbound, _) => None,
            (_, Some(id)) => Some(AccountKey::Identity(id.clone())),
            (_, None) => Some(AccountKey::Address(Source::of(origin.peer.ip()))),
        }
    }

    pub(super) fn take_serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }
}
