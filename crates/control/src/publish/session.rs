//! What one client has and wants: its subscriptions, what was sent, and what it said to that. No sockets, no clock.
//!
//! Of each kind at most one response is out at a time, and what is sent next is decided when it is acknowledged: the
//! latest state, however much happened in between. Clusters and their endpoints go before the listeners and routes that
//! name them, and are taken away after them ("make before break").

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use leno_wire::Kind;
use leno_wire::limits::NAME_MAX_BYTES;

use super::accounts::{Account, Exhausted, Held};
use super::catalog::{Audience, Catalog, Version, Written};
use super::holdings::{KindState, Outstanding, Refused, Sent};
use super::limits::{RESPONSE_BYTES, SUBSCRIPTIONS_MAX, TEXT_MAX_BYTES};
use super::subject::Subject;
use super::subscribers::{ClientId, Names, Subscribers};

/// How often it is looked whether a client has read what it was sent.
const UNREAD_PAUSE: Duration = Duration::from_millis(50);

/// How the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// It is sent what changed, resource by resource.
    Delta,
    /// It is sent all clusters and all listeners whenever one changes, since what is not there is gone.
    StateOfTheWorld,
}

/// One client's stream.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) id: ClientId,
    pub(super) variant: Variant,
    pub(super) audience: Audience,
    pub(super) kinds: [KindState; 4],
    /// What it may have; none once the stream has ended.
    account: Option<Account>,
    nonces: u64,
}

/// A response to send.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) kind: Kind,
    pub(crate) nonce: String,
    pub(crate) resources: Vec<(Arc<str>, Arc<Written>)>,
    /// Only of [`Variant::Delta`].
    pub(crate) removed: Vec<Arc<str>>,
    /// Bytes of resources that the client was sent before.
    pub(crate) again_bytes: usize,
}

/// What a client answered to a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It took it.
    Ack,
    /// It did not, and why; these resources were new in it.
    Nack { names: Vec<Arc<str>>, why: String },
    /// Nothing, or something about a response that is not the last one.
    None,
}

/// Why a client's stream ends: it asked for too much.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("more than {SUBSCRIPTIONS_MAX} subscriptions of one kind; subscribe to what is used only")]
    Subscriptions,
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    #[error("a resource name of more than {NAME_MAX_BYTES} bytes; no resource has one")]
    Name,
}

/// Where a session finds resources, and says what it wants to hear of.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) subscribers: &'a Subscribers,
}

impl Context<'_> {
    /// Ends a subscription. What nobody subscribes to any more is not kept as it was written, either.
    fn unsubscribe(&self, id: ClientId, kind: Kind, subject: &Subject, name: &str) {
        self.subscribers.unsubscribe(id, kind, subject, name);
        if !self.subscribers.has(subject) {
            self.catalog.forget(subject);
        }
    }
}

/// A response that the client has not read.
struct Unread {
    response: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.response
    }
}

/// What is to be done about one name.
enum Step {
    Send(Arc<Written>),
    Remove,
    Nothing,
}

/// What goes into a response.
#[derive(Default)]
struct Applied {
    resources: Vec<(Arc<str>, Arc<Written>)>,
    removed: Vec<Arc<str>>,
    /// All that is new in it.
    names: Vec<Arc<str>>,
    again_bytes: usize,
}

impl Session {
    /// A client that has asked for nothing yet.
    pub(crate) fn new(id: ClientId, variant: Variant, audience: Audience, account: Account) -> Self {
        Self { id, variant, audience, kinds: Default::default(), account: Some(account), nonces: 0 }
    }

    /// Takes in what may have changed.
    pub(crate) fn look_again(&mut self, names: Names) {
        for (state, names) in self.kinds.iter_mut().zip(names) {
            state.pending.extend(names);
        }
    }

    /// The next response to send, if one is due now.
    pub(crate) fn next(&mut self, catalog: &Catalog) -> Option<Batch> {
        // Clusters once more at the end: by then it is known whether listeners and routes are settled.
        let order = Kind::ALL.into_iter().chain([Kind::Cluster, Kind::Endpoints]);
        order.into_iter().find_map(|kind| if self.may_send(kind) { self.batch(kind, catalog) } else { None })
    }

