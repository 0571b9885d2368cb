//! Limits on the control plane's memory for clients: streams, subscriptions and bytes in transit of each client
//! account. An account ([`Holder`]) is an identity with all its connections, or the address of clients without a
//! certificate.
//!
//! The same rule limits streams, subscriptions and bytes: after a holder takes more, its total must not exceed what is
//! still free. So one greedy holder leaves half of the [`Capacity`] free, and two leave at least a quarter. A new
//! holder always finds room, and all holders together stay within the capacity, except for responses
//! ([`Account::hold`]).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use leno_model::spiffe::SpiffeId;

use super::limits::Capacity;
use super::pace::Paces;
use super::sources::{self, Sources};
use crate::accept::Peer;

/// A client account: the owner of streams and subscriptions. All Pods of a service account share one holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// All clients with certificates of this identity.
    Identity(SpiffeId),
    /// All clients without a certificate at this address.
    Address(IpAddr),
}

#[derive(Debug)]
pub(crate) struct Accounts {
    capacity: Capacity,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    all: Holding,
    holders: HashMap<Holder, Holding>,
    sources: Sources,
}

#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    streams: usize,
    names: usize,
    /// Bytes of incomplete requests, and of responses that the client has not read.
    bytes: usize,
}

/// One stream and its subscriptions, counted against their holder. Dropping this value takes them off the count.
#[derive(Debug)]
pub(crate) struct Account {
    accounts: Arc<Accounts>,
    holder: Holder,
    address: IpAddr,
    paces: Arc<Mutex<Paces>>,
    names: usize,
}

/// Bytes counted against a holder. Dropping this value takes them off the count.
#[derive(Debug)]
pub(crate) struct Held {
    accounts: Arc<Accounts>,
    holder: Holder,
    bytes: usize,
}

/// The error for a client whose holder is at a limit. It names what the holder uses, and the limit for all clients.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exhausted {
    #[error(
        "{holder} has {own} streams and may have only as many as it leaves free (streams_max = {max} for all clients); use one stream per \
         client, or give the control plane more memory or replicas"
    )]
    Streams { holder: Holder, own: usize, max: usize },
    #[error(
        "{holder} has {own} subscriptions over all its streams and may have only as many as it leaves free (names_max = {max} for all clients); \
         subscribe only to resources in use, or give the control plane more memory or replicas"
    )]
    Names { holder: Holder, own: usize, max: usize },
    #[error(
        "{holder} has {own} bytes of requests and responses in transit and may have only as many as it leaves free \
         (bytes_max = {max} for all clients); send smaller requests, read responses, or give the control plane more memory or replicas"
    )]
    Bytes { holder: Holder, own: usize, max: usize },
}

