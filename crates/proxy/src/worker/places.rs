//! Places: limits how many connections of clients a worker holds, and selects the connection to close if there are too
//! many.
//!
//! There are three pools, so that one kind of client cannot take the places of another kind: connections of our own
//! application, of clients that have shown no certificate, and of clients that have shown one. Invariant: a connection
//! has one [`Seat`] from its accept to its end, and is in at most one pool.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use leno_accept::{Entry, Places, Source};
use leno_model::spiffe::SpiffeId;
use slab::Slab;

use super::Worker;
use super::accept::Door;
use super::link::{LinkId, Side};
use crate::failure::ConnectionFailure;
use crate::limits::RelayLimits;

/// Most connections that finish their calls after they have lost their place. Further ones are closed at once.
const MAX_YIELDING: usize = 256;
/// How long a connection that has lost its place may take to finish its calls.
pub(super) const YIELD_GRACE: Duration = Duration::from_secs(5);

/// Identifies a connection in its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Seat(usize);

/// Identifies a client that has shown a certificate: a digest of its SPIFFE id, with a random key. Two ids with the
/// same digest would share their places, which would only be unfair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Member(u64);

/// The pools of one worker.
#[derive(Debug)]
pub(super) struct Doors {
    /// Connections of our own application.
    outbound: Places<Source, Seat>,
    /// Connections of clients that have shown no certificate, or none yet.
    strangers: Places<Source, Seat>,
    /// Connections of clients that have shown a certificate.
    members: Places<Member, Seat>,
    seats: Slab<LinkId>,
    digest: RandomState,
    /// Number of connections that finish their calls after they have lost their place.
    yielding: usize,
}

/// Error: there is no place for a connection, because its own client holds the most places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Doors {
    pub(super) fn new(limits: &RelayLimits) -> Self {
        Self {
            outbound: Places::new(limits.max_outbound_connections as usize),
            strangers: Places::new(limits.max_inbound_connections as usize),
            members: Places::new(limits.max_identified_connections as usize),
            seats: Slab::new(),
            digest: RandomState::new(),
            yielding: 0,
        }
    }

    /// Returns the key under which connections of an identity count.
    pub(super) fn member(&self, id: &SpiffeId) -> Member {
        Member(self.digest.hash_one(id))
    }

    /// Finds a place for a new connection. Also returns the connection that loses its place for it, if any.
    fn enter(&mut self, door: Door, peer: IpAddr, link: LinkId) -> Result<(Seat, Option<LinkId>), Full> {
        let seat = Seat(self.seats.insert(link));
        let pool = match door {
            Door::Outbound => &mut self.outbound,
            Door::Inbound | Door::Tunnel => &mut self.strangers,
        };
        match pool.enter(Source::of(peer), seat) {
            Entry::Free => Ok((seat, None)),
            Entry::Replaces(other) => Ok((seat, self.seats.get(other.0).copied())),
            Entry::Full => {
                self.seats.remove(seat.0);
                Err(Full)
            }
        }
    }

    /// Moves a connection to the pool of clients with a certificate. Returns the connection that loses its place there
    /// for it, if any.
    fn identify(&mut self, seat: Seat, id: &SpiffeId) -> Result<Option<LinkId>, Full> {
        self.strangers.leave(seat);
        let entry = self.members.enter(self.member(id), seat);
        self.members.settle(seat);
        match entry {
            Entry::Free => Ok(None),
            Entry::Replaces(other) => Ok(self.seats.get(other.0).copied()),
            Entry::Full => Err(Full),
        }
    }

    /// Records the new link of a connection: an arrival has become a client, or a client an arrival.
    pub(super) fn rename(&mut self, seat: Seat, link: LinkId) {
        if let Some(place) = self.seats.get_mut(seat.0) {
            *place = link;
        }
    }

    /// Records that the connection's client has sent something complete: a request, or a TLS handshake.
    pub(super) fn settle(&mut self, seat: Seat) {
        self.outbound.settle(seat);
        self.strangers.settle(seat);
    }

    /// Frees the place and the seat of a connection that has ended. Another connection may get the same seat from now
    /// on.
    pub(super) fn leave(&mut self, seat: Seat) {
        self.give_up(seat);
        self.seats.try_remove(seat.0);
    }

    /// Frees the place of a connection, which keeps its seat.
    fn give_up(&mut self, seat: Seat) {
        self.outbound.leave(seat);
        self.strangers.leave(seat);
        self.members.leave(seat);
    }

    /// Records that a connection without a place no longer finishes its calls.
    pub(super) fn yielded(&mut self) {
        self.yielding = self.yielding.saturating_sub(1);
    }

    /// Frees memory that is no longer needed after a burst.
    pub(super) fn shrink(&mut self) {
        self.seats.shrink_to_fit();
    }
}

impl Worker {
    /// Finds a place for a new connection. If none is free, another connection may lose its place.
    pub(super) fn take_place(&mut self, door: Door, peer: IpAddr, link: LinkId) -> Result<Seat, Full> {
        let (seat, replaced) = self.doors.enter(door, peer, link)?;
        if let Some(replaced) = replaced {
            self.yield_place(replaced);
        }
        Ok(seat)
    }

    /// Moves the connection of a client that has shown its certificate: it counts for the client's identity from now
    /// on.
    pub(super) fn take_member_place(&mut self, seat: Seat, id: &SpiffeId) -> Result<(), Full> {
        if let Some(replaced) = self.doors.identify(seat, id)? {
            self.yield_place(replaced);
        }
        Ok(())
    }

    /// Ends a connection that has lost its place: after its calls if it has any and is not opaque, else at once. At
    /// most [`MAX_YIELDING`] connections finish their calls at a time.
    fn yield_place(&mut self, link: LinkId) {
        self.metrics.count_abuse("client_connections");
        if link.side == Side::Arrival {
            let Some(origin) = self.arrivals.get(link.index).map(|arrival| arrival.origin) else { return };
            self.report(origin, ConnectionFailure::Yielded);
            return self.drop_arrival(link.index);
        }
        let Some(client) = self.clients.get_mut(link.index) else { return };
        let origin = client.origin;
        let may_finish = !client.link.codec.is_opaque() && client.link.codec.stream_count() > 0;
        let gently = may_finish && self.doors.yielding < MAX_YIELDING && client.yielding_since.is_none();
        if gently {
            self.doors.yielding += 1;
            client.yielding_since = Some(self.now);
            client.shut_down(self.now);
            self.mark_dirty(link);
        } else {
            self.close_client(link.index);
        }
        self.report(origin, ConnectionFailure::Yielded);
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
