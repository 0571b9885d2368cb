//! One client's session: its subscriptions, the resources that it was sent, and its answers to responses. A session
//! uses no sockets and no clock.
//!
//! Each kind has at most one unacknowledged response. When the client acknowledges it, the session chooses what to send
//! next: the latest state, however many changes there were. Clusters and endpoints are sent before the listeners and
//! routes that name them, and removed after them ("make before break").

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_xds::Kind;
use leno_xds::limits::NAME_MAX_BYTES;
use leno_xds::name::{INBOUND, MESH};

use super::accounts::{Account, Exhausted, Held};
use super::catalog::{Audience, Catalog, Found, Written};
use super::holdings::{Entry, KindState, Outstanding, Refused, Sent};
use super::limits::{READ_BYTES_PER_NAME, RESPONSE_BYTES, SUBSCRIPTIONS_MAX, TEXT_MAX_BYTES};
use super::refused::{OverLimit, RefusedNames};
use super::subject::Subject;
use super::subscribers::{ClientId, Names, Subscribers};
use super::version::Version;

/// Interval between checks whether a client has read its responses.
const UNREAD_PAUSE: Duration = Duration::from_millis(50);
/// While a namespace's streams pause, they check whether they may send again. This is the shortest interval between two
/// such checks over all streams of the namespace: with 1,000 streams, each checks every 200 ms. Each check takes the
/// lock of all accounts, so many identities must not make more checks than one.
const CHECK_EVERY: Duration = Duration::from_micros(200);

/// The xDS variant that the client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// A response has only the changed resources.
    Delta,
    /// A response has all clusters or all listeners whenever one of them changes, because the client removes a resource
    /// that is missing from the response. It also repeats the removed clusters that the client still needs.
    StateOfTheWorld,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(super) id: ClientId,
    pub(super) variant: Variant,
    pub(super) audience: Audience,
    /// Whether the client is Envoy. After each update of a Cluster, Envoy waits until it gets the Cluster's endpoints,
    /// even if they have not changed. It acknowledges the Cluster only then, or after 15 s.
    pub(super) warms_clusters: bool,
    pub(super) kinds: [KindState; 4],
    /// Counts what the stream uses against its holder; `None` once the stream has ended.
    account: Option<Account>,
    nonces: u64,
    /// Whether the client may not have sent its first requests of all kinds yet; `false` after [`Session::has_begun`].
    is_new: bool,
    /// Whether the session is new, and the client claims to have resources from an earlier stream.
    is_returning: bool,
    /// The time from which the changed routes of the whole mesh may be sent; `None` if no change of them is due. Later
    /// changes do not postpone it.
    whole_routes_at: Option<Instant>,
    /// Whether the routes of the whole mesh wait for `whole_routes_at`. Other routes do not wait.
    must_routes_wait: bool,
    /// The names that the current request may not subscribe to.
    refused: Option<RefusedNames>,
    /// Number of subscribed names that requests made us check in addition to the names in the requests. They are not
    /// yet counted against the rate limit.
    pub(super) unpaid_names: usize,
    /// Bytes of resources that the client requested, or that a response repeated. These bytes are not yet counted
    /// against the rate limit. Changes of resources that this stream was sent do not count.
    pub(super) unpaid_bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) kind: Kind,
    pub(crate) nonce: String,
    pub(crate) resources: Vec<(Arc<str>, Arc<Written>)>,
    /// The names of removed resources; only for [`Variant::Delta`].
    pub(crate) removed: Vec<Arc<str>>,
}

/// A client's answer to a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The client accepted the response.
    Ack,
    /// The client rejected the response. `names` are the resources that were new or removed in the response.
    Nack { names: Vec<Arc<str>>, why: String },
    /// No answer, or an answer to an older response.
    None,
}

/// The reason to close a client's stream: a limit is reached, or a name in a request is too long.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    #[error("a resource name of more than {NAME_MAX_BYTES} bytes; no resource has one")]
    Name,
}

