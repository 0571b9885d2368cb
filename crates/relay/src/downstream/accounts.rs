//! Accounts: the client that a call is charged to, and the connections to endpoints that the call may use.
//!
//! The calls of many clients share a connection to an endpoint, so one client could harm the others: it may use all the
//! streams that the server grants, or provoke the server into closing the connection. An account that uses more than
//! its share moves to a separate set of connections, a *lane*. What happens on this lane affects only the accounts that
//! use it: one account, unless more accounts need a lane than there are lanes.
//!
//! A call from another workload is charged to the account of that workload's identity, or of its address if it has
//! shown no certificate. Each connection of our own application is a separate account.

use std::sync::Arc;

use leno_accept::Source;
use leno_model::spiffe::SpiffeId;
use rustc_hash::FxHashMap;

use crate::certain::Certain;
use crate::inventory::Entries;
use crate::limits::RelayLimits;
use crate::slots::{Id, Slots};

/// Number of lanes for accounts that exceed their share. If there are more such accounts, some of them share a lane.
const OWN_LANES: usize = 32;
/// First lane for callers without a certificate. All lanes from here on are only for such callers, which share no lane
/// with other accounts.
const FIRST_LANE_OF_STRANGERS: usize = 24;
/// The window in which the cancelled calls of an account are counted, in sweeps: 10 s.
const CANCEL_WINDOW_SWEEPS: u32 = 100;

/// The group of connections to an endpoint that a call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Connections for our own application, and for workloads with a verified certificate.
    Shared,
    /// Connections for callers without a certificate, so that these callers take no stream from callers with a
    /// certificate.
    Unidentified,
    /// Connections of the own lane with this number, for accounts that exceed their share.
    Own(u8),
}

impl Lane {
    /// Returns whether unrelated accounts share these connections.
    pub(crate) fn is_common(self) -> bool {
        !matches!(self, Self::Own(_))
    }
}

/// The key of an account that may have several connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum AccountKey {
    /// A workload that has shown its certificate.
    Identity(Arc<SpiffeId>),
    /// The address of a caller of our application that has shown no certificate.
    Address(Source),
}

/// Identifies an account within its worker.
pub(crate) type AccountId = Id<Account>;