    /// Forgets the client's subscriptions.
    pub(crate) fn close(&mut self, context: Context<'_>) {
        for kind in Kind::ALL {
            for name in std::mem::take(&mut self.kinds[kind.index()].entries).into_keys() {
                if let Some(subject) = Subject::of(kind, &name, &self.audience.namespace) {
                    context.unsubscribe(self.id, kind, &subject, &name);
                }
            }
        }
        context.subscribers.leave(self.id);
        self.account = None;
    }

    /// Takes in what the client says to the response of this nonce.
    pub(super) fn acknowledge(&mut self, kind: Kind, nonce: &str, error: Option<&str>) -> Answer {
        let state = &mut self.kinds[kind.index()];
        let Some(outstanding) = state.outstanding.take_if(|outstanding| outstanding.nonce == nonce) else {
            return Answer::None;
        };
        let refused = error.map(shortened);
        for name in &outstanding.names {
            if let Some(entry) = state.entries.get_mut(name) {
                let version = entry.sent;
                entry.refused = refused.clone().map(|why| Box::new(Refused { version, why }));
            }
        }
        match refused {
            None => Answer::Ack,
            Some(why) => Answer::Nack { names: outstanding.names, why },
        }
    }

    /// Subscribes to a resource, which is sent even if the client was sent it before.
    pub(super) fn subscribe(&mut self, kind: Kind, name: &str, context: Context<'_>) -> Result<(), Refusal> {
        if name.len() > NAME_MAX_BYTES {
            return Err(Refusal::Name);
        }
        let state = &self.kinds[kind.index()];
        let is_named = state.entries.get(name).is_some_and(|entry| entry.is_named);
        if !is_named && state.named >= SUBSCRIPTIONS_MAX {
            return Err(Refusal::Subscriptions);
        }
        if !state.entries.contains_key(name)
            && let Some(account) = &mut self.account
        {
            account.take_names(1)?;
        }
        let name = self.shared_name(name);
        let state = &mut self.kinds[kind.index()];
        let entry = state.entries.entry(name.clone()).or_default();
        entry.is_asked_again = true;
        if !is_named {
            entry.is_named = true;
            state.named += 1;
            // Before the resource is looked for, so that no change falls in between.
            if let Some(subject) = Subject::of(kind, &name, &self.audience.namespace) {
                context.subscribers.subscribe(self.id, kind, subject, name.clone());
            }
        }
        state.pending.insert(name);
        Ok(())
    }

    /// A name as another kind has it already: clients ask for each in every kind.
    fn shared_name(&self, name: &str) -> Arc<str> {
        let known = self.kinds.iter().find_map(|state| Some(state.entries.get_key_value(name)?.0.clone()));
        known.unwrap_or_else(|| name.into())
    }

    /// How long nothing is sent, because clients like this one were sent too much again, or have not read what they were sent;
    /// `None` if nothing is in the way.
    pub(crate) fn must_pause(&self, now: Instant) -> Option<Duration> {
        let account = self.account.as_ref()?;
        let unread = (!account.may_send()).then_some(UNREAD_PAUSE);
        account.paces().again.wait(now).or(unread)
    }

    /// Counts a response until the client has read it.
    pub(crate) fn until_read(&self, response: Bytes) -> Bytes {
        match &self.account {
            Some(account) => Bytes::from_owner(Unread { _held: account.hold(response.len()), response }),
            None => response,
        }
    }

    /// Notes that a request was read; says how long to wait with the next one.
    pub(crate) fn has_read(&self, bytes: usize, now: Instant) -> Option<Duration> {
        let mut paces = self.account.as_ref()?.paces();
        paces.read.spend(bytes, now);
        paces.read.wait(now)
    }