/// What a session needs from the shared state: the catalog with the resources, and the register of subscriptions.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// Returns the latest catalog. Call it only after the subscription is registered: the session is not notified of
    /// changes before that.
    pub(crate) catalog: &'a dyn Fn() -> Arc<Catalog>,
    pub(crate) subscribers: &'a Subscribers,
}

impl Context<'_> {
    /// Ends a subscription. Drops the subject's kept resources if it was the last one.
    fn unsubscribe(&self, id: ClientId, kind: Kind, subject: &Subject, name: &Arc<str>) {
        self.subscribers.unsubscribe(id, kind, subject, name);
        if !self.subscribers.has(subject) {
            (self.catalog)().forget(subject);
        }
    }
}

/// Room for new names of one request.
struct Room {
    /// How many names may still be added. The account counts them already.
    left: usize,
    /// Why there is not room for all names of the request.
    why: Option<Exhausted>,
}

impl Room {
    /// Takes the place of one name. Returns `false` if no place is left.
    fn take_place(&mut self) -> bool {
        let has_place = self.left > 0;
        self.left -= usize::from(has_place);
        has_place
    }
}

/// How the next response handles one name.
enum Step {
    Send(Arc<Written>),
    /// The client has this version from an earlier stream: its claim was right.
    Keep(Arc<Written>),
    Remove,
    Nothing,
}

/// The content of a response.
#[derive(Default)]
struct Applied {
    resources: Vec<(Arc<str>, Arc<Written>)>,
    removed: Vec<Arc<str>>,
    /// The names of all resources that are new or removed in the response.
    names: Vec<Arc<str>>,
    /// Bytes of resources that replace a version that this stream was sent.
    changed_bytes: usize,
}

impl Session {
    /// A client without subscriptions.
    pub(crate) fn new(id: ClientId, variant: Variant, audience: Audience, account: Account) -> Self {
        Self {
            id,
            variant,
            audience,
            warms_clusters: false,
            kinds: Default::default(),
            account: Some(account),
            nonces: 0,
            is_new: true,
            is_returning: false,
            whole_routes_at: None,
            must_routes_wait: false,
            refused: None,
            unpaid_names: 0,
            unpaid_bytes: 0,
        }
    }

    /// Records names that must be checked, since their resources may have changed.
    pub(crate) fn look_again(&mut self, names: Names) {
        for (state, names) in self.kinds.iter_mut().zip(names) {
            state.pending.extend(names);
        }
    }

    /// Lets changed routes of the whole mesh wait until clients may get them. Returns this time if it is after `now`.
    /// Clusters that the earlier routes name stay until then, because the client has not got the change of the routes.
    pub(crate) fn pace_routes(&mut self, catalog: &Catalog, now: Instant) -> Option<Instant> {
        let state = &self.kinds[Kind::Route.index()];
        let has_version =
            |entry: &Entry| matches!(entry.sent, Sent::Version(_) | Sent::Absent) && !entry.is_asked_again;
        let is_change = state.pending.contains(MESH) && state.entries.get(MESH).is_some_and(has_version);
        self.whole_routes_at = self.whole_routes_at.or(catalog.whole_routes_at()).filter(|_| is_change);
        let wait = self.whole_routes_at.filter(|at| now < *at);
        self.must_routes_wait = wait.is_some();
        wait
    }

    /// Returns the next response to send. If it returns `None`, [`Session::is_due`] tells whether names remain to be
    /// checked.
    pub(crate) fn next(&mut self, catalog: &Catalog) -> Option<Batch> {
        // Try clusters and endpoints again after listeners and routes. Removals of clusters and endpoints wait until
        // all listeners and routes have been checked, and the calls of `batch` for these may have checked the last
        // ones.
        let order = Kind::ALL.into_iter().chain([Kind::Cluster, Kind::Endpoints]);
        order.into_iter().find_map(|kind| if self.may_send(kind) { self.batch(kind, catalog) } else { None })
    }

