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
//! The number of streams that a namespace may displace is limited (`DISPLACEMENTS_BURST`, `DISPLACEMENTS_PER_SECOND`),
//! and this limit takes precedence over the guarantee. Otherwise a namespace below its part could open streams, close
//! them, and repeat this, until all streams of a large namespace had been displaced.
//!
//! Bytes in transit soon become free if clients read, so they have stricter rules, which seldom displace a stream:
//!
//! - Requests: an account may use as many bytes as it leaves free. A request for more needs another namespace, or
//!   another account of its namespace, that uses more than the request's own would. So large requests find room beside
//!   clients that do not read.
//! - Responses displace no stream ([`Ledger::may_respond`]): they wait until the namespace uses less, or more is free.
//!   So clients of one namespace that do not read fill the part of their own namespace only. Their streams end after a
//!   while (`UNREAD_MAX`). If all clients together use twice the limit, no client gets a response until some are read or
//!   their streams end. The clients of a few namespaces can cause this.
//!
//! The streams and names of a displaced stream are free at once. Its bytes count until they have left the memory: the
//! client may take seconds to read them. Only the bytes of a stream that was displaced for its bytes make room for
//! requests at once, because its connection is closed without delay.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use tokio::sync::oneshot;

use super::accounts::{Displaced, Exhausted, Holder};
use super::limits::{Capacity, DISPLACEMENTS_BURST, RESPONSES_FACTOR};
use super::pace::Purse;

/// What a client uses, and a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Streams,
    /// Subscriptions.
    Names,
    /// Bytes of incomplete requests, and of responses that the client has not read.
    Bytes,
    /// The part of `Bytes` that belongs to responses. It has no limit of its own.
    Unread,
}

impl Resource {
    /// The name of the limit.
    pub(super) fn limit(self) -> &'static str {
        match self {
            Self::Streams => "streams_max",
            Self::Names => "names_max",
            Self::Bytes | Self::Unread => "bytes_max",
        }
    }
}

/// How much of each [`Resource`] is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage([usize; 4]);

impl Usage {
    fn of(self, resource: Resource) -> usize {
        self.0[resource as usize]
    }

    /// Replaces a part of the sum: `old` by `new`.
    fn replace(&mut self, resource: Resource, old: usize, new: usize) {
        let sum = &mut self.0[resource as usize];
        *sum = sum.saturating_sub(old).saturating_add(new);
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

#[derive(Debug)]
pub(super) struct Ledger {
    capacity: Capacity,
    all: Usage,
    /// The bytes of streams that were displaced for their bytes. A part of `all`.
    closing: Usage,
    namespaces: HashMap<Namespace, OfNamespace>,
    /// How many streams each namespace may displace; no entry if the namespace has its full allowance.
    purses: HashMap<Namespace, Purse>,
    streams_so_far: u64,
}

/// What a namespace uses, and its accounts. Invariant: each sum is the sum of its parts, and each account has a stream.
#[derive(Debug, Default)]
struct OfNamespace {
    usage: Usage,
    /// The part of `usage` that belongs to streams that can be displaced.
    displaceable: Usage,
    holders: HashMap<Holder, OfHolder>,
}

#[derive(Debug, Default)]
struct OfHolder {
    usage: Usage,
    /// The part of `usage` that belongs to streams that can be displaced.
    displaceable: Usage,
    streams: HashMap<u64, OfStream>,
}

#[derive(Debug)]
struct OfStream {
    usage: Usage,
    /// Ends the stream. `None` if the stream cannot be displaced, because it was displaced before, or its task has ended.
    end: Option<oneshot::Sender<Displaced>>,
    /// Whether the stream was displaced for its bytes.
    is_closing: bool,
    /// Whether the stream's task has ended. Responses may still use bytes until the client has read them.
    is_over: bool,
}

/// What a request lacks.
#[derive(Clone, Copy)]
struct Lack {
    /// How much other streams must free.
    amount: usize,
    /// Whether streams of other namespaces must free it. Otherwise, streams of other accounts of the same namespace.
    from_others: bool,
}

/// How much of its request a stream gets, and the streams that it displaces.
struct Plan {
    /// Less than the request if the namespace may not displace enough streams now.
    granted: usize,
    victims: Vec<StreamKey>,
}

/// The streams to displace for a request.
#[derive(Default)]
struct Victims {
    keys: Vec<StreamKey>,
    ids: HashSet<u64>,
    /// How much each namespace, each account, and all of them lose.
    of_namespaces: HashMap<Namespace, usize>,
    of_holders: HashMap<Holder, usize>,
    freed: usize,
}

impl Victims {
    fn add(&mut self, victim: StreamKey, used: usize) {
        self.ids.insert(victim.id);
        *self.of_namespaces.entry(victim.namespace.clone()).or_default() += used;
        *self.of_holders.entry(victim.holder.clone()).or_default() += used;
        self.freed += used;
        self.keys.push(victim);
    }
}

impl Ledger {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            all: Usage::default(),
            closing: Usage::default(),
            namespaces: HashMap::new(),
            purses: HashMap::new(),
            streams_so_far: 0,
        }
    }

