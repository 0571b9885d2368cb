//! Limits on the control plane's memory for clients: streams, subscriptions and bytes in transit of each client
//! account. An account ([`Holder`]) is an identity with all its connections, or the address of clients without a
//! certificate.
//!
//! All accounts share the [`Capacity`], by the rules of [`Ledger`]: first the namespaces share it, and then the
//! accounts of each namespace. A stream may have to end so that a client of another account finds room. All holders
//! together stay within the capacity, with three exceptions:
//!
//! - responses: an account without unread responses may have one even if nothing is free, while the responses of its
//!   namespace take at most an equal part ([`Ledger::may_respond`]). So responses may use up to twice the capacity, and
//!   the latest response may exceed even this ([`Account::hold`]). `crate::budget` reserves twice the capacity for bytes
//!   in transit;
//! - subscriptions to all resources, while the mesh grows ([`Account::set_names`]);
//! - requests that take the place of bytes of a stream that was displaced for its bytes. The task of the stream closes
//!   the connection at once, but the bytes are still in memory until the connection is closed. They count until then
//!   ([`Held`]).

use std::fmt;
use std::future::pending;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use leno_model::spiffe::SpiffeId;
use tokio::sync::oneshot;

use super::ledger::{Ledger, Resource, StreamKey};
use super::limits::{Capacity, DISPLACEMENTS_BURST, DISPLACEMENTS_PER_SECOND};
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
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    sources: Sources,
}

/// One stream and its subscriptions, counted against their holder. Dropping this value takes them off the count.
#[derive(Debug)]
pub(crate) struct Account {
    accounts: Arc<Accounts>,
    key: Arc<StreamKey>,
    address: IpAddr,
    paces: Arc<Mutex<Paces>>,
    names: usize,
    displacement: Displacement,
}

/// Bytes counted against a holder, even after their stream was displaced. Dropping this value takes them off the count.
#[derive(Debug)]
pub(crate) struct Held {
    accounts: Arc<Accounts>,
    key: Arc<StreamKey>,
    bytes: usize,
    /// The part of `bytes` that belongs to a response. The rest belongs to requests.
    unread: usize,
}

/// Notifies the task of a stream when the stream is displaced. The task must then end the stream. Once this value is
/// dropped, the stream cannot be displaced any more.
#[derive(Debug, Default)]
pub(crate) struct Displacement {
    receiver: Option<oneshot::Receiver<Displaced>>,
    stream: Option<(Arc<Accounts>, Arc<StreamKey>)>,
}

/// The reason why a stream ended before its client closed it: another client needed its room. The message names the
/// limit, and what the holder used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stream was closed to make room for a client with less: all clients together reached {limit} = {max}, and {holder} had {own} of \
     these; connect again, and if this repeats, use less, or give the control plane more memory or replicas",
    limit = .resource.limit()
)]
pub(crate) struct Displaced {
    pub(super) holder: Holder,
    pub(super) resource: Resource,
    pub(super) own: usize,
    pub(super) max: usize,
}

/// The error for a client that finds no room at a limit. It names what the holder uses, and the limit for all clients.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exhausted {
    #[error(
        "{holder} has {own} streams, and there is no room for another (streams_max = {max} for all clients): no other namespace, and no other \
         client of this namespace, has more; use one stream per client, or give the control plane more memory or replicas"
    )]
    Streams { holder: Holder, own: usize, max: usize },
    #[error(
        "{holder} has {own} subscriptions over all its streams, and there is no room for more (names_max = {max} for all clients): no other \
         namespace, and no other client of this namespace, has enough more; subscribe only to resources in use, or give the control plane more \
         memory or replicas"
    )]
    Names { holder: Holder, own: usize, max: usize },
    #[error(
        "{holder} has {own} bytes of requests and responses in transit and may have only as many as it leaves free \
         (bytes_max = {max} for all clients); send smaller requests, read responses, or give the control plane more memory or replicas"
    )]
    Bytes { holder: Holder, own: usize, max: usize },
    #[error(
        "{holder} needs room that other clients use ({limit} = {max} for all clients), and its namespace has closed too many streams of \
         other clients lately (at most {DISPLACEMENTS_BURST}, and {DISPLACEMENTS_PER_SECOND} more per second); try again later, or give the \
         control plane more memory or replicas",
        limit = .resource.limit()
    )]
    Displacements { holder: Holder, resource: Resource, max: usize },
}

impl Exhausted {
    pub(super) fn new(resource: Resource, holder: Holder, own: usize, max: usize) -> Self {
        match resource {
            Resource::Streams => Self::Streams { holder, own, max },
            Resource::Names => Self::Names { holder, own, max },
            Resource::Bytes | Resource::Unread => Self::Bytes { holder, own, max },
        }
    }
}

impl Displacement {
    /// Waits until the stream is displaced. Waits for ever after the first call that returned.
    pub(crate) async fn wait(&mut self) -> Displaced {
        let Some(receiver) = &mut self.receiver else { return pending().await };
        let displaced = receiver.await;
        self.receiver = None;
        match displaced {
            Ok(displaced) => displaced,
            Err(_) => pending().await,
        }
    }
}

impl Drop for Displacement {
    fn drop(&mut self) {
        if let Some((accounts, key)) = self.stream.take() {
            accounts.lock().ledger.over(&key);
        }
    }
}

