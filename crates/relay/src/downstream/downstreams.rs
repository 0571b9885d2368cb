//! The downstreams of a worker: the connections of clients, and the accounts to which their calls are charged.

use leno_http2::StreamKey;

use crate::call::NO_CALL;
use crate::downstream::accounts::{AccountId, AccountKey, Accounts, Lane};
use crate::downstream::client::{Client, ClientId};
use crate::inventory::Entries;
use crate::limits::RelayLimits;
use crate::slots::Slots;

/// Invariant: each client counts once as a connection of its account.
#[derive(Debug, Default)]
pub(crate) struct Downstreams {
    clients: Slots<Client>,
    accounts: Accounts,
    /// Clients whose protocol the relay has guessed wrong.
    recalled: Vec<ClientId>,
}

/// Clients.
impl Downstreams {
    #[inline]
    pub(crate) fn get(&self, id: impl Into<Option<ClientId>>) -> Option<&Client> {
        self.clients.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: impl Into<Option<ClientId>>) -> Option<&mut Client> {
        self.clients.get_mut(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.clients.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.clients.iter_mut().map(|(_, client)| client)
    }

    /// Returns the ids of all clients.
    pub(crate) fn ids(&self) -> Vec<ClientId> {
        self.clients.iter().map(|(id, _)| id).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Adds a client, whose calls are charged to the account `key`.
    pub(crate) fn add(&mut self, key: Option<AccountKey>, client: impl FnOnce(AccountId) -> Client) -> ClientId {
        let account = self.accounts.enter(key);
        self.clients.insert(client(account))
    }

    pub(crate) fn remove(&mut self, id: ClientId) -> Option<Client> {
        let client = self.clients.remove(id)?;
        self.accounts.leave(client.account);
        Some(client)
    }

    /// Adds a client whose protocol the relay has guessed wrong to the list for [`Self::take_recalled`].
    pub(crate) fn recall(&mut self, id: ClientId) {
        self.recalled.push(id);
    }

    pub(crate) fn has_recalled(&self) -> bool {
        !self.recalled.is_empty()
    }

    pub(crate) fn take_recalled(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.recalled)
    }

    /// See [`Relay::call_entries`](crate::Relay::call_entries).
    pub(crate) fn call_entries(&self) -> impl Iterator<Item = Entries> {
        let sum = |of: fn(&Client) -> usize| self.clients.iter().map(|(_, client)| of(client)).sum();
        let own = [
            ("waiting calls of clients", sum(|client| client.waiting_calls)),
            ("bytes of requests' fields", sum(|client| client.fields_bytes)),
            ("growth of responses' windows", sum(|client| client.grown_bytes)),
        ];
        self.accounts.call_entries().into_iter().chain(own)
    }

    /// See [`Relay::connection_entries`](crate::Relay::connection_entries).
    pub(crate) fn connection_entries(&self) -> impl Iterator<Item = Entries> {
        let own = [("clients", self.clients.len()), ("recalled clients", self.recalled.len())];
        self.accounts.connection_entries().into_iter().chain(own)
    }

    /// Frees memory that is no longer needed after a burst.
    pub(crate) fn shrink(&mut self) {
        self.clients.shrink_to_fit();
        self.accounts.shrink();
    }
}

/// The calls that the accounts of clients have in flight. Copies of requests have no client, and so no account.
impl Downstreams {
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Returns whether a client may begin another call; see [`Accounts::may_begin`].
    pub(crate) fn may_begin(&self, client: Option<ClientId>, calls: usize, max_calls: usize) -> bool {
        let account = self.clients.get(client).map(|client| client.account);
        self.accounts.may_begin(account, calls, max_calls)
    }

    /// Sets the token of a client's stream, because a call has begun on this stream. Counts the call, and the memory of
    /// its request's fields.
    #[inline]
    pub(crate) fn call_begun(&mut self, id: ClientId, stream: StreamKey, token: u32, fields_bytes: u32) {
        if let Some(client) = self.clients.get_mut(id) {
            client.link.codec.set_token(stream, token);
            client.fields_bytes += fields_bytes as usize;
            self.accounts.call_begun(client.account);
        }
    }

    /// After a call has ended, removes its token from its client's stream, and counts the end of the call. The client was
    /// charged for `fields_bytes` of the request and for `grown_bytes` of the response's window. `was_open`: the account
    /// counted the call among its calls with incomplete requests.
    #[inline]
    pub(crate) fn call_ended(
        &mut self,
        id: Option<ClientId>,
        stream: StreamKey,
        (fields_bytes, grown_bytes): (u32, u32),
        was_open: bool,
    ) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.link.codec.set_token(stream, NO_CALL);
        client.fields_bytes = client.fields_bytes.saturating_sub(fields_bytes as usize);
        client.grown_bytes = client.grown_bytes.saturating_sub(grown_bytes as usize);
        if was_open {
            self.accounts.request_ended(client.account);
        }
        self.accounts.call_ended(client.account);
    }

    /// Counts a call that the relay sends before the call's request is complete, on a connection that accounts use
    /// together ([`Lane::is_common`]).
    pub(crate) fn request_open(&mut self, id: Option<ClientId>) {
        if let Some(client) = self.clients.get(id) {
            self.accounts.request_open(client.account);
        }
    }

    /// Counts the end of a request that [`Self::request_open`] has counted.
    pub(crate) fn request_ended(&mut self, id: Option<ClientId>) {
        if let Some(client) = self.clients.get(id) {
            self.accounts.request_ended(client.account);
        }
    }

    /// Selects the lane of a client's call; see [`Accounts::lane`].
    #[inline]
    pub(crate) fn lane(&mut self, account: AccountId, is_open: bool, relay: &RelayLimits) -> Lane {
        self.accounts.lane(account, is_open, relay)
    }

    /// Counts a call that a client has cancelled, and that the relay has not reset on its server yet. `is_common`:
    /// several accounts use the connection to the server together ([`Lane::is_common`]).
    pub(crate) fn call_cancelled(&mut self, id: Option<ClientId>, is_common: bool, relay: &RelayLimits) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.cancelled_calls += 1;
        if is_common {
            self.accounts.cancelled(client.account, relay);
        }
    }

    /// Counts a call of a client that its server has rejected with ENHANCE_YOUR_CALM, on a connection that several
    /// accounts use together ([`Lane::is_common`]).
    pub(crate) fn call_rejected(&mut self, id: ClientId, relay: &RelayLimits) {
        if let Some(client) = self.clients.get(id) {
            self.accounts.cancelled(client.account, relay);
        }
    }

    /// Records that the relay has reset a cancelled call on its server, or that the call has ended there.
    pub(crate) fn cancelled_call_is_over(&mut self, id: Option<ClientId>) {
        if let Some(client) = self.clients.get_mut(id) {
            client.cancelled_calls = client.cancelled_calls.saturating_sub(1);
        }
    }

    /// Counts a piece of content of a few bytes; see [`Accounts::dribbled`].
    pub(crate) fn dribbled(&mut self, id: Option<ClientId>, relay: &RelayLimits) -> bool {
        let account = self.clients.get(id).map(|client| client.account);
        account.is_some_and(|account| self.accounts.dribbled(account, relay))
    }

    /// Counts a sweep: a tenth of a second has passed.
    pub(crate) fn sweep(&mut self) {
        self.accounts.sweep();
    }
}

#[cfg(test)]
#[path = "downstreams_tests.rs"]
mod tests;
