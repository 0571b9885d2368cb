//! Places: a limited number of connections, shared fairly among accounts. An account is a source address or an
//! identity. Accounts can form groups ([`Places::grouped`]), such as the identities of a namespace. Otherwise, all
//! accounts are one group.
//!
//! While places are free, an account may take any number of them. When no place is free, a new connection takes the
//! place of another connection. The rules below select the connection that loses its place. The first rule that applies
//! decides. If `n` groups have connections, the equal part of a group is `capacity / n`.
//!
//! 1. Of the groups with silent connections, the rule looks at the group with the most connections. It applies if this
//!    group has more than its equal part, and is the new connection's own group or has more connections than that
//!    group. The group's account with the most silent connections then loses its oldest silent connection.
//! 2. The group with the most connections loses the oldest connection of its account with the most. This happens only
//!    if the group then still has at least as many connections as the new connection's group.
//! 3. In the new connection's own group, the account with the most silent connections loses its oldest silent
//!    connection.
//! 4. In the new connection's own group, the account with the most connections loses its oldest connection. This
//!    happens only if that account then still has at least as many connections as the new connection's account.
//! 5. The new connection is rejected.
//!
//! If several accounts have the largest number, the oldest of their connections is closed. If the order of addresses
//! decided instead, a flood from many addresses would always close the connections of the greatest address.
//!
//! So a group finds room for its equal part, and other groups never take the place of one of so few connections, silent
//! or not. More accounts do not enlarge a group's part: a tenant can make up as many identities as it likes, but no
//! namespaces. Without groups, only rules 3 to 5 apply, so a few silent connections never lock other clients out.
//!
//! A connection is silent until it has sent something complete: a request, or a TLS handshake. Invariants: every
//! connection in `members` is in exactly one of its account's two queues; the `most` of its group has one entry for
//! each account with connections, and `most_silent` one for each account with silent connections; `largest` has one
//! entry for each group with connections, and `largest_silent` one for each group with silent connections;
//! `len() <= capacity`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::time::Instant;

use rustc_hash::FxHashMap;

/// The result for a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<K> {
    /// The new connection got a free place.
    Free,
    /// The new connection got the place of another connection, `K`. The caller must close that connection now.
    Replaces(K),
    /// The new connection got no place; the caller must close it.
    Full,
}

/// The age of a connection: since when it counts as being in its place, then the order of entry. Lower is older.
type Age = (Instant, u64);

/// The connections of one listener. `A` is the account of a connection: a source address or an identity. `K` is the key
/// by which the caller identifies a connection. `G` is the name of a group.
#[derive(Debug)]
pub struct Places<A, K, G = ()> {
    capacity: usize,
    members: FxHashMap<K, Member<A>>,
    accounts: FxHashMap<A, Account<K>>,
    /// Returns the name of an account's group.
    group_of: fn(&A) -> G,
    /// The groups, by their names.
    groups: FxHashMap<G, Group<A>>,
    /// All groups, ordered by their rank.
    largest: BTreeSet<(GroupRank, G)>,
    /// The groups that have silent connections, ordered by a rank that counts only the silent connections of an
    /// account.
    largest_silent: BTreeSet<(GroupRank, G)>,
    next_serial: u64,
}

/// An account's number of connections and, to decide between equal numbers, the age of its oldest connection. The
/// account with the greatest rank loses a connection first.
type Rank = (usize, Reverse<Age>);

/// A group's number of connections and, to decide between equal numbers, the rank of its account with the greatest
/// rank.
type GroupRank = (usize, Rank);

#[derive(Debug)]
struct Member<A> {
    account: A,
    age: Age,
    is_silent: bool,
}

/// The accounts of a group that have connections.
#[derive(Debug)]
struct Group<A> {
    connections: usize,
    /// The accounts, ordered by their rank, which counts all of their connections.
    most: BTreeSet<(Rank, A)>,
    /// The accounts that have silent connections, ordered by a rank that counts only silent connections.
    most_silent: BTreeSet<(Rank, A)>,
}

impl<A: Ord> Group<A> {
    /// Returns the group's rank; `None` if it has no connection.
    fn rank(&self) -> Option<GroupRank> {
        self.most.last().map(|(rank, _)| (self.connections, *rank))
    }

    /// Returns the group's rank among the groups with silent connections; `None` if it has no silent connection.
    fn silent_rank(&self) -> Option<GroupRank> {
        self.most_silent.last().map(|(rank, _)| (self.connections, *rank))
    }
}

/// An account's connections, oldest first.
#[derive(Debug)]
struct Account<K> {
    silent: BTreeMap<Age, K>,
    settled: BTreeMap<Age, K>,
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
    /// The accounts share the places equally. All accounts are one group.
    pub fn new(capacity: usize) -> Self {
        Self::grouped(capacity, |_| ())
    }
}

