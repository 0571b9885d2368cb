//! Accounts: who is answerable for calls, and which connections to endpoints these may use.
//!
//! A connection to an endpoint is shared by the calls of many clients, so that what one client does there could cost the
//! others: it may take all the streams that the server grants, or provoke the server into closing the connection. An account
//! that takes more than its share gets connections of its own, a *lane*. What happens there is what would happen without a
//! proxy between: the account alone bears it.
//!
//! The account of a call from another workload is that workload's identity, or its address if it has shown no certificate.
//! The application beside us owns all its connections; each is an account.

use std::sync::Arc;

use leno_accept::Source;
use leno_model::spiffe::SpiffeId;
use rustc_hash::FxHashMap;
use slab::Slab;

use crate::limits::RelayLimits;

/// Lanes that accounts have for themselves. When there are more such accounts, some of them share a lane.
const OWN_LANES: usize = 32;
/// Sweeps in which calls that an account cancelled are counted together: 10 s.
const CANCEL_WINDOW_SWEEPS: u32 = 100;

/// Which connections to an endpoint a call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// Those of our own application, and of workloads that have proved who they are.
    Shared,
    /// Those of callers without an identity: they take no stream from a caller that has one.
    Unidentified,
    /// Those of one account, by number.
    Own(u8),
}

impl Lane {
    /// Whether accounts that have nothing to do with each other use the same connections.
    pub(super) fn is_common(self) -> bool {
        !matches!(self, Self::Own(_))
    }
}

/// What names an account that has several connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum AccountKey {
    /// A workload that has shown its certificate.
    Identity(Arc<SpiffeId>),
    /// A caller of the application that has shown none.
    Address(Source),
}

/// What is kept of an account while it has a connection to us.
#[derive(Debug)]
pub(super) struct Account {
    /// None for a connection of our own application.
    key: Option<AccountKey>,
    connections: u32,
    /// Its calls in flight.
    calls: u32,
    /// Those of them on common connections whose requests had not ended when they were sent, and have not ended yet.
    open_calls: u32,
    lane: Option<u8>,
    /// It has cancelled or dribbled a lot: all its new calls go on its own lane.
    stands_out: bool,
    cancels: Count,
    dribbles: Count,
}

/// Events in the current window of sweeps.
#[derive(Debug, Default)]
struct Count {
    window: u32,
    events: u32,
}

impl Count {
    /// Counts one event; returns how many there have been in this window.
    fn add(&mut self, window: u32) -> u32 {
        if self.window != window {
            *self = Self { window, events: 0 };
        }
        self.events = self.events.saturating_add(1);
        self.events
    }
}

/// The accounts of one worker.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    accounts: Slab<Account>,
    by_key: FxHashMap<AccountKey, usize>,
    /// How many accounts use each lane.
    lanes: [u32; OWN_LANES],
    /// Counts sweeps, the clock of the counters.
    sweeps: u32,
}

impl Accounts {
    /// A connection has come; returns the place of its account, to be given back with [`Accounts::leave`].
    pub(super) fn enter(&mut self, key: Option<AccountKey>) -> usize {
        if let Some(&index) = key.as_ref().and_then(|key| self.by_key.get(key)) {
            if let Some(account) = self.accounts.get_mut(index) {
                account.connections += 1;
            }
            return index;
        }
        let index = self.accounts.insert(Account {
            key: key.clone(),
            connections: 1,
            calls: 0,
            open_calls: 0,
            lane: None,
            stands_out: false,
            cancels: Count::default(),
            dribbles: Count::default(),
        });
        if let Some(key) = key {
            self.by_key.insert(key, index);
        }
        index
    }

    /// A connection has ended. With its last one an account is forgotten.
    pub(super) fn leave(&mut self, index: usize) {
        let Some(account) = self.accounts.get_mut(index) else { return };
        account.connections -= 1;
        if account.connections > 0 {
            return;
        }
        let account = self.accounts.remove(index);
        if let Some(key) = account.key {
            self.by_key.remove(&key);
        }
        if let Some(users) = account.lane.and_then(|lane| self.lanes.get_mut(usize::from(lane))) {
            *users -= 1;
        }
    }

