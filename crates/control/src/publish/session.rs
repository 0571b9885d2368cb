//! What one client has and wants: its subscriptions, what was sent, and what it said to that. No sockets, no clock.
//!
//! Of each kind at most one response is out at a time, and what is sent next is decided when it is acknowledged: the
//! latest state, however much happened in between. Clusters and their endpoints go before the listeners and routes that
//! name them, and are taken away after them ("make before break").

use std::sync::Arc;

use leno_wire::Kind;
use leno_wire::limits::NAME_MAX_BYTES;

use super::catalog::{Audience, Catalog, Version, Written};
use super::holdings::{KindState, Outstanding, Refused, Sent};
use super::limits::{RESPONSE_BYTES, SUBSCRIPTIONS_MAX, TEXT_MAX_BYTES};
use super::subject::Subject;
use super::subscribers::{ClientId, Names, Subscribers};

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
    nonces: u64,
}

/// A response to send.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) kind: Kind,
    pub(crate) nonce: String,
    pub(crate) resources: Vec<(Arc<str>, Arc<Written>)>,
    /// Only of [`Variant::Delta`].
    pub(crate) removed: Vec<Arc<str>>,
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
    #[error("a resource name of more than {NAME_MAX_BYTES} bytes; no resource has one")]
    Name,
}

/// Where a session finds resources, and says what it wants to hear of.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) subscribers: &'a Subscribers,
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
}

impl Session {
    /// A client that has asked for nothing yet.
    pub(crate) fn new(id: ClientId, variant: Variant, audience: Audience) -> Self {
        Self { id, variant, audience, kinds: Default::default(), nonces: 0 }
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
    pub(crate) fn close(&mut self, subscribers: &Subscribers) {
        for kind in Kind::ALL {
            for name in std::mem::take(&mut self.kinds[kind.index()].entries).into_keys() {
                if let Some(subject) = Subject::of(kind, &name, &self.audience.namespace) {
                    subscribers.unsubscribe(self.id, kind, &subject, name);
                }
            }
        }
        subscribers.leave(self.id);
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
                entry.refused = refused.clone().map(|why| Refused { version, why });
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
        let state = &mut self.kinds[kind.index()];
        let name: Arc<str> = name.into();
        let entry = state.entries.entry(name.clone()).or_default();
        entry.sent = Sent::Nothing;
        if !entry.is_named {
            if state.named >= SUBSCRIPTIONS_MAX {
                return Err(Refusal::Subscriptions);
            }
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
                context.subscribers.unsubscribe(self.id, kind, &subject, name.clone());
            }
        }
        if state.wants_all {
            state.pending.insert(name);
        }
    }

    /// Begins or ends the subscription to all resources of a kind.
    pub(super) fn want_all(&mut self, kind: Kind, wants_all: bool, context: Context<'_>) {
        let state = &mut self.kinds[kind.index()];
        if !kind.has_wildcard() || state.wants_all == wants_all {
            return;
        }
        state.wants_all = wants_all;
        context.subscribers.set_all(self.id, kind, wants_all);
        if wants_all {
            state.pending.extend(context.catalog.all(kind).into_iter().map(Arc::from));
        } else {
            state.entries.retain(|_, entry| entry.is_named);
        }
    }

    /// Notes a version that the client has from an earlier stream.
    pub(super) fn has(&mut self, kind: Kind, name: &str, version: &str) {
        let state = &mut self.kinds[kind.index()];
        let Some(version) = Version::parse(version).filter(|_| name.len() <= NAME_MAX_BYTES) else {
            return;
        };
        if state.wants_all && state.entries.len() < SUBSCRIPTIONS_MAX {
            state.entries.entry(name.into()).or_default();
            state.pending.insert(name.into());
        }
        if let Some(entry) = state.entries.get_mut(name) {
            entry.sent = Sent::Version(version);
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
        let Applied { mut resources, removed, names } = self.apply(kind, steps);
        let has_news = match self.variant {
            Variant::Delta => !resources.is_empty() || !removed.is_empty(),
            // What is not a whole has no way to say that something is gone.
            Variant::StateOfTheWorld => !resources.is_empty() || (is_whole && !removed.is_empty()) || is_answer_due,
        };
        if !has_news {
            return None;
        }
        if is_whole {
            let all = self.kinds[kind.index()].entries.keys();
            resources = all.filter_map(|n| Some((n.clone(), catalog.get(kind, n, &self.audience)?))).collect();
        }
        self.nonces += 1;
        let nonce = self.nonces.to_string();
        let state = &mut self.kinds[kind.index()];
        state.last_nonce = Some(nonce.clone());
        state.outstanding = Some(Outstanding { nonce: nonce.clone(), names });
        Some(Batch { kind, nonce, resources, removed })
    }

    fn step(&self, kind: Kind, name: &str, catalog: &Catalog) -> Step {
        let state = &self.kinds[kind.index()];
        let entry = state.entries.get(name);
        let is_named = entry.is_some_and(|entry| entry.is_named);
        let is_wanted = is_named || (state.wants_all && catalog.is_among_all(kind, name));
        let written = if is_wanted { catalog.get(kind, name, &self.audience) } else { None };
        match (written, entry.map(|entry| entry.sent)) {
            (Some(written), Some(Sent::Version(sent))) if sent == written.version => Step::Nothing,
            (Some(written), _) => Step::Send(written),
            (None, Some(Sent::Version(_))) => Step::Remove,
            (None, Some(Sent::Nothing)) if is_named => Step::Remove,
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
                    entries.entry(name.clone()).or_default().sent = Sent::Version(written.version);
                    applied.resources.push((name, written));
                }
                Step::Remove => {
                    if let Some(entry) = entries.get_mut(&name) {
                        entry.sent = Sent::Absent;
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