impl Holder {
    /// Returns the holder that a connection counts against.
    pub(crate) fn of(peer: &Peer) -> Self {
        match &peer.identity {
            Some(identity) => Self::Identity(identity.clone()),
            None => Self::Address(peer.address.ip().to_canonical()),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(identity) => identity.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl Accounts {
    pub(crate) fn new(capacity: Capacity) -> Arc<Self> {
        Arc::new(Self { capacity, inner: Mutex::default() })
    }

    /// Counts a new stream of a holder from an address.
    ///
    /// # Errors
    /// [`Exhausted::Streams`] if the holder may not have another stream.
    pub(crate) fn open(self: &Arc<Self>, holder: Holder, address: IpAddr, now: Instant) -> Result<Account, Exhausted> {
        let max = self.capacity.streams_max;
        let mut inner = self.lock();
        let own = inner.holders.get(&holder).map_or(0, |holding| holding.streams);
        if !leaves_room(own, 1, inner.all.streams, max) {
            return Err(Exhausted::Streams { holder, own, max });
        }
        inner.all.streams += 1;
        inner.holders.entry(holder.clone()).or_default().streams += 1;
        let paces = inner.sources.open((holder.clone(), address), now);
        drop(inner);
        Ok(Account { accounts: self.clone(), holder, address, paces, names: 0 })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a holder, which now uses `own`, may take `more`. All holders together use `all` of `max`.
///
/// Afterwards, the holder must not use more than is still free. Exception: a holder that uses nothing may take its
/// first stream, name or byte while at least one is free.
fn leaves_room(own: usize, more: usize, all: usize, max: usize) -> bool {
    let free = max.saturating_sub(all.saturating_add(more));
    let mine = own.saturating_add(more);
    mine <= free || (mine == 1 && all < max)
}

impl Account {
    /// Counts more subscriptions.
    ///
    /// # Errors
    /// [`Exhausted::Names`] if the holder may not have so many subscriptions. In this case, the function counts
    /// nothing.
    pub(crate) fn take_names(&mut self, more: usize) -> Result<(), Exhausted> {
        let max = self.accounts.capacity.names_max;
        let mut inner = self.accounts.lock();
        let all = inner.all.names;
        let own = inner.holders.get_mut(&self.holder).map_or(0, |holding| holding.names);
        if !leaves_room(own, more, all, max) {
            return Err(Exhausted::Names { holder: self.holder.clone(), own, max });
        }
        inner.add(&self.holder, more);
        self.names += more;
        Ok(())
    }

    /// Corrects the stream's number of names, which changes with the mesh if the client subscribes to all resources.
    pub(crate) fn set_names(&mut self, names: usize) {
        if names != self.names {
            let mut inner = self.accounts.lock();
            inner.remove(&self.holder, self.names);
            inner.add(&self.holder, names);
            self.names = names;
        }
    }

    /// Returns whether a response may be written: the holder's bytes in transit must not exceed the free bytes. A
    /// holder without bytes in transit may always send one response.
    pub(crate) fn may_send(&self) -> bool {
        let inner = self.accounts.lock();
        let own = inner.holders.get(&self.holder).map_or(0, |holding| holding.bytes);
        own == 0 || leaves_room(own, 0, inner.all.bytes, self.accounts.capacity.bytes_max)
    }

    /// Number of the holder's streams.
    pub(crate) fn streams(&self) -> u32 {
        let streams = self.accounts.lock().holders.get(&self.holder).map_or(0, |holding| holding.streams);
        streams.try_into().unwrap_or(u32::MAX)
    }

    /// Counts bytes against the holder, even beyond its limit.
    pub(crate) fn hold(&self, bytes: usize) -> Held {
        self.accounts.lock().add_bytes(&self.holder, bytes);
        Held { accounts: self.accounts.clone(), holder: self.holder.clone(), bytes }
    }

    /// Locks the rate limits of this holder's clients at this address.
    pub(crate) fn paces(&self) -> MutexGuard<'_, Paces> {
        sources::lock(&self.paces)
    }
}

impl Held {
    /// Raises the count to `bytes` if that is more than before.
    ///
    /// # Errors
    /// [`Exhausted::Bytes`] if the holder may not have so many bytes. In this case, the count stays unchanged.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return Ok(()) };
        let max = self.accounts.capacity.bytes_max;
        let mut inner = self.accounts.lock();
        let own = inner.holders.get(&self.holder).map_or(0, |holding| holding.bytes);
        if !leaves_room(own, more, inner.all.bytes, max) {
            return Err(Exhausted::Bytes { holder: self.holder.clone(), own, max });
        }
        inner.add_bytes(&self.holder, more);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut inner = self.accounts.lock();
        inner.all.bytes = inner.all.bytes.saturating_sub(self.bytes);
        if let Some(holding) = inner.holders.get_mut(&self.holder) {
            holding.bytes = holding.bytes.saturating_sub(self.bytes);
        }
    }
}

impl Inner {
    fn add_bytes(&mut self, holder: &Holder, bytes: usize) {
        self.all.bytes += bytes;
        if let Some(holding) = self.holders.get_mut(holder) {
            holding.bytes += bytes;
        }
    }

    fn add(&mut self, holder: &Holder, names: usize) {
        self.all.names += names;
        if let Some(holding) = self.holders.get_mut(holder) {
            holding.names += names;
        }
    }

    fn remove(&mut self, holder: &Holder, names: usize) {
        self.all.names = self.all.names.saturating_sub(names);
        if let Some(holding) = self.holders.get_mut(holder) {
            holding.names = holding.names.saturating_sub(names);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut inner = self.accounts.lock();
        inner.remove(&self.holder, self.names);
        inner.all.streams = inner.all.streams.saturating_sub(1);
        if let Some(holding) = inner.holders.get_mut(&self.holder) {
            holding.streams = holding.streams.saturating_sub(1);
            if holding.streams == 0 {
                inner.holders.remove(&self.holder);
            }
        }
        inner.sources.close((self.holder.clone(), self.address));
    }
}

#[cfg(test)]
#[path = "accounts_tests.rs"]
mod tests;