    /// Whether an account is that of a caller of our application, and not our application itself.
    pub(super) fn is_of_a_caller(&self, index: usize) -> bool {
        self.accounts.get(index).is_some_and(|account| account.key.is_some())
    }

    /// Whether an account may have one more call, which is counted already, of `calls` in flight. The application may use all of
    /// `max_calls`, callers with an identity three quarters and callers without one half; each account as many as it leaves free
    /// of that. Copies of requests have no account.
    pub(super) fn may_begin(&self, index: Option<usize>, calls: usize, max_calls: usize) -> bool {
        let account = index.and_then(|index| self.accounts.get(index));
        let (part, own) = match account.map(|account| (&account.key, account.calls as usize)) {
            Some((Some(AccountKey::Address(_)), own)) => (max_calls / 2, own),
            Some((Some(AccountKey::Identity(_)), own)) => (max_calls / 4 * 3, own),
            Some((None, _)) | None => return calls <= max_calls,
        };
        calls + own <= part.max(2)
    }

    /// A call has begun.
    pub(super) fn call_begun(&mut self, index: usize) {
        if let Some(account) = self.accounts.get_mut(index) {
            account.calls += 1;
        }
    }

    /// A call is over.
    pub(super) fn call_ended(&mut self, index: usize) {
        if let Some(account) = self.accounts.get_mut(index) {
            account.calls = account.calls.saturating_sub(1);
        }
    }

    /// A call is sent on a common connection while its request is still coming.
    pub(super) fn request_open(&mut self, index: usize) {
        if let Some(account) = self.accounts.get_mut(index) {
            account.open_calls += 1;
        }
    }

    /// The request of such a call has ended, or the call is over.
    pub(super) fn request_ended(&mut self, index: usize) {
        if let Some(account) = self.accounts.get_mut(index) {
            account.open_calls = account.open_calls.saturating_sub(1);
        }
    }

    /// The connections for a call that is about to be sent. `is_open` says that its request is still coming.
    pub(super) fn lane(&mut self, index: usize, is_open: bool, relay: &RelayLimits) -> Lane {
        let Some(account) = self.accounts.get(index) else { return Lane::Shared };
        let has_its_share = account.calls > relay.max_shared_calls_per_account
            || (is_open && account.open_calls >= relay.max_shared_open_calls_per_account);
        if account.stands_out || has_its_share {
            return self.own_lane(index);
        }
        match account.key {
            Some(AccountKey::Address(_)) => Lane::Unidentified,
            Some(AccountKey::Identity(_)) | None => Lane::Shared,
        }
    }

    /// The account's own lane: the one with the fewest users when it needs it first, and the same one from then on.
    fn own_lane(&mut self, index: usize) -> Lane {
        let Some(account) = self.accounts.get_mut(index) else { return Lane::Shared };
        let lanes = &mut self.lanes;
        let lane = *account.lane.get_or_insert_with(|| {
            let fewest = lanes.iter_mut().enumerate().min_by_key(|(_, users)| **users);
            fewest.map_or(0, |(lane, users)| {
                *users += 1;
                lane as u8
            })
        });
        Lane::Own(lane)
    }

    /// The account has cancelled a call that its server was working on, on connections that others use.
    pub(super) fn cancelled(&mut self, index: usize, relay: &RelayLimits) {
        let window = self.sweeps / CANCEL_WINDOW_SWEEPS;
        if let Some(account) = self.accounts.get_mut(index) {
            account.stands_out |= account.cancels.add(window) > relay.max_shared_cancels_per_account;
        }
    }

    /// The account has sent a few bytes of content, and a few bytes before. Returns whether there is too much of that.
    pub(super) fn dribbled(&mut self, index: usize, relay: &RelayLimits) -> bool {
        let window = self.sweeps;
        let Some(account) = self.accounts.get_mut(index) else { return false };
        let is_too_much = account.dribbles.add(window) > relay.max_dribbles_per_account;
        account.stands_out |= is_too_much;
        is_too_much
    }

    /// A tenth of a second has passed.
    pub(super) fn sweep(&mut self) {
        self.sweeps = self.sweeps.wrapping_add(1);
    }

    pub(super) fn shrink(&mut self) {
        self.accounts.shrink_to_fit();
        self.by_key.shrink_to_fit();
    }
}

#[cfg(test)]
#[path = "accounts_tests.rs"]
mod tests;
