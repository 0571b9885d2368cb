//! Accounts: the client that a call is charged to, and the connections to endpoints that the call may use.
//!
//! The calls of many clients share a connection to an endpoint, so one client could harm the other clients. For
//! example, it could use all the streams that the server grants, or provoke the server into closing the connection. So
//! the connections to an endpoint are divided into *lanes*. An account that exceeds its share (the limits
//! `max_shared_..._per_account`) gets a lane of its own. If a server closes connections of this lane, only this account
//! is affected. If there are more of these accounts than lanes, several accounts use the same lane.
//!
//! A call from another workload is charged to the account of that workload's identity. If the workload has shown no
//! certificate, the call is charged to the account of its address. Each connection of our own application is a separate
//! account.
//!
//! A tenant can make up identities in its namespace, but no namespaces. So the limits on what all callers share count
//! the identities of a namespace together, too.

use std::sync::Arc;

use leno_accept::Source;
use leno_model::spiffe::SpiffeId;
use rustc_hash::FxHashMap;

use crate::certain::Certain;
use crate::inventory::Entries;
use crate::limits::RelayLimits;
use crate::slots::{Id, Slots};

/// Number of lanes for accounts that exceed their share. If there are more of these accounts than lanes, several
/// accounts use the same lane.
const OWN_LANES: usize = 32;
/// Index of the first lane for callers without a certificate. This lane and all later lanes are only for such callers.
/// So callers with a certificate never share a lane with callers without one.
const FIRST_LANE_OF_STRANGERS: usize = 24;
/// Length of the window in which the cancelled calls of an account are counted. The relay makes ten sweeps per second,
/// so 100 sweeps are 10 s.
const CANCEL_WINDOW_SWEEPS: u32 = 100;

/// The group of connections to an endpoint that a call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Connections for our own application, and for workloads with a verified certificate.
    Shared,
    /// Connections for callers without a certificate, so that these callers take no stream from callers with a
    /// certificate.
    Unidentified,
    /// Connections for accounts that exceed their share. The number identifies one of [`OWN_LANES`] lanes.
    Own(u8),
}

impl Lane {
    /// Returns whether the connections of this lane are *common*: accounts within their share use them together.
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

/// Identifies a namespace within its worker.
pub(crate) type NamespaceId = Id<Namespace>;

/// The identities of a namespace that have connections to this worker.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: Box<str>,
    accounts: u32,
    /// Sum of [`Account::calls`] over these accounts.
    calls: u32,
}

/// Accounts that share a limited resource as one party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    /// All connections of our own application.
    Application,
    /// All callers that have shown no certificate.
    Strangers,
    /// The identities of a namespace.
    Namespace(NamespaceId),
}

/// The state of an account. The worker keeps it while the account has a connection to this worker.
#[derive(Debug)]
pub(crate) struct Account {
    /// The key of the account; `None` if the account is a connection of our own application.
    key: Option<AccountKey>,
    /// The namespace of the account's identity; `None` without an identity.
    namespace: Option<NamespaceId>,
    connections: u32,
    /// Number of calls that the account has in flight.
    calls: u32,
    /// Number of calls with incomplete requests that the account has in flight on connections that accounts use
    /// together ([`Lane::is_common`]).
    open_calls: u32,
    lane: Option<u8>,
    /// The account has cancelled many calls, servers have rejected many of its calls, or it has sent much content a few
    /// bytes at a time. So all new calls of the account use its own lane.
    stands_out: bool,
    cancels: Count,
    dribbles: Count,
}

/// The number of events in one window of time. A window is a fixed number of sweeps.
#[derive(Debug, Default)]
pub(crate) struct Count {
    window: u32,
    events: u32,
}