    /// Counts a new stream of an account. A message to `end` tells the stream that it is displaced. Call
    /// [`Ledger::over`] when the stream no longer waits for this message.
    ///
    /// # Errors
    /// [`Exhausted`] if there is no room for the stream.
    pub(super) fn open(
        &mut self,
        holder: Holder,
        end: oneshot::Sender<Displaced>,
        now: Instant,
    ) -> Result<StreamKey, Exhausted> {
        let key = StreamKey { namespace: holder.namespace().map(Box::from), holder, id: self.streams_so_far };
        self.streams_so_far += 1;
        let namespace = self.namespaces.entry(key.namespace.clone()).or_default();
        let account = namespace.holders.entry(key.holder.clone()).or_default();
        let stream = OfStream { usage: Usage::default(), end: Some(end), is_closing: false, is_over: false };
        account.streams.insert(key.id, stream);
        let taken = self.take(&key, Resource::Streams, 1, now);
        if taken.is_err() {
            self.over(&key);
        }
        taken.map(|()| key)
    }

    /// Records that a stream's task has ended. The stream cannot be displaced any more. What it uses still counts.
    pub(super) fn over(&mut self, key: &StreamKey) {
        drop(self.exclude(key));
        if let Some(stream) = self.stream_mut(key) {
            stream.is_over = true;
        }
        self.forget_unused(key);
    }

    /// Counts `more` of a resource for a stream. Displaces other streams if there is no room. If the stream itself was
    /// displaced, it is about to end. Then the function counts only bytes, even beyond the limit, and displaces no stream.
    ///
    /// # Errors
    /// [`Exhausted`] if there is no room, and the stream may not displace others. Then the function counts nothing.
    pub(super) fn take(
        &mut self,
        key: &StreamKey,
        resource: Resource,
        more: usize,
        now: Instant,
    ) -> Result<(), Exhausted> {
        if more == 0 || self.is_ending(key) {
            self.add(key, resource, more);
            return Ok(());
        }
        match self.plan(key, resource, more, now) {
            Some(plan) if plan.granted == more => {
                self.carry_out(key, resource, &plan, now);
                Ok(())
            }
            partial => Err(self.refusal(key, resource, partial.as_ref())),
        }
    }

    /// Like [`Ledger::take`], but counts only a part of `wanted` if there is no room for all of it. Returns how much it
    /// counted, and the reason if that is less than `wanted`. Not for bytes, which have a stricter rule.
    pub(super) fn take_most(
        &mut self,
        key: &StreamKey,
        resource: Resource,
        wanted: usize,
        now: Instant,
    ) -> (usize, Option<Exhausted>) {
        if wanted == 0 || self.is_ending(key) {
            self.add(key, resource, wanted);
            return (wanted, None);
        }
        let mut plan = self.plan(key, resource, wanted, now);
        let is_less = plan.as_ref().is_none_or(|plan| plan.granted < wanted);
        let why = is_less.then(|| self.refusal(key, resource, plan.as_ref()));
        if plan.is_none() {
            let part = self.largest_part(key, resource, wanted);
            plan = self.plan(key, resource, part, now);
        }
        if let Some(plan) = &plan {
            self.carry_out(key, resource, plan, now);
        }
        let granted = plan.map_or(0, |plan| plan.granted);
        // A displaced stream may have freed more than the request lacked.
        let free = self.free(resource).min(wanted.saturating_sub(granted));
        self.add(key, resource, free);
        let taken = granted + free;
        (taken, why.filter(|_| taken < wanted))
    }