    /// Notes that bytes were sent again.
    pub(crate) fn has_sent_again(&self, bytes: usize, now: Instant) {
        if let Some(account) = &self.account {
            account.paces().again.spend(bytes, now);
        }
    }

    /// Accounts for the names that are there after all: of all resources, as many as the mesh has.
    fn recount(&mut self) {
        let of_all = |state: &KindState| if state.wants_all { state.pending.len() } else { 0 };
        let names = self.kinds.iter().map(|state| state.entries.len() + of_all(state)).sum();
        if let Some(account) = &mut self.account {
            account.set_names(names);
        }
    }

    /// Ends a subscription; a resource that the client gets anyway, as one of all, is sent once more.
    pub(super) fn unsubscribe(&mut self, kind: Kind, name: &str, context: Context<'_>) {
        let state = &mut self.kinds[kind.index()];
        let Some((name, entry)) = state.entries.remove_entry(name) else {
            return;
        };
        state.pending.remove(&name);
        if entry.is_named {
            state.named -= 1;
            if let Some(subject) = Subject::of(kind, &name, &self.audience.namespace) {
                context.unsubscribe(self.id, kind, &subject, &name);
            }
        }
        if state.wants_all {
            state.pending.insert(name);
        }
        self.recount();
    }

    /// Begins or ends the subscription to all resources of a kind.
    ///
    /// # Errors
    /// [`Refusal::Exhausted`] if there are more than it may have.
    pub(super) fn want_all(&mut self, kind: Kind, wants_all: bool, context: Context<'_>) -> Result<(), Refusal> {
        let state = &mut self.kinds[kind.index()];
        if !kind.has_wildcard() || state.wants_all == wants_all {
            return Ok(());
        }
        if wants_all {
            let all = context.catalog.all(kind);
            if let Some(account) = &mut self.account {
                account.take_names(all.len())?;
            }
            state.pending.extend(all.into_iter().map(Arc::from));
        } else {
            state.entries.retain(|_, entry| entry.is_named);
        }
        state.wants_all = wants_all;
        context.subscribers.set_all(self.id, kind, wants_all);
        self.recount();
        Ok(())
    }

    /// Notes a version that the client has from an earlier stream.
    pub(super) fn has(&mut self, kind: Kind, name: &str, version: &str) {
        let state = &mut self.kinds[kind.index()];
        let Some(version) = Version::parse(version).filter(|_| name.len() <= NAME_MAX_BYTES) else {
            return;
        };
        let is_new = !state.entries.contains_key(name);
        if state.wants_all && is_new && state.entries.len() < SUBSCRIPTIONS_MAX {
            let has_room = self.account.as_mut().is_none_or(|account| account.take_names(1).is_ok());
            if has_room {
                state.entries.entry(name.into()).or_default();
                state.pending.insert(name.into());
            }
        }
        if let Some(entry) = state.entries.get_mut(name) {
            entry.sent = Sent::Version(version);
            entry.is_asked_again = false;
        }
    }

    fn may_send(&self, kind: Kind) -> bool {
        let is_out = |kind: Kind| self.kinds[kind.index()].outstanding.is_some();
        let state = &self.kinds[kind.index()];
        let is_due = !state.pending.is_empty() || state.is_answer_due;
        let names_others = matches!(kind, Kind::Listener | Kind::Route);
        is_due && !is_out(kind) && !(names_others && (is_out(Kind::Cluster) || is_out(Kind::Endpoints)))
    }

    /// Whether listeners and routes may still name what is to be taken away.
    fn is_named_by_others(&self, kind: Kind) -> bool {
        let is_unsettled = |kind: Kind| {
            let state = &self.kinds[kind.index()];
            state.outstanding.is_some() || !state.pending.is_empty()
        };
        matches!(kind, Kind::Cluster | Kind::Endpoints) && (is_unsettled(Kind::Listener) || is_unsettled(Kind::Route))
    }

