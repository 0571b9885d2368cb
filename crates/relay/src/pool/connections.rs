//! The connections of a pool, and which of them are free.
//!
//! An endpoint may have thousands of connections that carry one call each. So the cost of each operation does not
//! depend on the number of connections.

use rustc_hash::FxHashMap;

use crate::pool::upstream::UpstreamId;

/// The ids of a pool's connections. They are in order of age until a connection is removed.
///
/// Invariant: `places` has the position of each connection in `all`, and in `free` if the connection is free.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    all: Vec<UpstreamId>,
    /// Connections without a call, in a pool whose connections carry one call each. A call takes the last connection of
    /// the list, so that the other connections become idle.
    free: Vec<UpstreamId>,
    /// Number of connections that take no further call, for example because they carry a tunnel.
    spent: usize,
    places: FxHashMap<UpstreamId, Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    all: usize,
    free: Option<usize>,
    is_spent: bool,
}

impl Connections {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = UpstreamId> {
        self.all.iter().copied()
    }

    /// Returns the free connections, the most recently used first.
    pub(crate) fn free(&self) -> impl Iterator<Item = UpstreamId> {
        self.free.iter().rev().copied()
    }

    pub(crate) fn push(&mut self, id: UpstreamId) {
        self.places.insert(id, Place { all: self.all.len(), free: None, is_spent: false });
        self.all.push(id);
    }

    /// Removes a connection. Returns whether it was in the pool.
    pub(crate) fn remove(&mut self, id: UpstreamId) -> bool {
        self.set_free(id, false);
        let Some(place) = self.places.remove(&id) else { return false };
        self.spent -= usize::from(place.is_spent);
        self.all.swap_remove(place.all);
        if let Some(moved) = self.all.get(place.all).and_then(|moved| self.places.get_mut(moved)) {
            moved.all = place.all;
        }
        true
    }

    /// Returns whether any of the connections takes calls, now or later.
    pub(crate) fn can_serve(&self) -> bool {
        self.all.len() > self.spent
    }

    /// Records whether a connection takes no further call. Ignores a connection that is not in the pool.
    pub(crate) fn set_spent(&mut self, id: UpstreamId, is_spent: bool) {
        let Some(place) = self.places.get_mut(&id) else { return };
        match (std::mem::replace(&mut place.is_spent, is_spent), is_spent) {
            (false, true) => self.spent += 1,
            (true, false) => self.spent -= 1,
            _ => {}
        }
    }

    /// Records whether a connection is free. Ignores a connection that is not in the pool.
    pub(crate) fn set_free(&mut self, id: UpstreamId, is_free: bool) {
        let Some(place) = self.places.get_mut(&id) else { return };
        match (place.free, is_free) {
            (None, true) => {
                place.free = Some(self.free.len());
                self.free.push(id);
            }
            (Some(at), false) => {
                place.free = None;
                self.free.swap_remove(at);
                if let Some(moved) = self.free.get(at).and_then(|moved| self.places.get_mut(moved)) {
                    moved.free = Some(at);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