    /// Counts `more` of a resource for a stream, even beyond the limit. For a displaced stream, counts only bytes.
    pub(super) fn add(&mut self, key: &StreamKey, resource: Resource, more: usize) {
        if matches!(resource, Resource::Bytes | Resource::Unread) || !self.is_ending(key) {
            self.change(key, resource, |used| used.saturating_add(more));
        }
    }

    /// Takes `less` of a resource off the count of a stream, or all that the stream uses if that is less.
    pub(super) fn remove(&mut self, key: &StreamKey, resource: Resource, less: usize) {
        self.change(key, resource, |used| used.saturating_sub(less));
    }

    /// The limit on what all clients use.
    fn max(&self, resource: Resource) -> usize {
        match resource {
            Resource::Streams => self.capacity.streams_max,
            Resource::Names => self.capacity.names_max,
            Resource::Bytes | Resource::Unread => self.capacity.bytes_max,
        }
    }

    /// What all clients together may still use.
    fn free(&self, resource: Resource) -> usize {
        self.max(resource).saturating_sub(self.used(resource))
    }

    /// What all clients use.
    pub(super) fn used(&self, resource: Resource) -> usize {
        self.all.of(resource)
    }

    /// What the account of a stream uses.
    pub(super) fn used_by_holder(&self, key: &StreamKey, resource: Resource) -> usize {
        self.holder(key).map_or(0, |holder| holder.usage.of(resource))
    }

    /// What the namespace of a stream uses.
    pub(super) fn used_by_namespace(&self, key: &StreamKey, resource: Resource) -> usize {
        self.namespaces.get(&key.namespace).map_or(0, |namespace| namespace.usage.of(resource))
    }

    /// Whether a response may be written for a stream:
    ///
    /// - The unread responses of the account, added to those of its namespace, must not take more bytes than are free. So
    ///   the responses of one account take at most a third of the limit. The responses of one namespace take at most half
    ///   of it if other namespaces have streams. The latest response may exceed these parts.
    /// - An account without unread responses may have one response even if nothing is free, while the responses of its
    ///   namespace take at most an equal part of the limit. So a single other namespace cannot stop the account's
    ///   responses by leaving nothing free.
    /// - No account may have a further response while all clients use twice the limit ([`RESPONSES_FACTOR`]).
    ///
    /// The account's own requests only reduce what is free. The buffers of requests are counted for the life of their
    /// streams. Otherwise the proxies of a large namespace would stop their own responses for good, though they read all
    /// of them.
    pub(super) fn may_respond(&self, key: &StreamKey) -> bool {
        let by_account = self.used_by_holder(key, Resource::Unread);
        let by_namespace = self.used_by_namespace(key, Resource::Unread);
        let equal_part = self.max(Resource::Bytes) / self.namespaces.len().max(1);
        let has_room = self.used(Resource::Bytes) < self.max(Resource::Bytes).saturating_mul(RESPONSES_FACTOR);
        let leaves_as_much_free = by_namespace.saturating_add(by_account) <= self.free(Resource::Bytes);
        has_room && (leaves_as_much_free || (by_account == 0 && by_namespace <= equal_part))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.all == Usage::default() && self.closing == Usage::default()
    }

    fn holder(&self, key: &StreamKey) -> Option<&OfHolder> {
        self.namespaces.get(&key.namespace)?.holders.get(&key.holder)
    }

    fn stream_mut(&mut self, key: &StreamKey) -> Option<&mut OfStream> {
        self.namespaces.get_mut(&key.namespace)?.holders.get_mut(&key.holder)?.streams.get_mut(&key.id)
    }

    /// Whether a stream was displaced, or its task has ended.
    fn is_ending(&self, key: &StreamKey) -> bool {
        let stream = self.holder(key).and_then(|holder| holder.streams.get(&key.id));
        stream.is_none_or(|stream| stream.end.is_none())
    }

    /// Changes what a stream uses of a resource, and the sums.
    fn change(&mut self, key: &StreamKey, resource: Resource, change: impl FnOnce(usize) -> usize) {
        let Some(namespace) = self.namespaces.get_mut(&key.namespace) else { return };
        let Some(holder) = namespace.holders.get_mut(&key.holder) else { return };
        let Some(stream) = holder.streams.get_mut(&key.id) else { return };
        let old = stream.usage.of(resource);
        let new = change(old);
        if stream.end.is_some() {
            namespace.displaceable.replace(resource, old, new);
            holder.displaceable.replace(resource, old, new);
        }
        if stream.is_closing {
            self.closing.replace(resource, old, new);
        }
        let is_over = stream.is_over;
        for usage in [&mut self.all, &mut namespace.usage, &mut holder.usage, &mut stream.usage] {
            usage.replace(resource, old, new);
        }
        if is_over {
            self.forget_unused(key);
        }
    }