    fn batch(&mut self, kind: Kind, catalog: &Catalog) -> Option<Batch> {
        let is_whole = self.variant == Variant::StateOfTheWorld && kind.has_wildcard();
        let mut steps = Vec::new();
        let mut bytes = 0;
        while let Some(name) = self.kinds[kind.index()].pending.pop_first() {
            let step = self.step(kind, &name, catalog);
            if let Step::Send(written) = &step {
                bytes += written.any.value.len();
            }
            if !matches!(step, Step::Nothing) {
                steps.push((name, step));
            }
            if bytes >= RESPONSE_BYTES && !is_whole {
                break;
            }
        }
        let only_removes = !steps.is_empty() && steps.iter().all(|(_, step)| matches!(step, Step::Remove));
        if only_removes && self.is_named_by_others(kind) {
            self.kinds[kind.index()].pending.extend(steps.into_iter().map(|(name, _)| name));
            return None;
        }
        let is_answer_due = std::mem::take(&mut self.kinds[kind.index()].is_answer_due) && is_whole;
        let Applied { mut resources, removed, names, mut again_bytes } = self.apply(kind, steps);
        self.recount();
        let has_news = match self.variant {
            Variant::Delta => !resources.is_empty() || !removed.is_empty(),
            // What is not a whole has no way to say that something is gone.
            Variant::StateOfTheWorld => !resources.is_empty() || (is_whole && !removed.is_empty()) || is_answer_due,
        };
        if !has_news {
            return None;
        }
        if is_whole {
            let new: usize = resources.iter().map(|(_, written)| written.any.value.len()).sum();
            let all = self.kinds[kind.index()].entries.keys();
            resources = all.filter_map(|n| Some((n.clone(), catalog.get(kind, n, &self.audience)?))).collect();
            let whole: usize = resources.iter().map(|(_, written)| written.any.value.len()).sum();
            again_bytes = whole.saturating_sub(new.saturating_sub(again_bytes));
        }
        self.nonces += 1;
        let nonce = self.nonces.to_string();
        let state = &mut self.kinds[kind.index()];
        state.last_nonce = Some(nonce.clone());
        state.outstanding = Some(Outstanding { nonce: nonce.clone(), names });
        Some(Batch { kind, nonce, resources, removed, again_bytes })
    }

    fn step(&self, kind: Kind, name: &str, catalog: &Catalog) -> Step {
        let state = &self.kinds[kind.index()];
        let entry = state.entries.get(name);
        let is_named = entry.is_some_and(|entry| entry.is_named);
        let is_wanted = is_named || (state.wants_all && catalog.is_among_all(kind, name));
        let written = if is_wanted { catalog.get(kind, name, &self.audience) } else { None };
        let is_asked_again = entry.is_some_and(|entry| entry.is_asked_again);
        match (written, entry.map(|entry| entry.sent)) {
            (Some(written), Some(Sent::Version(sent))) if sent == written.version && !is_asked_again => Step::Nothing,
            (Some(written), _) => Step::Send(written),
            (None, Some(Sent::Version(_))) => Step::Remove,
            (None, Some(Sent::Nothing)) if is_named => Step::Remove,
            (None, Some(Sent::Absent)) if is_asked_again => Step::Remove,
            (None, _) => Step::Nothing,
        }
    }

    /// Notes what is sent now.
    fn apply(&mut self, kind: Kind, steps: Vec<(Arc<str>, Step)>) -> Applied {
        let entries = &mut self.kinds[kind.index()].entries;
        let mut applied = Applied::default();
        for (name, step) in steps {
            applied.names.push(name.clone());
            match step {
                Step::Send(written) => {
                    let entry = entries.entry(name.clone()).or_default();
                    entry.is_asked_again = false;
                    if std::mem::replace(&mut entry.sent, Sent::Version(written.version))
                        == Sent::Version(written.version)
                    {
                        applied.again_bytes += written.any.value.len();
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
                Step::Nothing => {}
            }
        }
        applied
    }
}

/// As much of a peer's text as is kept.
pub(super) fn shortened(text: &str) -> String {
    text.get(..text.floor_char_boundary(TEXT_MAX_BYTES)).unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
