//! Places: a limited number of connections, shared fairly among accounts. An account is a source address or an
//! identity.
//!
//! While places are free, an account may take any number of them. When no place is free, a new connection takes the
//! place of another connection, so that a few silent connections never lock other clients out:
//!
//! 1. The account with the largest number of silent connections loses its oldest silent connection.
//! 2. If no connection is silent, the account with the largest number of connections loses its oldest connection. This
//!    happens only if that account then still has at least as many connections as the new connection's account.
//! 3. Otherwise, the new connection is rejected.
//!
//! If several accounts have the largest number, the oldest of their connections is closed. If the order of addresses
//! decided instead, a flood from many addresses would always close the connections of the greatest address.
//!
//! A connection is silent until it has sent something complete: a request, or a TLS handshake. Invariants: every
//! connection in `members` is in exactly one of its account's two queues; `most` has one entry for each account with
//! connections, and `most_silent` one for each account with silent connections; `len() <= capacity`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// The result for a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<K> {
    /// The new connection got a free place.
    Free,
    /// The new connection got the place of an older connection, `K`. The caller must close the older connection now.
    Replaces(K),
    /// The new connection got no place; the caller must close it.
    Full,
}

/// The connections of one listener. `A` is the account of a connection: a source address or an identity. `K` is the key
/// by which the caller identifies a connection.
#[derive(Debug)]
pub struct Places<A, K> {
    capacity: usize,
    members: FxHashMap<K, Member<A>>,
    accounts: FxHashMap<A, Account<K>>,
    /// All accounts, ordered by their rank, which counts all of their connections.
    most: BTreeSet<(Rank, A)>,
    /// The accounts that have silent connections, ordered by a rank that counts only silent connections.
    most_silent: BTreeSet<(Rank, A)>,
    next_serial: u64,
}

/// An account's number of connections and, to decide between equal numbers, the age of its oldest connection. The
/// account with the greatest rank loses a connection first.
type Rank = (usize, Reverse<u64>);

#[derive(Debug)]
struct Member<A> {
    account: A,
    serial: u64,
    is_silent: bool,
}

/// An account's connections, oldest first.
#[derive(Debug)]
struct Account<K> {
    silent: BTreeMap<u64, K>,
    settled: BTreeMap<u64, K>,
}

impl<K> Account<K> {
    fn len(&self) -> usize {
        self.silent.len() + self.settled.len()
    }

    /// Returns the account's rank, counting all of its connections; `None` if it has no connection.
    fn rank(&self) -> Option<Rank> {
        let oldest = [&self.silent, &self.settled].into_iter().filter_map(|queue| queue.keys().next()).min()?;
        Some((self.len(), Reverse(*oldest)))
    }

    /// Returns the account's rank, counting only its silent connections; `None` if it has no silent connection.
    fn silent_rank(&self) -> Option<Rank> {
        Some((self.silent.len(), Reverse(*self.silent.keys().next()?)))
    }
}

impl<A: Clone + Ord + Hash, K: Copy + Eq + Hash> Places<A, K> {
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            members: FxHashMap::default(),
            accounts: FxHashMap::default(),
            most: BTreeSet::new(),
            most_silent: BTreeSet::new(),
            next_serial: 0,
        }
    }

    /// Finds a place for a new, silent connection. `key` must not have a place already.
    pub fn enter(&mut self, account: A, key: K) -> Entry<K> {
        debug_assert!(!self.members.contains_key(&key), "a connection enters once");
        let entry = match self.members.len() < self.capacity {
            true => Entry::Free,
            false => match self.victim(&account) {
                Some(victim) => {
                    self.leave(victim);
                    Entry::Replaces(victim)
                }
                None => return Entry::Full,
            },
        };
        let serial = self.next_serial;
        self.next_serial += 1;
        self.change(&account, |queues| queues.silent.insert(serial, key));
        self.members.insert(key, Member { account, serial, is_silent: true });
        entry
    }

    /// Records that the connection has sent a complete request or handshake, so that it is no longer silent. No effect
    /// if it has no place or is not silent.
    pub fn settle(&mut self, key: K) {
        let Some(member) = self.members.get_mut(&key).filter(|member| member.is_silent) else { return };
        member.is_silent = false;
        let (account, serial) = (member.account.clone(), member.serial);
        self.change(&account, |queues| {
            queues.silent.remove(&serial);
            queues.settled.insert(serial, key)
        });
    }

    /// Records that the connection has ended. No effect if it has no place.
    pub fn leave(&mut self, key: K) {
        let Some(member) = self.members.remove(&key) else { return };
        let Member { account, serial, is_silent } = member;
        self.change(&account, |queues| match is_silent {
            true => queues.silent.remove(&serial),
            false => queues.settled.remove(&serial),
        });
    }

    /// Number of connections that have a place.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Number of connections of one account.
    pub fn held_by(&self, account: &A) -> usize {
        self.accounts.get(account).map_or(0, Account::len)
    }

    /// The account with the most connections.
    pub fn most(&self) -> Option<&A> {
        self.most.last().map(|(_, account)| account)
    }

    /// Returns the connection that a new connection of `account` replaces; `None` if the new connection must be
    /// rejected.
    fn victim(&self, account: &A) -> Option<K> {
        if let Some((_, silent)) = self.most_silent.last() {
            return self.accounts.get(silent)?.silent.values().next().copied();
        }
        let ((holds, _), most) = self.most.last()?;
        let is_fair = most != account && *holds > self.held_by(account) + 1;
        is_fair.then(|| self.accounts.get(most)?.settled.values().next().copied())?
    }

    /// Changes an account's queues, and keeps `most` and `most_silent` up to date.
    fn change<R>(&mut self, account: &A, change: impl FnOnce(&mut Account<K>) -> R) {
        let queues = self
            .accounts
            .entry(account.clone())
            .or_insert_with(|| Account { silent: BTreeMap::new(), settled: BTreeMap::new() });
        let before = (queues.rank(), queues.silent_rank());
        change(queues);
        let after = (queues.rank(), queues.silent_rank());
        if after.0.is_none() {
            self.accounts.remove(account);
        }
        reorder(&mut self.most, account, before.0, after.0);
        reorder(&mut self.most_silent, account, before.1, after.1);
    }
}

/// Moves an account in `order` from its old rank to its new rank; removes an account whose new rank is `None`.
fn reorder<A: Clone + Ord>(order: &mut BTreeSet<(Rank, A)>, account: &A, before: Option<Rank>, after: Option<Rank>) {
    if before == after {
        return;
    }
    if let Some(before) = before {
        order.remove(&(before, account.clone()));
    }
    if let Some(after) = after {
        order.insert((after, account.clone()));
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