    /// Makes sure that a stream cannot be displaced. Returns the sender that would have ended it; `None` if the stream
    /// could not be displaced before either.
    fn exclude(&mut self, key: &StreamKey) -> Option<oneshot::Sender<Displaced>> {
        let namespace = self.namespaces.get_mut(&key.namespace)?;
        let holder = namespace.holders.get_mut(&key.holder)?;
        let stream = holder.streams.get_mut(&key.id)?;
        let end = stream.end.take()?;
        namespace.displaceable.remove_all(stream.usage);
        holder.displaceable.remove_all(stream.usage);
        Some(end)
    }

    /// Removes the entry of a stream that is over and uses nothing any more.
    fn forget_unused(&mut self, key: &StreamKey) {
        let Some(namespace) = self.namespaces.get_mut(&key.namespace) else { return };
        let Some(holder) = namespace.holders.get_mut(&key.holder) else { return };
        let is_unused = |stream: &OfStream| stream.is_over && stream.usage == Usage::default();
        if !holder.streams.get(&key.id).is_some_and(is_unused) {
            return;
        }
        holder.streams.remove(&key.id);
        if holder.streams.is_empty() {
            namespace.holders.remove(&key.holder);
        }
        if namespace.holders.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
    }

    /// Plans a request for `more`. Displaces no stream: a refused request must displace none. Scans all namespaces and the
    /// accounts of one, but only at a limit. Returns `None` if the rules do not allow the request.
    fn plan(&mut self, key: &StreamKey, resource: Resource, more: usize, now: Instant) -> Option<Plan> {
        let lack = self.lack(key, resource, more)?;
        let most = if lack.amount > 0 { self.allowance(&key.namespace, now) } else { 0 };
        let Victims { keys: victims, freed, .. } = self.victims(key, resource, lack, most)?;
        Some(Plan { granted: more.saturating_sub(lack.amount.saturating_sub(freed)), victims })
    }

    /// Displaces the streams of a plan, and counts what the plan grants.
    fn carry_out(&mut self, key: &StreamKey, resource: Resource, plan: &Plan, now: Instant) {
        if !plan.victims.is_empty() {
            let purse = self.purses.entry(key.namespace.clone()).or_insert_with(|| Purse::of_displacements(now));
            purse.spend(plan.victims.len(), now);
        }
        for victim in &plan.victims {
            self.displace(victim, resource);
        }
        self.add(key, resource, plan.granted);
    }

    /// Returns the error for a request that does not get all that it asks for. `plan` is the request's plan.
    fn refusal(&self, key: &StreamKey, resource: Resource, plan: Option<&Plan>) -> Exhausted {
        let (holder, max) = (key.holder.clone(), self.max(resource));
        match plan {
            Some(_) => Exhausted::Displacements { holder, resource, max },
            None => Exhausted::new(resource, holder, self.used_by_holder(key, resource), max),
        }
    }

    /// Returns the largest part of a request that the rules allow, if they do not allow all of `wanted`.
    fn largest_part(&self, key: &StreamKey, resource: Resource, wanted: usize) -> usize {
        // If the rules allow a part, they allow each smaller part.
        let (mut part, mut too_much) = (0, wanted);
        while too_much - part > 1 {
            let middle = part + (too_much - part) / 2;
            if self.lack(key, resource, middle).is_some() {
                part = middle;
            } else {
                too_much = middle;
            }
        }
        part
    }

