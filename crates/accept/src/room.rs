//! Room: [`Places`] shared by the tasks of a program. When another connection takes the place of a task's connection,
//! the room notifies the task.
//!
//! Connections without a certificate of the mesh are counted by source address. Connections with such a certificate are
//! counted by identity, and the identities of a namespace form a group. The two kinds of connections have separate
//! places, so that one kind cannot use up the places of the other.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use crate::{Entry, Places, Source};

/// Limits on the number of open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomSize {
    /// Maximum number of connections without a certificate of the mesh.
    pub strangers: usize,
    /// Maximum number of connections with a certificate of the mesh.
    pub identified: usize,
}

impl RoomSize {
    /// Returns the limits for a listener whose clients never present a certificate of the mesh.
    pub fn of_strangers(strangers: usize) -> Self {
        Self { strangers, identified: 0 }
    }
}

/// The places of one listener. Clones share them.
#[derive(Debug, Clone)]
pub struct Room(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    strangers: Places<Source, u64>,
    identified: Places<Arc<str>, u64, Arc<str>>,
    /// Maps the key of each place to the channel that notifies the task when another connection takes the place.
    holders: FxHashMap<u64, oneshot::Sender<()>>,
    next_key: u64,
    /// Number of connections that were closed or rejected for lack of a place, since `take_crowded_out` was last
    /// called.
    crowded_out: u64,
}

/// A place in a [`Room`]. Dropping it frees the place.
#[derive(Debug)]
pub struct Place {
    standing: Standing,
    replaced: oneshot::Receiver<()>,
    is_replaced: bool,
}

/// A handle that marks a connection as no longer silent. Clones belong to the same connection.
#[derive(Debug, Clone)]
pub struct Standing {
    key: u64,
    room: Room,
}

/// The connection has lost its place to another connection, or gets no place for its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was closed to make room for a newer one")]
pub struct Replaced;

impl Room {
    pub fn new(size: RoomSize) -> Self {
        Self(Arc::new(Mutex::new(State {
            strangers: Places::new(size.strangers),
            identified: Places::grouped(size.identified, namespace_of),
            holders: FxHashMap::default(),
            next_key: 0,
            crowded_out: 0,
        })))
    }

    /// Finds a place for a new connection. If no place is free, the new connection may take the place of another
    /// connection. Returns `None` if it may not; the caller must then close the new connection. [`Places`] has the
    /// rules.
    pub fn enter(&self, source: Source) -> Option<Place> {
        self.enter_as_since(source, Instant::now())
    }

    /// Like [`Room::enter`], for a connection that could have entered at `since` already. It is as old as if it had.
    pub fn enter_as_since(&self, source: Source, since: Instant) -> Option<Place> {
        let mut state = self.state();
        let key = state.next_key;
        state.next_key += 1;
        let entry = state.strangers.enter_as_since(source, key, since);
        if !state.make_way(entry) {
            return None;
        }
        let (holder, replaced) = oneshot::channel();
        state.holders.insert(key, holder);
        drop(state);
        Some(Place { standing: Standing { key, room: self.clone() }, replaced, is_replaced: false })
    }

    /// Number of connections with a place.
    pub fn len(&self) -> usize {
        self.state().holders.len()
    }

    /// Returns the number of connections that were closed or rejected for lack of a place since the last call to this
    /// method, and the address that has the most connections now.
    pub fn take_crowded_out(&self) -> (u64, Option<Source>) {
        let mut state = self.state();
        (std::mem::take(&mut state.crowded_out), state.strangers.most().copied())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No panic can leave the state inconsistent, so a poisoned lock is harmless.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the SPIFFE id of a workload without its service account: what the ids of a namespace have in common.
fn namespace_of(identity: &Arc<str>) -> Arc<str> {
    identity.rsplit_once("/sa/").map_or_else(|| identity.clone(), |(namespace, _)| namespace.into())
}

impl State {
    /// Notifies the connection that `entry` replaces, if any; returns whether the new connection got a place.
    fn make_way(&mut self, entry: Entry<u64>) -> bool {
        match entry {
            Entry::Free => true,
            Entry::Replaces(victim) => {
                self.crowded_out += 1;
                if let Some(holder) = self.holders.remove(&victim) {
                    // Ignore an error: the task of the replaced connection may already have ended.
                    let _ = holder.send(());
                }
                true
            }
            Entry::Full => {
                self.crowded_out += 1;
                false
            }
        }
    }
}

impl Place {
    /// From now on, counts the connection by the identity that its peer has proved, a SPIFFE id, and not by its
    /// address.
    ///
    /// # Errors
    /// [`Replaced`] if another connection has taken this place. Also if all places for identities are taken and no
    /// connection can be replaced, for example because this identity and its namespace hold the most places. The caller
    /// must close the connection.
    pub fn identify(&self, identity: &str) -> Result<(), Replaced> {
        let Standing { key, room } = &self.standing;
        let mut state = room.state();
        if !state.holders.contains_key(key) {
            return Err(Replaced);
        }
        let entry = state.identified.enter(identity.into(), *key);
        if !state.make_way(entry) {
            return Err(Replaced);
        }
        state.strangers.leave(*key);
        Ok(())
    }

    /// Returns a handle with which another task can mark the connection as no longer silent.
    pub fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Runs `work` for as long as the connection has its place.
    ///
    /// # Errors
    /// [`Replaced`] if another connection takes the place first.
    pub async fn hold<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Replaced> {
        tokio::select! {
            done = work => Ok(done),
            () = poll_fn(|cx| self.poll_replaced(cx)) => Err(Replaced),
        }
    }

    /// Returns ready once another connection has taken this connection's place.
    pub fn poll_replaced(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_replaced {
            self.is_replaced = Pin::new(&mut self.replaced).poll(cx).is_ready();
        }
        if self.is_replaced { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Standing {
    /// Records that the connection has sent a complete request or handshake. From now on, silent connections lose their
    /// places before this connection does.
    pub fn settle(&self) {
        let mut state = self.room.state();
        state.strangers.settle(self.key);
        state.identified.settle(self.key);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.standing.room.state();
        state.strangers.leave(self.standing.key);
        state.identified.leave(self.standing.key);
        state.holders.remove(&self.standing.key);
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