impl<A: Clone + Ord + Hash, K: Copy + Eq + Hash, G: Clone + Ord + Hash> Places<A, K, G> {
    /// Accounts for which `group_of` returns the same name form a group. The groups share the places equally, then the
    /// accounts of each group.
    pub fn grouped(capacity: usize, group_of: fn(&A) -> G) -> Self {
        Self {
            capacity,
            members: FxHashMap::default(),
            accounts: FxHashMap::default(),
            group_of,
            groups: FxHashMap::default(),
            largest: BTreeSet::new(),
            largest_silent: BTreeSet::new(),
            next_serial: 0,
        }
    }

    /// Finds a place for a new, silent connection. `key` must not have a place already.
    pub fn enter(&mut self, account: A, key: K) -> Entry<K> {
        self.enter_as_since(account, key, Instant::now())
    }

    /// Like [`Places::enter`], for a connection that could have entered at `since` already. It is as old as if it had.
    pub fn enter_as_since(&mut self, account: A, key: K, since: Instant) -> Entry<K> {
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
        let age = (since, self.next_serial);
        self.next_serial += 1;
        self.change(&account, |queues| queues.silent.insert(age, key));
        self.members.insert(key, Member { account, age, is_silent: true });
        entry
    }

    /// Records that the connection has sent a complete request or handshake, so that it is no longer silent. No effect
    /// if it has no place or is not silent.
    pub fn settle(&mut self, key: K) {
        let Some(member) = self.members.get_mut(&key).filter(|member| member.is_silent) else { return };
        member.is_silent = false;
        let (account, age) = (member.account.clone(), member.age);
        self.change(&account, |queues| {
            queues.silent.remove(&age);
            queues.settled.insert(age, key)
        });
    }

    /// Records that the connection has ended. No effect if it has no place.
    pub fn leave(&mut self, key: K) {
        let Some(member) = self.members.remove(&key) else { return };
        let Member { account, age, is_silent } = member;
        self.change(&account, |queues| match is_silent {
            true => queues.silent.remove(&age),
            false => queues.settled.remove(&age),
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

    /// The account with the most connections in the group with the most.
    pub fn most(&self) -> Option<&A> {
        let (_, group) = self.largest.last()?;
        self.groups.get(group)?.most.last().map(|(_, account)| account)
    }

    /// Returns the connection that a new connection of `account` replaces; `None` if the new connection must be
    /// rejected.
    fn victim(&self, account: &A) -> Option<K> {
        let name = (self.group_of)(account);
        let own = self.groups.get(&name);
        let own_holds = own.map_or(0, |own| own.connections);
        let groups = self.groups.len() + usize::from(own.is_none());
        if let Some(((holds, _), group)) = self.largest_silent.last()
            && holds * groups > self.capacity
            && (*group == name || *holds > own_holds)
        {
            return self.oldest_silent(self.groups.get(group)?);
        }
        // If the largest group had silent connections, and more connections than the own group, it would be above its
        // equal part, and the rule above would have applied. So in the rest, look at its settled connections only.
        let ((holds, _), largest) = self.largest.last()?;
        if *holds > own_holds + 1 {
            let (_, most) = self.groups.get(largest)?.most.last()?;
            return self.oldest_settled(most);
        }
        let own = own?;
        if let Some(silent) = self.oldest_silent(own) {
            return Some(silent);
        }
        let ((holds, _), most) = own.most.last()?;
        if *holds > self.held_by(account) + 1 { self.oldest_settled(most) } else { None }
    }

    /// Returns the oldest silent connection of the account with the most in a group; `None` if the group has no silent
    /// connection.
    fn oldest_silent(&self, group: &Group<A>) -> Option<K> {
        let (_, account) = group.most_silent.last()?;
        self.accounts.get(account)?.silent.values().next().copied()
    }

    fn oldest_settled(&self, account: &A) -> Option<K> {
        self.accounts.get(account)?.settled.values().next().copied()
    }

    /// Changes an account's queues, and keeps its group, `largest` and `largest_silent` up to date.
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
        let name = (self.group_of)(account);
        let new = || Group { connections: 0, most: BTreeSet::new(), most_silent: BTreeSet::new() };
        let group = self.groups.entry(name.clone()).or_insert_with(new);
        let group_before = (group.rank(), group.silent_rank());
        let [had, has] = [before.0, after.0].map(|rank| rank.map_or(0, |(len, _)| len));
        group.connections = group.connections + has - had;
        reorder(&mut group.most, account, before.0, after.0);
        reorder(&mut group.most_silent, account, before.1, after.1);
        let group_after = (group.rank(), group.silent_rank());
        if group_after.0.is_none() {
            self.groups.remove(&name);
        }
        reorder(&mut self.largest, &name, group_before.0, group_after.0);
        reorder(&mut self.largest_silent, &name, group_before.1, group_after.1);
    }
}

/// Moves an account or a group in `order` from its old rank to its new rank; removes it if its new rank is `None`.
fn reorder<R: Ord, A: Clone + Ord>(order: &mut BTreeSet<(R, A)>, name: &A, before: Option<R>, after: Option<R>) {
    if before == after {
        return;
    }
    if let Some(before) = before {
        order.remove(&(before, name.clone()));
    }
    if let Some(after) = after {
        order.insert((after, name.clone()));
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