/// The state of an account, kept while it has a connection to this worker.
#[derive(Debug)]
pub(crate) struct Account {
    /// `None` for a connection of our own application.
    key: Option<AccountKey>,
    connections: u32,
    /// Calls in flight of this account.
    calls: u32,
    /// Calls in flight on common connections that were sent before their requests were complete, and whose requests are
    /// still incomplete.
    open_calls: u32,
    lane: Option<u8>,
    /// The account has cancelled many calls, or has sent much content a few bytes at a time: all its new calls use its
    /// own lane.
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
    /// Counts one event. Returns the number of events in this window.
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
pub(crate) struct Accounts {
    accounts: Slots<Account>,
    by_key: FxHashMap<AccountKey, AccountId>,
    /// Number of accounts that use each lane.
    lanes: [u32; OWN_LANES],
    /// Number of sweeps so far: the clock of the counters.
    sweeps: u32,
}

impl Accounts {
    /// Adds a connection to its account. Returns the account, to be passed to [`Accounts::leave`] when the
    /// connection ends.
    pub(crate) fn enter(&mut self, key: Option<AccountKey>) -> AccountId {
        if let Some(&id) = key.as_ref().and_then(|key| self.by_key.get(key)) {
            if let Some(account) = self.accounts.get_mut(id) {
                account.connections += 1;
            }
            return id;
        }
        let id = self.accounts.insert(Account {
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
            self.by_key.insert(key, id);
        }
        id
    }

    /// Removes a connection from its account. An account without connections is forgotten.
    pub(crate) fn leave(&mut self, id: AccountId) {
        let Some(account) = self.accounts.get_mut(id).certain() else { return };
        account.connections -= 1;
        if account.connections > 0 {
            return;
        }
        let Some(account) = self.accounts.remove(id).certain() else { return };
        if let Some(key) = account.key {
            self.by_key.remove(&key);
        }
        if let Some(users) = account.lane.and_then(|lane| self.lanes.get_mut(usize::from(lane))) {
            *users -= 1;
        }
    }

    /// Returns whether the account belongs to a caller of our application, and not to our application itself.
    pub(crate) fn is_of_a_caller(&self, id: AccountId) -> bool {
        self.accounts.get(id).is_some_and(|account| account.key.is_some())
    }

    /// Returns whether an account may begin another call. `calls` is the number of calls in flight of all accounts,
    /// including this call. Our own application may use all of `max_calls`, callers with an identity three quarters,
    /// and callers without an identity half. Also, a caller's account may have at most as many calls as this part has
    /// free places. Copies of requests have no account.
    pub(crate) fn may_begin(&self, id: Option<AccountId>, calls: usize, max_calls: usize) -> bool {
        let account = self.accounts.get(id);
        let (part, own) = match account.map(|account| (&account.key, account.calls as usize)) {
            Some((Some(AccountKey::Address(_)), own)) => (max_calls / 2, own),
            Some((Some(AccountKey::Identity(_)), own)) => (max_calls / 4 * 3, own),
            Some((None, _)) | None => return calls <= max_calls,
        };
        calls + own <= part.max(2)
    }

    /// Counts a call that has begun.
    pub(crate) fn call_begun(&mut self, id: AccountId) {
        if let Some(account) = self.accounts.get_mut(id) {
            account.calls += 1;
        }
    }

    /// Counts the end of a call.
    pub(crate) fn call_ended(&mut self, id: AccountId) {
        if let Some(account) = self.accounts.get_mut(id) {
            account.calls = account.calls.saturating_sub(1);
        }
    }

    /// Counts a call that is sent on a common connection before its request is complete.
    pub(crate) fn request_open(&mut self, id: AccountId) {
        if let Some(account) = self.accounts.get_mut(id) {
            account.open_calls += 1;
        }
    }

    /// Counts the end of a request that [`Self::request_open`] has counted: it is complete, or its call is over.
    pub(crate) fn request_ended(&mut self, id: AccountId) {
        if let Some(account) = self.accounts.get_mut(id) {
            account.open_calls = account.open_calls.saturating_sub(1);
        }
    }

    /// Selects the lane of a call before the call is sent. `is_open` means that the request is not complete yet.
    pub(crate) fn lane(&mut self, id: AccountId, is_open: bool, relay: &RelayLimits) -> Lane {
        let Some(account) = self.accounts.get(id).certain() else { return Lane::Shared };
        let has_its_share = account.calls > relay.max_shared_calls_per_account
            || (is_open && account.open_calls >= relay.max_shared_open_calls_per_account);
        if account.stands_out || has_its_share {
            return self.own_lane(id);
        }
        match account.key {
            Some(AccountKey::Address(_)) => Lane::Unidentified,
            Some(AccountKey::Identity(_)) | None => Lane::Shared,
        }
    }

    /// Returns the account's own lane. The first time, chooses one of the lanes that the account may have: the lane
    /// with the fewest accounts. The account keeps this lane.
    fn own_lane(&mut self, id: AccountId) -> Lane {
        let Some(account) = self.accounts.get_mut(id).certain() else { return Lane::Shared };
        let is_strangers = matches!(account.key, Some(AccountKey::Address(_)));
        let lanes = self.lanes.iter_mut().enumerate();
        let lane = *account.lane.get_or_insert_with(|| {
            let allowed = lanes.filter(|(lane, _)| (*lane >= FIRST_LANE_OF_STRANGERS) == is_strangers);
            let fewest = allowed.min_by_key(|(_, users)| **users);
            fewest.map_or(0, |(lane, users)| {
                *users += 1;
                lane as u8
            })
        });
        Lane::Own(lane)
    }

    /// Counts a call that the account cancelled on a common connection while the server was working on it.
    pub(crate) fn cancelled(&mut self, id: AccountId, relay: &RelayLimits) {
        let window = self.sweeps / CANCEL_WINDOW_SWEEPS;
        if let Some(account) = self.accounts.get_mut(id) {
            account.stands_out |= account.cancels.add(window) > relay.max_shared_cancels_per_account;
        }
    }

    /// Counts a piece of content of a few bytes that begins a request's content or follows another such piece. Returns
    /// whether the account has sent too many of them.
    pub(crate) fn dribbled(&mut self, id: AccountId, relay: &RelayLimits) -> bool {
        let window = self.sweeps;
        let Some(account) = self.accounts.get_mut(id).certain() else { return false };
        let is_too_much = account.dribbles.add(window) > relay.max_dribbles_per_account;
        account.stands_out |= is_too_much;
        is_too_much
    }

    /// Counts a sweep: a tenth of a second has passed.
    pub(crate) fn sweep(&mut self) {
        self.sweeps = self.sweeps.wrapping_add(1);
    }

    /// Returns the number of calls that accounts have in flight, and of their incomplete requests.
    pub(crate) fn call_entries(&self) -> [Entries; 2] {
        let sum = |of: fn(&Account) -> u32| self.accounts.iter().map(|(_, account)| of(account) as usize).sum();
        [
            ("calls of accounts", sum(|account| account.calls)),
            ("open calls of accounts", sum(|account| account.open_calls)),
        ]
    }

    /// Returns the number of entries in each table of accounts.
    pub(crate) fn connection_entries(&self) -> [Entries; 3] {
        let users: u32 = self.lanes.iter().sum();
        [("accounts", self.accounts.len()), ("accounts by key", self.by_key.len()), ("users of lanes", users as usize)]
    }

    pub(crate) fn shrink(&mut self) {
        self.accounts.shrink_to_fit();
        self.by_key.shrink_to_fit();
    }
}

#[cfg(test)]
#[path = "accounts_tests.rs"]
mod tests;
