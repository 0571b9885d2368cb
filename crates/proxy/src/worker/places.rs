//! Places: how many connections of clients a worker holds, and which one yields when there is no place left.
//!
//! Three pools, so that no client takes the places of another kind: the own application's connections, those of clients
//! that have shown no certificate, and those of clients that have. Invariant: a connection has one [`Seat`] from its accept
//! to its end, and stands in at most one pool.

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

/// Connections that have lost their place and finish their calls, at a time; a further one ends at once.
const MAX_YIELDING: usize = 256;
/// How long such a connection may take to finish its calls.
pub(super) const YIELD_GRACE: Duration = Duration::from_secs(5);

/// A connection's name in its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Seat(usize);

/// The account of a client that has shown a certificate: a digest of its SPIFFE id. Two ids of one digest would share an
/// account, which costs fairness and nothing else; the digest's key is random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Member(u64);

/// The pools of one worker.
#[derive(Debug)]
pub(super) struct Doors {
    /// Of the own application.
    outbound: Places<Source, Seat>,
    /// Of clients that have shown no certificate, or none yet.
    strangers: Places<Source, Seat>,
    /// Of clients that have shown a certificate.
    members: Places<Member, Seat>,
    seats: Slab<LinkId>,
    digest: RandomState,
    /// Connections that have lost their place and finish their calls.
    yielding: usize,
}

/// A connection has no place: its own account holds the most.
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

    /// The account of an identity.
    pub(super) fn member(&self, id: &SpiffeId) -> Member {
        Member(self.digest.hash_one(id))
    }

    /// Finds a place for a connection that has arrived, and names the connection that yields it, if one must.
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

    /// Moves a connection to the pool of clients with a certificate, and names the connection that yields its place there.
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

    /// An arrival has become a client's connection.
    pub(super) fn rename(&mut self, seat: Seat, link: LinkId) {
        if let Some(place) = self.seats.get_mut(seat.0) {
            *place = link;
        }
    }

    /// The connection's client has said something whole.
    pub(super) fn settle(&mut self, seat: Seat) {
        self.outbound.settle(seat);
        self.strangers.settle(seat);
    }

    /// The connection has ended. Its seat may name another one from now on.
    pub(super) fn leave(&mut self, seat: Seat) {
        self.give_up(seat);
        self.seats.try_remove(seat.0);
    }

    /// The connection goes on without a place.
    fn give_up(&mut self, seat: Seat) {
        self.outbound.leave(seat);
        self.strangers.leave(seat);
        self.members.leave(seat);
    }

    /// One connection fewer finishes its calls without a place.
    pub(super) fn yielded(&mut self) {
        self.yielding = self.yielding.saturating_sub(1);
    }

    /// Gives back what a burst has made large.
    pub(super) fn shrink(&mut self) {
        self.seats.shrink_to_fit();
    }
}

impl Worker {
    /// Finds a place for a connection that has arrived, at another's cost where there is none.
    pub(super) fn take_place(&mut self, door: Door, peer: IpAddr, link: LinkId) -> Result<Seat, Full> {
        let (seat, replaced) = self.doors.enter(door, peer, link)?;
        if let Some(replaced) = replaced {
            self.yield_place(replaced);
        }
        Ok(seat)
    }

    /// A client has shown its certificate: it counts for its identity from now on.
    pub(super) fn take_member_place(&mut self, seat: Seat, id: &SpiffeId) -> Result<(), Full> {
        if let Some(replaced) = self.doors.identify(seat, id)? {
            self.yield_place(replaced);
        }
        Ok(())
    }

    /// Ends a connection that has lost its place: at once, or after its calls where it has any that can be waited for.
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
