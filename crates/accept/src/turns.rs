//! Turns: a queue of waiting work that serves client accounts in turn. In each round, the queue takes one piece of work
//! of each account. So an account with much waiting work delays another account by only one piece of work.
//!
//! Invariants: `accounts` contains exactly the accounts with waiting work. `order` contains each account of `accounts`
//! once, under its `turn`. `len() <= capacity`.

use std::collections::BTreeMap;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// A queue of waiting work. `T` is one piece of work; `A` is the account of the client that wants it done.
#[derive(Debug)]
pub struct Turns<A, T> {
    capacity: usize,
    len: usize,
    /// The number that was last given to a ticket or a turn. No number is used twice.
    next: u64,
    /// The accounts in the order of their turns.
    order: BTreeMap<u64, A>,
    accounts: FxHashMap<A, Account<T>>,
}

/// The waiting work of one account.
#[derive(Debug)]
struct Account<T> {
    /// The account's key in [`Turns::order`].
    turn: u64,
    /// The account's waiting work, oldest first.
    work: BTreeMap<Ticket, T>,
}

/// Identifies a piece of work in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The queue was full, so the new work was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl<A: Clone + Eq + Hash, T> Turns<A, T> {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, len: 0, next: 0, order: BTreeMap::new(), accounts: FxHashMap::default() }
    }

    /// Adds work. If the queue is full, the account with the most waiting work loses its newest piece.
    ///
    /// # Errors
    /// [`Full`] if the queue is full and no other account has more work than `account` would have with the new work.
    pub fn push(&mut self, account: A, work: T) -> Result<Ticket, Full> {
        if self.len >= self.capacity {
            self.make_room(&account)?;
        }
        let (turn, ticket) = (self.number(), Ticket(self.number()));
        let order = &mut self.order;
        let waiting = self.accounts.entry(account).or_insert_with_key(|account| {
            order.insert(turn, account.clone());
            Account { turn, work: BTreeMap::new() }
        });
        waiting.work.insert(ticket, work);
        self.len += 1;
        Ok(ticket)
    }

    /// Takes the next piece of work: the oldest piece of the account whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let turn = self.number();
        let (_, account) = self.order.pop_first()?;
        let waiting = self.accounts.get_mut(&account)?;
        let (_, work) = waiting.work.pop_first()?;
        if waiting.work.is_empty() {
            self.accounts.remove(&account);
        } else {
            waiting.turn = turn;
            self.order.insert(turn, account);
        }
        self.len -= 1;
        Some(work)
    }

    /// Removes a piece of waiting work, for example because its client has disconnected. Returns `None` if the queue no
    /// longer has this piece. Must be fast (it takes logarithmic time): a client may withdraw work as fast as it adds
    /// work.
    pub fn remove(&mut self, account: &A, ticket: Ticket) -> Option<T> {
        let waiting = self.accounts.get_mut(account)?;
        let work = waiting.work.remove(&ticket)?;
        if waiting.work.is_empty() {
            self.order.remove(&waiting.turn);
            self.accounts.remove(account);
        }
        self.len -= 1;
        Some(work)
    }

    /// Number of waiting pieces of work.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Drops the newest piece of work of the account with the most work, unless `newcomer` would then have more. Scans
    /// all accounts, but is called only when the queue is full.
    fn make_room(&mut self, newcomer: &A) -> Result<(), Full> {
        let held = self.accounts.get(newcomer).map_or(0, |account| account.work.len());
        let most = self.accounts.iter_mut().max_by_key(|(_, waiting)| waiting.work.len());
        let (account, waiting) = most.filter(|(_, waiting)| waiting.work.len() > held + 1).ok_or(Full)?;
        // Do not change the account's turn: it had at least two waiting pieces, so at least one is left.
        debug_assert!(waiting.work.len() > 1 && account != newcomer);
        waiting.work.pop_last();
        self.len -= 1;
        Ok(())
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
