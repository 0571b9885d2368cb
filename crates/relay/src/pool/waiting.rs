//! The calls that wait for a connection to one endpoint, in the order in which they came.
//!
//! Peers decide how long the queue is, and when a call leaves the queue. So each operation must be cheap in a long
//! queue: its cost grows only with the logarithm of the length.

use std::collections::BTreeMap;

use crate::call::attempt::AttemptId;

/// A call's position in a queue: a number that no other call of the worker has had. Later calls have larger numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn(pub(crate) u64);

#[derive(Debug, Default, Clone)]
pub(crate) struct Waiting {
    /// Calls that may use the part of a flow-control window that is reserved for small calls.
    small: BTreeMap<Turn, AttemptId>,
    others: BTreeMap<Turn, AttemptId>,
}

impl Waiting {
    pub(crate) fn len(&self) -> usize {
        self.small.len() + self.others.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn join(&mut self, turn: Turn, id: AttemptId, is_small: bool) {
        if is_small { &mut self.small } else { &mut self.others }.insert(turn, id);
    }

    /// Moves a call to the small calls, because the call has turned out to be small. The call keeps its position.
    pub(crate) fn note_small(&mut self, turn: Turn) {
        if let Some(id) = self.others.remove(&turn) {
            self.small.insert(turn, id);
        }
    }

    pub(crate) fn leave(&mut self, turn: Turn) {
        if self.small.remove(&turn).is_none() {
            self.others.remove(&turn);
        }
    }

    /// Returns the call that has waited longest.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Turn, AttemptId)> {
        if self.is_empty() { None } else { self.earlier_front() }
    }

    fn earlier_front(&self) -> Option<(Turn, AttemptId)> {
        let fronts = [front(&self.small), front(&self.others)];
        fronts.into_iter().flatten().min_by_key(|(turn, _)| *turn)
    }

    /// Returns the small call that has waited longest.
    pub(crate) fn first_small(&self) -> Option<(Turn, AttemptId)> {
        front(&self.small)
    }

    /// Returns all attempts in the order in which they came.
    pub(crate) fn into_attempts(mut self) -> impl Iterator<Item = AttemptId> {
        self.others.append(&mut self.small);
        self.others.into_values()
    }
}

fn front(line: &BTreeMap<Turn, AttemptId>) -> Option<(Turn, AttemptId)> {
    line.first_key_value().map(|(turn, id)| (*turn, *id))
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