impl Holder {
    /// Returns the holder that a connection counts against.
    pub(crate) fn of(peer: &Peer) -> Self {
        match &peer.identity {
            Some(identity) => Self::Identity(identity.clone()),
            None => Self::Address(peer.address.ip().to_canonical()),
        }
    }

    /// The namespace of the identity; `None` without a certificate.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Identity(identity) => Some(&identity.workload.namespace),
            Self::Address(_) => None,
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
        let inner = Inner { ledger: Ledger::new(capacity), sources: Sources::default() };
        Arc::new(Self { inner: Mutex::new(inner) })
    }

    /// Counts a new stream of a holder from an address.
    ///
    /// # Errors
    /// [`Exhausted`] if there is no room for the stream.
    pub(crate) fn open(self: &Arc<Self>, holder: Holder, address: IpAddr, now: Instant) -> Result<Account, Exhausted> {
        let (end, displaced) = oneshot::channel();
        let mut inner = self.lock();
        let key = inner.ledger.open(holder, end, now)?;
        let paces = inner.sources.open((key.holder.clone(), address), now);
        drop(inner);
        let key = Arc::new(key);
        let displacement = Displacement { receiver: Some(displaced), stream: Some((self.clone(), key.clone())) };
        Ok(Account { accounts: self.clone(), key, address, paces, names: 0, displacement })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Counts more subscriptions.
    ///
    /// # Errors
    /// [`Exhausted`] if there is no room for so many subscriptions. In this case, the function counts nothing.
    pub(crate) fn take_names(&mut self, more: usize) -> Result<(), Exhausted> {
        self.accounts.lock().ledger.take(&self.key, Resource::Names, more, Instant::now())?;
        self.names += more;
        Ok(())
    }

    /// Counts at most `wanted` more subscriptions, as many as there is room for. Returns their number, and the reason
    /// if that is less than `wanted`. Call it once for all names of a request: each call may displace a stream.
    pub(crate) fn take_most_names(&mut self, wanted: usize) -> (usize, Option<Exhausted>) {
        let mut inner = self.accounts.lock();
        let (taken, why) = inner.ledger.take_most(&self.key, Resource::Names, wanted, Instant::now());
        self.names += taken;
        (taken, why)
    }

    /// Corrects the stream's number of names, which changes with the mesh if the client subscribes to all resources.
    pub(crate) fn set_names(&mut self, names: usize) {
        if names != self.names {
            let mut inner = self.accounts.lock();
            inner.ledger.remove(&self.key, Resource::Names, self.names);
            inner.ledger.add(&self.key, Resource::Names, names);
            self.names = names;
        }
    }

    /// Returns whether a response may be written, by the rule of [`Ledger::may_respond`]. Responses displace no stream:
    /// after a restart of the control plane, so many clients load their configuration at once that responses have to
    /// wait.
    pub(crate) fn may_send(&self) -> bool {
        self.accounts.lock().ledger.may_respond(&self.key)
    }

    /// Number of the streams of the holder's namespace.
    pub(crate) fn streams_of_namespace(&self) -> u32 {
        let streams = self.accounts.lock().ledger.used_by_namespace(&self.key, Resource::Streams);
        streams.try_into().unwrap_or(u32::MAX)
    }

    /// Counts the bytes of a response against the holder, even beyond its limit.
    pub(crate) fn hold(&self, bytes: usize) -> Held {
        let mut inner = self.accounts.lock();
        inner.ledger.add(&self.key, Resource::Bytes, bytes);
        inner.ledger.add(&self.key, Resource::Unread, bytes);
        Held { accounts: self.accounts.clone(), key: self.key.clone(), bytes, unread: bytes }
    }

    /// Begins to count the bytes of requests against the holder. [`Held::grow`] adds them.
    pub(crate) fn hold_requests(&self) -> Held {
        Held { accounts: self.accounts.clone(), key: self.key.clone(), bytes: 0, unread: 0 }
    }

    /// Locks the rate limits of this holder's clients at this address.
    pub(crate) fn paces(&self) -> MutexGuard<'_, Paces> {
        sources::lock(&self.paces)
    }

    /// Takes what the stream's task must wait for. Later calls return a value that waits for ever.
    pub(crate) fn displacement(&mut self) -> Displacement {
        std::mem::take(&mut self.displacement)
    }
}

impl Held {
    /// Raises the count to `bytes` if that is more than before. The additional bytes belong to requests.
    ///
    /// # Errors
    /// [`Exhausted`] if there is no room for so many bytes. In this case, the count stays unchanged.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let Some(more) = bytes.checked_sub(self.bytes) else { return Ok(()) };
        self.accounts.lock().ledger.take(&self.key, Resource::Bytes, more, Instant::now())?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut inner = self.accounts.lock();
        inner.ledger.remove(&self.key, Resource::Unread, self.unread);
        inner.ledger.remove(&self.key, Resource::Bytes, self.bytes);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut inner = self.accounts.lock();
        inner.ledger.remove(&self.key, Resource::Names, self.names);
        inner.ledger.remove(&self.key, Resource::Streams, 1);
        inner.sources.close((self.key.holder.clone(), self.address));
    }
}

#[cfg(test)]
#[path = "accounts_tests.rs"]
mod tests;