    /// Returns whether any kind has names that must be checked and may be checked now.
    pub(crate) fn is_due(&self) -> bool {
        Kind::ALL.into_iter().any(|kind| self.may_send(kind))
    }

    /// Records that the client has had time to send its first requests of all kinds. Removals that waited for these
    /// requests need not wait any longer.
    pub(crate) fn has_begun(&mut self) {
        self.is_new = false;
        self.is_returning = false;
    }

    /// Ends all of the client's subscriptions.
    pub(crate) fn close(&mut self, context: Context<'_>) {
        context.subscribers.leave(self.id);
        for kind in Kind::ALL {
            for name in std::mem::take(&mut self.kinds[kind.index()].entries).into_keys() {
                for subject in self.audience.subjects(kind, &name) {
                    context.unsubscribe(self.id, kind, &subject, &name);
                }
            }
        }
        self.account = None;
    }

    /// Processes the client's answer to the response with this nonce.
    pub(super) fn acknowledge(&mut self, kind: Kind, nonce: &str, error: Option<&str>) -> Answer {
        let state = &mut self.kinds[kind.index()];
        let Some(outstanding) = state.outstanding.take_if(|outstanding| outstanding.nonce == nonce) else {
            return Answer::None;
        };
        let Outstanding { number: response, names, .. } = outstanding;
        for name in &names {
            if let Some(entry) = state.entries.get_mut(name) {
                let version = entry.sent;
                entry.refused = error.map(|_| Box::new(Refused { version, response }));
            }
        }
        let Some(why) = error.map(shortened) else { return Answer::Ack };
        state.keep_reason(response, why.clone());
        Answer::Nack { names, why }
    }

