//! Counts what each stream uses, with sums for its account, for its namespace, and for all clients. Selects the streams
//! that end when a limit is reached.
//!
//! While there is room, an account may open any number of streams, and subscribe to any number of names. If there is no
//! room, other streams may lose theirs to the request (they are *displaced*):
//!
//! 1. First, the namespaces that use more than the request's namespace would use afterwards. The namespace that uses
//!    the most loses first.
//! 2. If these namespaces cannot make enough room, the accounts of the request's own namespace that use more than the
//!    request's account would use afterwards. The account that uses the most loses first.
//! 3. If these accounts cannot make enough room either, the request is refused, and no stream is displaced.
//!
//! In a namespace, the account that uses the most loses its stream that uses the most, and of equal streams the oldest:
//! an old stream's client has its configuration, and lacks only updates until it has connected again.
//!
//! Guarantee for streams and names, if `n` namespaces have streams: a namespace is refused nothing that leaves it with
//! at most 1/n of the limit. No other namespace displaces a stream of a namespace that uses at most 1/n of the limit.
//! The number of a namespace's identities makes no difference to other namespaces. Within a namespace, the same holds
//! for its accounts and the part that the namespace uses.
//!
//! Bytes in transit soon become free if clients read, so they have a stricter rule, which seldom displaces a stream: an
//! account may use as many bytes as it leaves free. A request for more needs another namespace, or another account of
//! its namespace, that uses more than the request's own would. So large requests find room beside clients that do not
//! read.

use std::cmp::Reverse;
use std::collections::HashMap;

use tokio::sync::oneshot;

use super::accounts::{Displaced, Exhausted, Holder};
use super::limits::Capacity;

/// What a client uses, and a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Streams,
    /// Subscriptions.
    Names,
    /// Bytes of incomplete requests, and of responses that the client has not read.
    Bytes,
}

impl Resource {
    /// The name of the limit.
    pub(super) fn limit(self) -> &'static str {
        match self {
            Self::Streams => "streams_max",
            Self::Names => "names_max",
            Self::Bytes => "bytes_max",
        }
    }

    fn max(self, capacity: &Capacity) -> usize {
        match self {
            Self::Streams => capacity.streams_max,
            Self::Names => capacity.names_max,
            Self::Bytes => capacity.bytes_max,
        }
    }
}

/// How much of each [`Resource`] is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage([usize; 3]);

impl Usage {
    fn of(self, resource: Resource) -> usize {
        self.0[resource as usize]
    }

    fn add(&mut self, resource: Resource, more: usize) {
        let sum = &mut self.0[resource as usize];
        *sum = sum.saturating_add(more);
    }

    fn remove(&mut self, resource: Resource, less: usize) {
        let sum = &mut self.0[resource as usize];
        *sum = sum.saturating_sub(less);
    }

    fn remove_all(&mut self, gone: Self) {
        for (sum, less) in self.0.iter_mut().zip(gone.0) {
            *sum = sum.saturating_sub(less);
        }
    }
}

/// The namespace of an identity. `None` for all clients without a certificate, which together count as one namespace.
pub(super) type Namespace = Option<Box<str>>;

/// Identifies a stream, its account and its namespace. No two streams have the same key.
#[derive(Clone, Debug)]
pub(super) struct StreamKey {
    namespace: Namespace,
    pub(super) holder: Holder,
    id: u64,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    all: Usage,
    namespaces: HashMap<Namespace, OfNamespace>,
    streams_so_far: u64,
}

/// What a namespace uses, and its accounts. Invariant: each sum is the sum of its parts, and no part is without use.
#[derive(Debug, Default)]
struct OfNamespace {
    usage: Usage,
    holders: HashMap<Holder, OfHolder>,
}

#[derive(Debug, Default)]
struct OfHolder {
    usage: Usage,
    streams: HashMap<u64, OfStream>,
}

#[derive(Debug)]
struct OfStream {
    usage: Usage,
    /// Ends the stream if it is displaced.
    end: oneshot::Sender<Displaced>,
}

impl Ledger {
    /// Counts a new stream of an account. A message to `end` tells the stream that it is displaced.
    ///
    /// # Errors
    /// [`Exhausted::Streams`] if there is no room for the stream.
    pub(super) fn open(
        &mut self,
        holder: Holder,
        end: oneshot::Sender<Displaced>,
        capacity: &Capacity,
    ) -> Result<StreamKey, Exhausted> {
        let key = StreamKey { namespace: holder.namespace().map(Box::from), holder, id: self.streams_so_far };
        self.streams_so_far += 1;
        let namespace = self.namespaces.entry(key.namespace.clone()).or_default();
        let account = namespace.holders.entry(key.holder.clone()).or_default();
        account.streams.insert(key.id, OfStream { usage: Usage::default(), end });
        let taken = self.take(&key, Resource::Streams, 1, capacity);
        if taken.is_err() {
            // Removes the entry, which uses nothing.
            self.change(&key, |_| {});
        }
        taken.map(|()| key)
    }

    /// Counts `more` of a resource for a stream. Displaces other streams if there is no room. Counts nothing for a
    /// displaced stream, which is about to end.
    ///
    /// # Errors
    /// [`Exhausted`] if there is no room, and the stream may not displace others. Then the function counts nothing.
    pub(super) fn take(
        &mut self,
        key: &StreamKey,
        resource: Resource,
        more: usize,
        capacity: &Capacity,
    ) -> Result<(), Exhausted> {
        if more == 0 || self.find(key).is_none() {
            return Ok(());
        }
        let (own, max) = (self.used_by_holder(key, resource), resource.max(capacity));
        let free = max.checked_sub(self.used(resource).saturating_add(more));
        let fits = match resource {
            Resource::Streams | Resource::Names => free.is_some(),
            Resource::Bytes => free.is_some_and(|free| own.saturating_add(more) <= free),
        };
        if !fits && !self.make_room(key, resource, more, max) {
            return Err(Exhausted::new(resource, key.holder.clone(), own, max));
        }
        self.add(key, resource, more);
        Ok(())
    }

