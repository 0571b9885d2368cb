//! Places: limits the number of a worker's connections from clients, and selects the connection to close if there are
//! too many.
//!
//! There are three pools, so that one kind of client cannot take the places of another kind: connections of our own
//! application, of clients that have shown no certificate, and of clients that have shown a certificate. Invariant: a
//! connection is in at most one pool.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use leno_accept::{Entry, Places, Source};
use leno_model::spiffe::SpiffeId;
use leno_relay::failure::ConnectionFailure;
use leno_relay::limits::RelayLimits;
use leno_relay::{Door, LinkId};
use rustc_hash::FxHashSet;

use super::Worker;
use super::wire::{Carries, WireId};

/// Maximum number of connections that may finish their calls after they have lost their place. Further connections are
/// closed at once.
const MAX_YIELDING: usize = 256;

/// Identifies a client that has shown a certificate: digests of its namespace and of its SPIFFE id, with a random key.
/// If two ids had the same digests, the pool would count them as one client. This would only be unfair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Member {
    namespace: u64,
    id: u64,
}

/// The pools of one worker.
#[derive(Debug)]
pub(super) struct Doors {
    /// Connections of our own application.
    outbound: Places<Source, WireId>,
    /// Connections of clients that have shown no certificate, or none yet.
    strangers: Places<Source, WireId>,
    /// Connections of clients that have shown a certificate.
    members: Places<Member, WireId, u64>,
    digest: RandomState,
    /// Connections that finish their calls after they have lost their place.
    yielding: FxHashSet<WireId>,
}

/// Error: the pool is full, and the client of the new connection already holds the most places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Doors {
    pub(super) fn new(limits: &RelayLimits) -> Self {
        Self {
            outbound: Places::new(limits.max_outbound_connections as usize),
            strangers: Places::new(limits.max_inbound_connections as usize),
            members: Places::grouped(limits.max_identified_connections as usize, |member| member.namespace),
            digest: RandomState::new(),
            yielding: FxHashSet::default(),
        }
    }

    /// Returns the key under which connections of an identity are counted.
    pub(super) fn member(&self, id: &SpiffeId) -> Member {
        Member { namespace: self.digest.hash_one(&id.workload.namespace), id: self.digest.hash_one(id) }
    }

    /// Finds a place for a new connection. Returns the connection that the new connection replaces, if any.
    fn enter(&mut self, door: Door, peer: IpAddr, wire: WireId) -> Result<Option<WireId>, Full> {
        let pool = match door {
            Door::Outbound => &mut self.outbound,
            Door::Inbound | Door::Tunnel => &mut self.strangers,
        };
        replaced(pool.enter(Source::of(peer), wire))
    }

    /// Moves a connection to the pool of clients with a certificate. Returns the connection that it replaces there, if
    /// any.
    fn identify(&mut self, wire: WireId, id: &SpiffeId) -> Result<Option<WireId>, Full> {
        self.strangers.leave(wire);
        let entry = self.members.enter(self.member(id), wire);
        self.members.settle(wire);
        replaced(entry)
    }

    /// Records that the connection's client has sent something complete: a request, or a TLS handshake.
    pub(super) fn settle(&mut self, wire: WireId) {
        self.outbound.settle(wire);
        self.strangers.settle(wire);
    }

    /// Frees the place of a connection that has ended, if it has one.
    pub(super) fn leave(&mut self, wire: WireId) {
        self.yielding.remove(&wire);
        self.outbound.leave(wire);
        self.strangers.leave(wire);
        self.members.leave(wire);
    }
}

/// Returns the connection that loses its place to a new connection, if any.
fn replaced(entry: Entry<WireId>) -> Result<Option<WireId>, Full> {
    match entry {
        Entry::Free => Ok(None),
        Entry::Replaces(other) => Ok(Some(other)),
        Entry::Full => Err(Full),
    }
}

impl Worker {
    /// Finds a place for a new connection. If none is free, another connection may lose its place.
    pub(super) fn take_place(&mut self, door: Door, peer: IpAddr, wire: WireId) -> Result<(), Full> {
        if let Some(replaced) = self.doors.enter(door, peer, wire)? {
            self.yield_place(replaced);
        }
        Ok(())
    }

    /// Moves the connection of a client that has shown its certificate: the connection counts for the client's identity
    /// from now on.
    pub(super) fn take_member_place(&mut self, wire: WireId, id: &SpiffeId) -> Result<(), Full> {
        if let Some(replaced) = self.doors.identify(wire, id)? {
            self.yield_place(replaced);
        }
        Ok(())
    }

    /// Ends a connection that has lost its place: at once, or after its calls if it has calls and is not opaque. At
    /// most [`MAX_YIELDING`] connections finish their calls at a time.
    fn yield_place(&mut self, wire: WireId) {
        self.relay.metrics().count_abuse("client_connections");
        match self.wires.get(wire).and_then(|wire| wire.carries) {
            Some(Carries::Arrival(id)) => {
                let Some(origin) = self.arrivals.get(id).map(|arrival| arrival.origin) else { return };
                self.relay.report(origin, ConnectionFailure::Yielded);
                self.drop_arrival(id);
            }
            Some(Carries::Link(LinkId::Client(id))) => {
                let has_room = self.doors.yielding.len() < MAX_YIELDING;
                if self.relay.yield_place(id, has_room) {
                    self.doors.yielding.insert(wire);
                }
            }
            Some(Carries::Link(LinkId::Endpoint(_))) | None => {}
        }
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
