//! Turns: a queue of waiting work that serves client accounts in turn. So an account with much work delays each other
//! account by only one piece of work.
//!
//! Invariants: `order` names each account with waiting work exactly once; `len() <= capacity`.

use std::collections::VecDeque;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Waiting work of the accounts `A`.
#[derive(Debug)]
pub struct Turns<A, T> {
    capacity: usize,
    len: usize,
    /// The accounts in the order of their turns.
    order: VecDeque<A>,
    waiting: FxHashMap<A, VecDeque<T>>,
}

/// There was no room for the work; it was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl<A: Clone + Eq + Hash, T> Turns<A, T> {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, len: 0, order: VecDeque::new(), waiting: FxHashMap::default() }
    }

    /// Adds work. If there is no room, the account with the most work loses its newest piece of work.
    ///
    /// # Errors
    /// [`Full`] if no other account has more work than this account would have.
    pub fn push(&mut self, account: A, work: T) -> Result<(), Full> {
        if self.len >= self.capacity {
            self.make_room(&account)?;
        }
        let waiting = self.waiting.entry(account.clone()).or_default();
        if waiting.is_empty() {
            self.order.push_back(account);
        }
        waiting.push_back(work);
        self.len += 1;
        Ok(())
    }

    /// Takes the next piece of work: the oldest piece of the account whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let account = self.order.pop_front()?;
        let waiting = self.waiting.get_mut(&account)?;
        let work = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&account);
        } else {
            self.order.push_back(account);
        }
        self.len -= usize::from(work.is_some());
        work
    }

    /// Number of waiting pieces of work.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Drops the newest piece of work of the account with the most work. Scans every account; needed only when the
    /// queue is full.
    fn make_room(&mut self, newcomer: &A) -> Result<(), Full> {
        let held = self.waiting.get(newcomer).map_or(0, VecDeque::len);
        let most = self.waiting.iter_mut().max_by_key(|(_, waiting)| waiting.len());
        let (account, waiting) = most.filter(|(_, waiting)| waiting.len() > held + 1).ok_or(Full)?;
        // At least two pieces of this account were waiting, so the account keeps its turn.
        debug_assert!(waiting.len() > 1 && account != newcomer);
        waiting.pop_back();
        self.len -= 1;
        Ok(())
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