    /// Counts `more` of a resource for a stream, even beyond the limit.
    pub(super) fn add(&mut self, key: &StreamKey, resource: Resource, more: usize) {
        self.change(key, |usage| usage.add(resource, more));
    }

    pub(super) fn remove(&mut self, key: &StreamKey, resource: Resource, less: usize) {
        self.change(key, |usage| usage.remove(resource, less));
    }

    /// What all clients use.
    pub(super) fn used(&self, resource: Resource) -> usize {
        self.all.of(resource)
    }

    /// What the account of a stream uses; 0 if the stream is displaced.
    pub(super) fn used_by_holder(&self, key: &StreamKey, resource: Resource) -> usize {
        self.find(key).map_or(0, |(holder, _)| holder.usage.of(resource))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.all == Usage::default()
    }

    fn find(&self, key: &StreamKey) -> Option<(&OfHolder, &OfStream)> {
        let holder = self.namespaces.get(&key.namespace)?.holders.get(&key.holder)?;
        Some((holder, holder.streams.get(&key.id)?))
    }

    /// Changes what a stream uses, and the sums. Removes the stream if it then uses nothing, and returns it. No effect
    /// if it was removed before.
    fn change(&mut self, key: &StreamKey, change: impl Fn(&mut Usage)) -> Option<OfStream> {
        let namespace = self.namespaces.get_mut(&key.namespace)?;
        let holder = namespace.holders.get_mut(&key.holder)?;
        let stream = holder.streams.get_mut(&key.id)?;
        for usage in [&mut self.all, &mut namespace.usage, &mut holder.usage, &mut stream.usage] {
            change(usage);
        }
        if stream.usage != Usage::default() {
            return None;
        }
        let removed = holder.streams.remove(&key.id);
        if holder.streams.is_empty() {
            namespace.holders.remove(&key.holder);
        }
        if namespace.holders.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        removed
    }

    /// Displaces other streams until they have freed what `more` lacks. Returns `false` if the rules allow no request
    /// for `more` above the limit. Scans all namespaces and the accounts of one, but is called only at a limit.
    fn make_room(&mut self, key: &StreamKey, resource: Resource, more: usize, max: usize) -> bool {
        let Some(own) = self.namespaces.get(&key.namespace) else { return false };
        let namespace_after = own.usage.of(resource).saturating_add(more);
        let holder_after = self.used_by_holder(key, resource).saturating_add(more);
        // Free no more than the request takes: if all clients use more than the limit already, because the mesh has
        // grown or responses were sent, one request must not displace the streams of many clients.
        let lacking = self.used(resource).saturating_add(more).saturating_sub(max).min(more);
        let namespaces = self.namespaces.iter().filter(|(name, _)| **name != key.namespace);
        let namespaces = namespaces.map(|(_, namespace)| namespace.usage.of(resource));
        let holders = own.holders.iter().filter(|(holder, _)| **holder != key.holder);
        let holders = holders.map(|(_, holder)| holder.usage.of(resource));
        let from_others = excess(namespaces, namespace_after) >= lacking.max(1);
        if !from_others && excess(holders, holder_after) < lacking.max(1) {
            return false;
        }
        let mut freed = 0;
        while freed < lacking {
            let Some(victim) = self.heaviest(key, resource, from_others) else { return false };
            freed += self.displace(&victim, resource, max);
        }
        true
    }

    /// Returns the stream to displace next for a stream of another account: a stream of another namespace if
    /// `from_others` is set, otherwise a stream of the same namespace.
    fn heaviest(&self, key: &StreamKey, resource: Resource, from_others: bool) -> Option<StreamKey> {
        let namespaces = self.namespaces.iter().filter(|(name, _)| (**name != key.namespace) == from_others);
        let (namespace, of_namespace) = namespaces.max_by_key(|(_, namespace)| namespace.usage.of(resource))?;
        let holders = of_namespace.holders.iter().filter(|(holder, _)| **holder != key.holder);
        let (holder, of_holder) = holders.max_by_key(|(_, holder)| holder.usage.of(resource))?;
        // A stream can be over while its connection still has bytes that the client has not read. Nothing can end it.
        let streams = of_holder.streams.iter().filter(|(_, stream)| !stream.end.is_closed());
        let streams = streams.filter(|(_, stream)| stream.usage.of(resource) > 0);
        let (id, _) = streams.max_by_key(|(id, stream)| (stream.usage.of(resource), Reverse(**id)))?;
        Some(StreamKey { namespace: namespace.clone(), holder: holder.clone(), id: *id })
    }

    /// Takes a stream off the count, and tells it to end. Returns how much of the resource this frees.
    fn displace(&mut self, victim: &StreamKey, resource: Resource, max: usize) -> usize {
        let Some((holder, stream)) = self.find(victim) else { return 0 };
        let (own, gone) = (holder.usage.of(resource), stream.usage);
        if let Some(stream) = self.change(victim, |usage| usage.remove_all(gone)) {
            // Ignore an error: the stream may have just ended.
            let _ = stream.end.send(Displaced { holder: victim.holder.clone(), resource, own, max });
        }
        gone.of(resource)
    }
}

/// Returns how much can be freed of `others`, if each of them may lose only what it uses beyond `after`.
fn excess(others: impl Iterator<Item = usize>, after: usize) -> usize {
    others.map(|used| used.saturating_sub(after)).sum()
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
