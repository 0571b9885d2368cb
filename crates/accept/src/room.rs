//! Room: [`Places`] that the tasks of a program share. A task whose place another connection takes is told so.
//!
//! Strangers count by their addresses, and peers that have shown a certificate of the mesh by their identities. Each kind has
//! places of its own, so that neither can use up those of the other.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use crate::{Entry, Places, Source};

/// How many connections there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomSize {
    /// Connections whose peers have shown no certificate of the mesh.
    pub strangers: usize,
    /// Connections whose peers have.
    pub identified: usize,
}

impl RoomSize {
    /// For a listener at which no peer shows a certificate of the mesh.
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
    identified: Places<Arc<str>, u64>,
    /// By which the holder of a place learns that another connection has it.
    holders: FxHashMap<u64, oneshot::Sender<()>>,
    next_key: u64,
    /// Connections that had to go for want of a place, since it was asked last.
    crowded_out: u64,
}

/// A place in a [`Room`]; free again when dropped.
#[derive(Debug)]
pub struct Place {
    standing: Standing,
    replaced: oneshot::Receiver<()>,
    is_replaced: bool,
}

/// Says on behalf of a connection that it has said something whole. Clones are for the same connection.
#[derive(Debug, Clone)]
pub struct Standing {
    key: u64,
    room: Room,
}

/// Another connection has the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was closed to make room for a newer one")]
pub struct Replaced;

impl Room {
    /// Room for that many connections.
    pub fn new(size: RoomSize) -> Self {
        Self(Arc::new(Mutex::new(State {
            strangers: Places::new(size.strangers),
            identified: Places::new(size.identified),
            holders: FxHashMap::default(),
            next_key: 0,
            crowded_out: 0,
        })))
    }

    /// Finds a place for a newcomer, which may cost another connection its own. Nothing if the newcomer's address holds the
    /// most places already: the newcomer must be closed.
    pub fn enter(&self, source: Source) -> Option<Place> {
        let mut state = self.state();
        let key = state.next_key;
        state.next_key += 1;
        let entry = state.strangers.enter(source, key);
        if !state.make_way(entry) {
            return None;
        }
        let (holder, replaced) = oneshot::channel();
        state.holders.insert(key, holder);
        drop(state);
        Some(Place { standing: Standing { key, room: self.clone() }, replaced, is_replaced: false })
    }

    /// Connections that have a place.
    pub fn len(&self) -> usize {
        self.state().holders.len()
    }

    /// How many connections had to go for want of a place since this was asked last, and the address with the most now.
    pub fn take_crowded_out(&self) -> (u64, Option<Source>) {
        let mut state = self.state();
        (std::mem::take(&mut state.crowded_out), state.strangers.most().copied())
    }

    /// Whether no connection has a place.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every step is whole before the next can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Tells the connection that a newcomer replaces; whether the newcomer has a place.
    fn make_way(&mut self, entry: Entry<u64>) -> bool {
        match entry {
            Entry::Free => true,
            Entry::Replaces(victim) => {
                self.crowded_out += 1;
                if let Some(holder) = self.holders.remove(&victim) {
                    // The task may be ending anyway.
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
    /// Counts the connection by an identity from now on, which its peer has proved, rather than by its address.
    ///
    /// # Errors
    /// [`Replaced`] if the identity holds the most places already: the connection must be closed.
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

    /// By which others settle the connection.
    pub fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Does something for as long as the connection has its place.
    ///
    /// # Errors
    /// [`Replaced`] if another connection took the place before that was done.
    pub async fn hold<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Replaced> {
        tokio::select! {
            done = work => Ok(done),
            () = poll_fn(|cx| self.poll_replaced(cx)) => Err(Replaced),
        }
    }

    /// Ready when another connection has taken the place.
    pub fn poll_replaced(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_replaced {
            self.is_replaced = Pin::new(&mut self.replaced).poll(cx).is_ready();
        }
        if self.is_replaced { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Standing {
    /// The connection has said something whole: it yields its place after those that have not.
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