    /// Returns what a request for `more` lacks; `None` if the rules do not allow the request.
    fn lack(&self, key: &StreamKey, resource: Resource, more: usize) -> Option<Lack> {
        let max = self.max(resource);
        let own = self.namespaces.get(&key.namespace)?;
        let holder_after = self.used_by_holder(key, resource).saturating_add(more);
        let namespace_after = own.usage.of(resource).saturating_add(more);
        let after = self.used(resource).saturating_sub(self.closing.of(resource)).saturating_add(more);
        let free = max.checked_sub(after);
        let fits = match resource {
            Resource::Streams | Resource::Names => free.is_some(),
            Resource::Bytes | Resource::Unread => free.is_some_and(|free| holder_after <= free),
        };
        if fits {
            return Some(Lack { amount: 0, from_others: false });
        }
        // Free no more than the request takes: if all clients use more than the limit already, because the mesh has
        // grown or responses were sent, one request must not displace the streams of many clients.
        let amount = after.saturating_sub(max).min(more);
        let namespaces = self.namespaces.iter().filter(|(name, _)| **name != key.namespace);
        let namespaces = namespaces.map(|(_, namespace)| namespace.displaceable.of(resource));
        let from_others = excess(namespaces, namespace_after) >= amount.max(1);
        let holders = own.holders.iter().filter(|(holder, _)| **holder != key.holder);
        let holders = holders.map(|(_, holder)| holder.displaceable.of(resource));
        let is_allowed = from_others || excess(holders, holder_after) >= amount.max(1);
        is_allowed.then_some(Lack { amount, from_others })
    }

    /// Chooses at most `most` streams to displace for a stream that lacks a resource. Returns `None` if too few streams can
    /// be displaced.
    fn victims(&self, key: &StreamKey, resource: Resource, lack: Lack, most: usize) -> Option<Victims> {
        let mut victims = Victims::default();
        while victims.freed < lack.amount && victims.keys.len() < most {
            let (victim, used) = self.heaviest(key, resource, lack.from_others, &victims)?;
            victims.add(victim, used);
        }
        Some(victims)
    }

    /// Returns the stream to displace after `victims` for a stream of another account, and what it uses: a stream of
    /// another namespace if `from_others` is set, otherwise a stream of the same namespace.
    fn heaviest(
        &self,
        key: &StreamKey,
        resource: Resource,
        from_others: bool,
        victims: &Victims,
    ) -> Option<(StreamKey, usize)> {
        let left = |usage: Usage, lost: Option<&usize>| usage.of(resource).saturating_sub(lost.copied().unwrap_or(0));
        let namespaces = self.namespaces.iter().filter(|(name, _)| (**name != key.namespace) == from_others);
        let (namespace, of_namespace) = namespaces
            .max_by_key(|(name, namespace)| left(namespace.displaceable, victims.of_namespaces.get(*name)))?;
        let holders = of_namespace.holders.iter().filter(|(holder, _)| **holder != key.holder);
        let (holder, of_holder) =
            holders.max_by_key(|(holder, of_holder)| left(of_holder.displaceable, victims.of_holders.get(*holder)))?;
        let streams =
            of_holder.streams.iter().filter(|(id, stream)| stream.end.is_some() && !victims.ids.contains(*id));
        let used = streams.map(|(id, stream)| (*id, stream.usage.of(resource))).filter(|(_, used)| *used > 0);
        let (id, used) = used.max_by_key(|(id, used)| (*used, Reverse(*id)))?;
        Some((StreamKey { namespace: namespace.clone(), holder: holder.clone(), id }, used))
    }

    /// Returns how many streams a namespace may displace now.
    fn allowance(&mut self, namespace: &Namespace, now: Instant) -> usize {
        self.purses.retain(|_, purse| !purse.is_full(now));
        self.purses.get_mut(namespace).map_or(DISPLACEMENTS_BURST as usize, |purse| purse.whole(now))
    }

    /// Takes a stream off the count, except for its bytes, and tells it to end.
    fn displace(&mut self, victim: &StreamKey, resource: Resource) {
        let (own, max) = (self.used_by_holder(victim, resource), self.max(resource));
        for free_at_once in [Resource::Streams, Resource::Names] {
            self.change(victim, free_at_once, |_| 0);
        }
        let Some(end) = self.exclude(victim) else { return };
        if resource == Resource::Bytes
            && let Some(stream) = self.stream_mut(victim)
        {
            stream.is_closing = true;
            let bytes = stream.usage.of(Resource::Bytes);
            self.closing.replace(Resource::Bytes, 0, bytes);
        }
        // Ignore an error: the stream may have just ended.
        let _ = end.send(Displaced { holder: victim.holder.clone(), resource, own, max });
    }
}

/// Returns how much can be freed of `others`, if each of them may lose only what it uses beyond `after`.
fn excess(others: impl Iterator<Item = usize>, after: usize) -> usize {
    others.map(|used| used.saturating_sub(after)).sum()
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