impl Count {
    /// Counts one event in the window with the number `window`. Returns the number of events in this window.
    pub(crate) fn add(&mut self, window: u32) -> u32 {
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
    namespaces: Slots<Namespace>,
    namespaces_by_name: FxHashMap<Box<str>, NamespaceId>,
    /// Number of accounts that use each lane.
    lanes: [u32; OWN_LANES],
    /// Number of sweeps so far. The windows in which events are counted are measured in sweeps.
    sweeps: u32,
}

impl Accounts {
    /// Adds a connection to the account with this key, or to a new account. Returns the account's id: pass it to
    /// [`Accounts::leave`] when the connection ends.
    pub(crate) fn enter(&mut self, key: Option<AccountKey>) -> AccountId {
        if let Some(&id) = key.as_ref().and_then(|key| self.by_key.get(key)) {
            if let Some(account) = self.accounts.get_mut(id) {
                account.connections += 1;
            }
            return id;
        }
        let namespace = match &key {
            Some(AccountKey::Identity(id)) => Some(self.enter_namespace(&id.workload.namespace)),
            Some(AccountKey::Address(_)) | None => None,
        };
        let id = self.accounts.insert(Account {
            key: key.clone(),
            namespace,
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

    /// Adds an account to the namespace with this name.
    fn enter_namespace(&mut self, name: &str) -> NamespaceId {
        if let Some(&id) = self.namespaces_by_name.get(name) {
            if let Some(namespace) = self.namespaces.get_mut(id) {
                namespace.accounts += 1;
            }
            return id;
        }
        let id = self.namespaces.insert(Namespace { name: name.into(), accounts: 1, calls: 0 });
        self.namespaces_by_name.insert(name.into(), id);
        id
    }

    /// Removes an account with this number of calls from its namespace. Forgets the namespace if it has no other
    /// account.
    fn leave_namespace(&mut self, id: NamespaceId, calls: u32) {
        let Some(namespace) = self.namespaces.get_mut(id).certain() else { return };
        namespace.accounts -= 1;
        namespace.calls = namespace.calls.saturating_sub(calls);
        if namespace.accounts > 0 {
            return;
        }
        if let Some(namespace) = self.namespaces.remove(id).certain() {
            self.namespaces_by_name.remove(&namespace.name);
        }
    }

    /// Removes a connection from its account. Forgets the account if it has no other connection.
    pub(crate) fn leave(&mut self, id: AccountId) {
        let Some(account) = self.accounts.get_mut(id).certain() else { return };
        account.connections -= 1;
        if account.connections > 0 {
            return;
        }
        let Some(account) = self.accounts.remove(id).certain() else { return };
        if let Some(namespace) = account.namespace {
            self.leave_namespace(namespace, account.calls);
        }
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

    /// Returns the party to which an account belongs.
    pub(crate) fn party(&self, id: AccountId) -> Party {
        match self.accounts.get(id).map(|account| (&account.key, account.namespace)) {
            Some((Some(_), Some(namespace))) => Party::Namespace(namespace),
            Some((Some(_), None)) => Party::Strangers,
            Some((None, _)) | None => Party::Application,
        }
    }

    /// Returns whether an account may begin another call. `calls` is the number of calls in flight of all accounts,
    /// including this call. Copies of requests have no account. The limits are:
    ///
    /// - For our own application and for copies: `calls` may not exceed `max_calls`.
    /// - For a caller with an identity: `calls` plus the calls of its namespace plus the account's own calls may not
    ///   exceed three quarters of `max_calls`. So all identities of a namespace leave half of this bound to others, and
    ///   one identity leaves two thirds.
    /// - For a caller without an identity: `calls` plus the account's own calls may not exceed half of `max_calls`.
    pub(crate) fn may_begin(&self, id: Option<AccountId>, calls: usize, max_calls: usize) -> bool {
        let account = self.accounts.get(id);
        // `least` allows a single call, whatever `max_calls` is: `calls` and the other sums are then 1.
        let (part, used, least) = match account.map(|account| (&account.key, account)) {
            Some((Some(AccountKey::Address(_)), account)) => (max_calls / 2, account.calls, 2),
            Some((Some(AccountKey::Identity(_)), account)) => {
                let of_namespace = self.namespaces.get(account.namespace).map_or(0, |namespace| namespace.calls);
                (max_calls / 4 * 3, of_namespace + account.calls, 3)
            }
            Some((None, _)) | None => return calls <= max_calls,
        };
        calls + used as usize <= part.max(least)
    }

    /// Counts a call that has begun.
    pub(crate) fn call_begun(&mut self, id: AccountId) {
        let Some(account) = self.accounts.get_mut(id) else { return };
        account.calls += 1;
        if let Some(namespace) = self.namespaces.get_mut(account.namespace) {
            namespace.calls += 1;
        }
    }

    /// Counts the end of a call.
    pub(crate) fn call_ended(&mut self, id: AccountId) {
        let Some(account) = self.accounts.get_mut(id) else { return };
        account.calls = account.calls.saturating_sub(1);
        if let Some(namespace) = self.namespaces.get_mut(account.namespace) {
            namespace.calls = namespace.calls.saturating_sub(1);
        }
    }

    /// Counts a call that the relay sends before the call's request is complete, on a connection that accounts use
    /// together ([`Lane::is_common`]).
    pub(crate) fn request_open(&mut self, id: AccountId) {
        if let Some(account) = self.accounts.get_mut(id) {
            account.open_calls += 1;
        }
    }

    /// Counts the end of a request that [`Self::request_open`] has counted: the request is complete, or its call is
    /// over.
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

    /// Returns the account's own lane. If the account has none yet, chooses the lane with the fewest accounts among the
    /// lanes that the account may have. The account keeps this lane.
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

    /// Counts a call that the account cancelled while the server was working on it, or that the server rejected with
    /// ENHANCE_YOUR_CALM. The call used a connection that accounts use together ([`Lane::is_common`]).
    pub(crate) fn cancelled(&mut self, id: AccountId, relay: &RelayLimits) {
        let window = self.sweeps / CANCEL_WINDOW_SWEEPS;
        if let Some(account) = self.accounts.get_mut(id) {
            account.stands_out |= account.cancels.add(window) > relay.max_shared_cancels_per_account;
        }
    }

    /// Counts a *dribble*: a small piece of content (a few bytes) that is the first piece of its request or follows
    /// another small piece. Returns whether the account has sent too many dribbles since the latest sweep.
    pub(crate) fn dribbled(&mut self, id: AccountId, relay: &RelayLimits) -> bool {
        let window = self.sweeps;
        let Some(account) = self.accounts.get_mut(id).certain() else { return false };
        let is_too_much = account.dribbles.add(window) > relay.max_dribbles_per_account;
        account.stands_out |= is_too_much;
        is_too_much
    }

    /// Returns the number of sweeps so far.
    pub(crate) fn sweeps(&self) -> u32 {
        self.sweeps
    }

    /// Counts a sweep: a tenth of a second has passed.
    pub(crate) fn sweep(&mut self) {
        self.sweeps = self.sweeps.wrapping_add(1);
    }

    /// Returns the sum of the calls in flight over all accounts, the same sum over all namespaces, and the number of
    /// open calls. An open call has an incomplete request and is in flight on a connection that accounts use together
    /// ([`Lane::is_common`]).
    pub(crate) fn call_entries(&self) -> [Entries; 3] {
        let sum = |of: fn(&Account) -> u32| self.accounts.iter().map(|(_, account)| of(account) as usize).sum();
        [
            ("calls of accounts", sum(|account| account.calls)),
            ("calls of namespaces", self.namespaces.iter().map(|(_, namespace)| namespace.calls as usize).sum()),
            ("open calls of accounts", sum(|account| account.open_calls)),
        ]
    }

    /// Returns the number of entries in each table of accounts.
    pub(crate) fn connection_entries(&self) -> [Entries; 5] {
        let users: u32 = self.lanes.iter().sum();
        [
            ("accounts", self.accounts.len()),
            ("accounts by key", self.by_key.len()),
            ("namespaces", self.namespaces.len()),
            ("namespaces by name", self.namespaces_by_name.len()),
            ("users of lanes", users as usize),
        ]
    }

    pub(crate) fn shrink(&mut self) {
        self.accounts.shrink_to_fit();
        self.by_key.shrink_to_fit();
        self.namespaces.shrink_to_fit();
        self.namespaces_by_name.shrink_to_fit();
    }
}

#[cfg(test)]
#[path = "accounts_tests.rs"]
mod tests;