    /// Subscribes to all names of a request. The resources are sent even if they were sent to the client before. Returns
    /// `false` if a limit refuses all of the names; [`Session::take_refused`] then returns the refused names and the
    /// limit.
    ///
    /// # Errors
    /// [`Refusal::Name`] if a name is too long.
    pub(super) fn subscribe<'n>(
        &mut self,
        kind: Kind,
        names: impl Iterator<Item = &'n str> + Clone,
        context: Context<'_>,
    ) -> Result<bool, Refusal> {
        if names.clone().any(|name| name.len() > NAME_MAX_BYTES) {
            return Err(Refusal::Name);
        }
        let mut room = self.room_for(kind, names.clone());
        let mut is_any_taken = false;
        for name in names {
            is_any_taken |= self.subscribe_to(kind, name, &mut room, context);
        }
        self.give_back(&room);
        Ok(is_any_taken)
    }

    /// Subscribes to a resource. Returns `false` if a limit refuses the name.
    fn subscribe_to(&mut self, kind: Kind, name: &str, room: &mut Room, context: Context<'_>) -> bool {
        let is_named = self.kinds[kind.index()].entries.get(name).is_some_and(|entry| entry.is_named);
        if !is_named && !self.has_room_for(kind, name, room) {
            return false;
        }
        let name = self.shared_name(name);
        let state = &mut self.kinds[kind.index()];
        let entry = state.entries.entry(name.clone()).or_default();
        entry.is_asked_again = true;
        if !is_named {
            entry.is_named = true;
            state.named += 1;
            // Subscribe before looking the resource up, so that no change is missed in between.
            for subject in self.audience.subjects(kind, &name) {
                context.subscribers.subscribe(self.id, kind, subject, name.clone());
            }
        }
        state.pending.insert(name);
        true
    }

    /// Counts the new names among the names of a request, as far as there is room for them. Counts them all at once: at
    /// a limit, each count may displace other streams.
    fn room_for<'n>(&mut self, kind: Kind, names: impl Iterator<Item = &'n str>) -> Room {
        let state = &self.kinds[kind.index()];
        let is_new = |name: &&str| !is_of_own_workload(kind, name) && !state.entries.contains_key(*name);
        let new: HashSet<&str> = names.filter(is_new).collect();
        let wanted = new.len().min(SUBSCRIPTIONS_MAX.saturating_sub(state.named));
        self.take_names(wanted)
    }

    /// Counts `wanted` names, or as many of them as there is room for.
    fn take_names(&mut self, wanted: usize) -> Room {
        match &mut self.account {
            Some(account) if wanted > 0 => {
                let (left, why) = account.take_most_names(wanted);
                Room { left, why }
            }
            Some(_) | None => Room { left: wanted, why: None },
        }
    }

    /// Stops counting the names that were not added.
    fn give_back(&mut self, room: &Room) {
        if room.left > 0 {
            self.recount();
        }
    }

    /// Takes the place of a new subscription. Returns `false`, and records the name as refused, if a limit does not
    /// allow it.
    fn has_room_for(&mut self, kind: Kind, name: &str, room: &mut Room) -> bool {
        if is_of_own_workload(kind, name) {
            return true;
        }
        // Once a name of this request has been refused, refuse all further new names without a look at the limits.
        if let Some(refused) = &mut self.refused {
            refused.add(name);
            return false;
        }
        let state = &self.kinds[kind.index()];
        let is_below_limit = state.named < SUBSCRIPTIONS_MAX;
        if is_below_limit && (state.entries.contains_key(name) || room.take_place()) {
            return true;
        }
        let why = room.why.take().filter(|_| is_below_limit).map_or(OverLimit::Subscriptions, OverLimit::from);
        self.refused.get_or_insert(RefusedNames::new(kind, why)).add(name);
        false
    }

    /// Takes the names that the last request may not subscribe to, and a nonce for the answer about them. `None` if the
    /// client may subscribe to all names of the request.
    pub(crate) fn take_refused(&mut self) -> Option<(RefusedNames, String)> {
        let refused = self.refused.take()?;
        self.nonces += 1;
        Some((refused, self.nonces.to_string()))
    }

    /// Returns the name, in the allocation of another kind if that has the name: clients subscribe to each name in
    /// every kind.
    fn shared_name(&self, name: &str) -> Arc<str> {
        let known = self.kinds.iter().find_map(|state| Some(state.entries.get_key_value(name)?.0.clone()));
        known.unwrap_or_else(|| name.into())
    }

    /// Returns the time for which sending must pause, because this holder's clients requested too much or have unread
    /// responses. `None` if sending may go on, or nothing is due.
    pub(crate) fn must_pause(&self, now: Instant) -> Option<Duration> {
        let account = self.account.as_ref().filter(|_| self.is_due())?;
        let unread = (!account.may_send()).then_some(UNREAD_PAUSE);
        let wait = account.paces().asked.wait(now).or(unread)?;
        Some(wait.max(CHECK_EVERY.saturating_mul(account.streams_of_namespace())))
    }

    /// Counts a response's bytes against the holder until the returned value is dropped; `None` if the stream has ended.
    pub(crate) fn hold(&self, bytes: usize) -> Option<Held> {
        self.account.as_ref().map(|account| account.hold(bytes))
    }

    /// Returns the time to wait before the next request is read, if the holder's clients have too many bytes of unread
    /// responses. Call it only after a request with refused names: other responses wait themselves, but the answer
    /// about refused names is sent at once.
    pub(crate) fn unread_pause(&self) -> Option<Duration> {
        self.account.as_ref().filter(|account| !account.may_send()).map(|_| UNREAD_PAUSE)
    }

    /// Counts a request's bytes, and the names that we had to check for the request. Returns the time to wait before
    /// the next request may be read.
    pub(crate) fn has_read(&mut self, bytes: usize, now: Instant) -> Option<Duration> {
        let bytes = bytes.saturating_add(std::mem::take(&mut self.unpaid_names).saturating_mul(READ_BYTES_PER_NAME));
        let mut paces = self.account.as_ref()?.paces();
        paces.read.spend(bytes, now);
        paces.read.wait(now)
    }

    /// Charges the client's rate limit with the bytes of the resources that the client requested.
    pub(crate) fn has_sent(&mut self, now: Instant) {
        let bytes = std::mem::take(&mut self.unpaid_bytes);
        if let Some(account) = &self.account {
            account.paces().asked.spend(bytes, now);
        }
    }

    /// Sets the account's number of names to the current number. A subscription to all resources counts every resource
    /// of the mesh.
    fn recount(&mut self) {
        let names: usize = self.kinds.iter().map(|state| state.entries.len()).sum();
        let has_own = self.kinds[Kind::Listener.index()].entries.contains_key(INBOUND);
        let names = names - usize::from(has_own);
        if let Some(account) = &mut self.account {
            account.set_names(names);
        }
    }

    /// Ends the subscription to a name. If the client also subscribes to all resources, the session sends the resource
    /// once more.
    pub(super) fn unsubscribe(&mut self, kind: Kind, name: &str, context: Context<'_>) {
        let state = &mut self.kinds[kind.index()];
        let Some((name, entry)) = state.entries.remove_entry(name) else {
            return;
        };
        state.pending.remove(&name);
        state.held_back.remove(&name);
        if entry.is_named {
            state.named -= 1;
            for subject in self.audience.subjects(kind, &name) {
                context.unsubscribe(self.id, kind, &subject, &name);
            }
        }
        if state.wants_all {
            state.entries.insert(name.clone(), Entry::default());
            state.pending.insert(name);
        }
        self.recount();
    }

    /// Begins or ends the subscription to all resources of a kind.
    ///
    /// # Errors
    /// [`Refusal::Exhausted`] if the holder may not have so many subscriptions.
    pub(super) fn want_all(&mut self, kind: Kind, wants_all: bool, context: Context<'_>) -> Result<(), Refusal> {
        let state = &mut self.kinds[kind.index()];
        if !kind.has_wildcard() || state.wants_all == wants_all {
            return Ok(());
        }
        context.subscribers.set_all(self.id, kind, wants_all);
        if wants_all {
            let all = (context.catalog)().all(kind);
            self.unpaid_names += all.len();
            if let Some(account) = &mut self.account {
                account.take_names(all.iter().filter(|name| !state.entries.contains_key(name.as_str())).count())?;
            }
            for name in all.into_iter().map(Arc::<str>::from) {
                state.entries.entry(name.clone()).or_default();
                state.pending.insert(name);
            }
        } else {
            self.unpaid_names += state.entries.len();
            state.entries.retain(|_, entry| entry.is_named);
        }
        state.wants_all = wants_all;
        self.recount();
        Ok(())
    }

    /// Records the versions that the client claims to have from an earlier stream: names and versions. The names differ.
    pub(super) fn has<'n>(&mut self, kind: Kind, claims: impl Iterator<Item = (&'n str, &'n str)>) {
        let valid = claims.filter(|(name, _)| name.len() <= NAME_MAX_BYTES);
        let claims: Vec<(&str, Version)> =
            valid.filter_map(|(name, version)| Some((name, Version::parse(version)?))).collect();
        let is_new = |state: &KindState, name: &str| state.wants_all && !state.entries.contains_key(name);
        let wanted = claims.iter().filter(|(name, _)| is_new(&self.kinds[kind.index()], name)).count();
        let mut room = self.take_names(wanted);
        let state = &mut self.kinds[kind.index()];
        for (name, version) in claims {
            if is_new(state, name) && room.take_place() {
                state.entries.entry(name.into()).or_default();
                state.pending.insert(name.into());
            }
            if let Some(entry) = state.entries.get_mut(name) {
                entry.sent = Sent::Claimed(version);
                entry.is_asked_again = false;
                self.is_returning |= self.is_new;
            }
        }
    }

    fn may_send(&self, kind: Kind) -> bool {
        let is_out = |kind: Kind| self.kinds[kind.index()].outstanding.is_some();
        let state = &self.kinds[kind.index()];
        let may_remove = !state.held_back.is_empty() && !self.is_named_by_others(kind);
        let waiting = usize::from(kind == Kind::Route && self.must_routes_wait && state.pending.contains(MESH));
        let is_due = state.pending.len() > waiting || state.is_answer_due || may_remove;
        let names_others = matches!(kind, Kind::Listener | Kind::Route);
        is_due && !is_out(kind) && !(names_others && (is_out(Kind::Cluster) || is_out(Kind::Endpoints)))
    }

    /// Whether the client may still have listeners and routes that name removed clusters and endpoints. A client that
    /// comes back requests clusters first: its requests for listeners and routes may still be on their way.
    fn is_named_by_others(&self, kind: Kind) -> bool {
        let is_unsettled = |kind: Kind| {
            let state = &self.kinds[kind.index()];
            state.outstanding.is_some() || !state.pending.is_empty()
        };
        matches!(kind, Kind::Cluster | Kind::Endpoints)
            && (self.is_returning || is_unsettled(Kind::Listener) || is_unsettled(Kind::Route))
    }

    /// Whether each response of a kind contains all resources, because the client removes a resource that is missing
    /// from the response.
    fn is_whole(&self, kind: Kind) -> bool {
        self.variant == Variant::StateOfTheWorld && kind.has_wildcard()
    }

    fn batch(&mut self, kind: Kind, catalog: &Catalog) -> Option<Batch> {
        let is_whole = self.is_whole(kind);
        // A complete list must repeat the resources that are held back, or remove them.
        if is_whole || !self.is_named_by_others(kind) {
            let state = &mut self.kinds[kind.index()];
            state.pending.append(&mut state.held_back);
        }
        let must_wait = kind == Kind::Route && self.must_routes_wait;
        let waiting = must_wait.then(|| self.kinds[kind.index()].pending.take(MESH)).flatten();
        let mut steps = Vec::new();
        let mut bytes = 0;
        while let Some(name) = self.kinds[kind.index()].pending.pop_first() {
            let step = self.step(kind, &name, catalog);
            if let Step::Send(written) | Step::Keep(written) = &step {
                bytes += written.any.value.len();
            }
            match step {
                Step::Nothing => self.drop_unsent(kind, &name),
                Step::Keep(written) => self.keep(kind, &name, &written),
                step => steps.push((name, step)),
            }
            if bytes >= RESPONSE_BYTES && !is_whole {
                break;
            }
        }
        // A name that waits stays pending, so the removal of clusters waits for it.
        self.kinds[kind.index()].pending.extend(waiting);
        let is_answer_due = is_whole && self.kinds[kind.index()].is_answer_due;
        let all_remove = !steps.is_empty() && steps.iter().all(|(_, step)| matches!(step, Step::Remove));
        let only_removes = all_remove && !is_answer_due;
        if self.is_named_by_others(kind) {
            let waits = |(name, step): &mut (Arc<str>, Step)| {
                matches!(step, Step::Remove) && (only_removes || self.can_keep(kind, name, catalog))
            };
            let held_back: Vec<_> = steps.extract_if(.., waits).map(|(name, _)| name).collect();
            self.kinds[kind.index()].held_back.extend(held_back);
            if only_removes {
                return None;
            }
        }
        self.kinds[kind.index()].is_answer_due = false;
        let Applied { mut resources, removed, names, changed_bytes } = self.apply(kind, steps);
        self.recount();
        let has_news = match self.variant {
            Variant::Delta => !resources.is_empty() || !removed.is_empty(),
            // State-of-the-world xDS expresses a removal by leaving the resource out of a complete list. A response
            // that is not a complete list cannot express a removal.
            Variant::StateOfTheWorld => !resources.is_empty() || (is_whole && !removed.is_empty()) || is_answer_due,
        };
        if !has_news {
            return None;
        }
        if is_whole {
            let state = &self.kinds[kind.index()];
            let listed = |name: &Arc<str>| match catalog.get(kind, name, &self.audience) {
                Found::Resource(written) => Some((name.clone(), written)),
                Found::Missing if state.held_back.contains(name) => Some((name.clone(), self.departed(name, catalog)?)),
                Found::Missing | Found::TooLarge => None,
            };
            resources = state.entries.keys().filter_map(listed).collect();
        }
        let bytes: usize = resources.iter().map(|(_, written)| written.any.value.len()).sum();
        self.unpaid_bytes += bytes.saturating_sub(changed_bytes);
        self.nonces += 1;
        let (number, nonce) = (self.nonces, self.nonces.to_string());
        let state = &mut self.kinds[kind.index()];
        state.last_nonce = Some(nonce.clone());
        state.outstanding = Some(Outstanding { number, nonce: nonce.clone(), names });
        Some(Batch { kind, nonce, resources, removed })
    }

    /// Whether the client has a removed resource, and keeps it if the next response does not remove it. From a complete
    /// list, it keeps only the resources that the list repeats.
    fn can_keep(&self, kind: Kind, name: &str, catalog: &Catalog) -> bool {
        let sent = self.kinds[kind.index()].entries.get(name).map(|entry| entry.sent);
        matches!(sent, Some(Sent::Version(_) | Sent::Claimed(_)))
            && (!self.is_whole(kind) || self.departed(name, catalog).is_some())
    }

    /// Returns a removed Cluster for a complete list that repeats it; `None` if the catalog does not have the version
    /// that the client has. Another version would make Envoy wait for the Cluster's endpoints, which do not exist. Only
    /// Clusters are both listed completely and held back.
    fn departed(&self, name: &str, catalog: &Catalog) -> Option<Arc<Written>> {
        let sent = self.kinds[Kind::Cluster.index()].entries.get(name)?.sent;
        let written = catalog.departed(name, &self.audience)?;
        (sent == Sent::Version(written.version)).then_some(written)
    }

    fn step(&self, kind: Kind, name: &str, catalog: &Catalog) -> Step {
        let state = &self.kinds[kind.index()];
        let entry = state.entries.get(name);
        let is_named = entry.is_some_and(|entry| entry.is_named);
        let is_wanted = is_named || (state.wants_all && catalog.is_among_all(kind, name));
        let found = if is_wanted { catalog.get(kind, name, &self.audience) } else { Found::Missing };
        let is_asked_again = entry.is_some_and(|entry| entry.is_asked_again)
            || (kind == Kind::Endpoints && self.is_lacking_endpoints(name));
        match (found, entry.map(|entry| entry.sent)) {
            (Found::Resource(written), Some(Sent::Version(sent))) if sent == written.version && !is_asked_again => {
                Step::Nothing
            }
            (Found::Resource(written), Some(Sent::Claimed(has))) if has == written.version && !is_asked_again => {
                Step::Keep(written)
            }
            (Found::Resource(written), _) => Step::Send(written),
            // Leave the resource out, so that the client keeps its last version. Exception: from a response that must
            // contain all resources, the client would conclude that the resource was removed.
            (Found::TooLarge, Some(Sent::Version(_) | Sent::Claimed(_))) if !self.is_whole(kind) => Step::Nothing,
            (_, Some(Sent::Version(_) | Sent::Claimed(_))) => Step::Remove,
            (_, Some(Sent::Nothing)) if is_named => Step::Remove,
            (_, Some(Sent::Absent)) if is_asked_again => Step::Remove,
            (_, _) => Step::Nothing,
        }
    }

    /// Whether the client waits for the endpoints of the Cluster with this name.
    fn is_lacking_endpoints(&self, name: &str) -> bool {
        self.kinds[Kind::Cluster.index()].entries.get(name).is_some_and(|cluster| cluster.lacks_endpoints)
    }

    /// Records that the client has the current version of a resource from an earlier stream. To compare the versions,
    /// we may have encoded the resource for this client only. So its bytes count as if we had sent the resource.
    fn keep(&mut self, kind: Kind, name: &str, written: &Written) {
        self.unpaid_bytes += written.any.value.len();
        if let Some(entry) = self.kinds[kind.index()].entries.get_mut(name) {
            entry.sent = Sent::Version(written.version);
        }
    }

    /// Drops the entry of a resource that the client was to get among all resources, if there is nothing to send.
    fn drop_unsent(&mut self, kind: Kind, name: &str) {
        let entries = &mut self.kinds[kind.index()].entries;
        if entries.get(name).is_some_and(|entry| !entry.is_named && entry.sent == Sent::Nothing) {
            entries.remove(name);
        }
    }

    /// Records the resources that are sent now, and returns the content of the response.
    fn apply(&mut self, kind: Kind, steps: Vec<(Arc<str>, Step)>) -> Applied {
        let must_warm = self.warms_clusters && kind == Kind::Cluster;
        let entries = &mut self.kinds[kind.index()].entries;
        let mut applied = Applied::default();
        for (name, step) in steps {
            applied.names.push(name.clone());
            match step {
                Step::Send(written) => {
                    let entry = entries.entry(name.clone()).or_default();
                    entry.is_asked_again = false;
                    let now = Sent::Version(written.version);
                    let before = std::mem::replace(&mut entry.sent, now);
                    // Envoy ignores a Cluster that it has already.
                    entry.lacks_endpoints |= must_warm && before != now;
                    let is_change = match before {
                        Sent::Version(_) => before != now,
                        Sent::Absent => true,
                        // Count these bytes as requested, not as a change. Otherwise a client could avoid its rate
                        // limit: it could unsubscribe and subscribe again, or open another stream.
                        Sent::Nothing | Sent::Claimed(_) => false,
                    };
                    if is_change {
                        applied.changed_bytes += written.any.value.len();
                    }
                    applied.resources.push((name, written));
                }
                Step::Remove => {
                    if let Some(entry) = entries.get_mut(&name) {
                        entry.sent = Sent::Absent;
                        entry.is_asked_again = false;
                    }
                    if entries.get(&name).is_some_and(|entry| !entry.is_named) {
                        entries.remove(&name);
                    }
                    applied.removed.push(name);
                }
                Step::Keep(_) | Step::Nothing => {}
            }
        }
        self.follow_with_endpoints(kind, &applied.names);
        applied
    }

    /// Makes the endpoints of sent Clusters due for a client that waits for them, or records that they were sent. If
    /// the client has not subscribed to the endpoints yet, it gets them when it subscribes, even if it claims to have
    /// them from an earlier stream.
    fn follow_with_endpoints(&mut self, kind: Kind, names: &[Arc<str>]) {
        if !self.warms_clusters {
            return;
        }
        let [clusters, endpoints, ..] = &mut self.kinds;
        for name in names {
            let Some(cluster) = clusters.entries.get_mut(name) else { continue };
            match kind {
                Kind::Cluster if cluster.lacks_endpoints && endpoints.entries.contains_key(name) => {
                    endpoints.pending.insert(name.clone());
                }
                Kind::Endpoints => cluster.lacks_endpoints = false,
                Kind::Cluster | Kind::Listener | Kind::Route => {}
            }
        }
    }
}

/// Whether a resource has the policies of the client's own workload. The limits do not apply to the subscription to
/// this resource, because without it the workload would enforce outdated policies. Each stream has at most one.
fn is_of_own_workload(kind: Kind, name: &str) -> bool {
    kind == Kind::Listener && name == INBOUND
}

/// Cuts a peer's text to at most [`TEXT_MAX_BYTES`].
pub(super) fn shortened(text: &str) -> String {
    text.get(..text.floor_char_boundary(TEXT_MAX_BYTES)).unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
