//! The subjects that workers have asked about, and when calls last used each subject. A [`Subject`] is a destination of
//! outbound calls, or the inbound policies of our own application. If the table is full, the least recently used
//! subjects are forgotten first.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leno_model::discovery::Subject;
use leno_xds::listener::Destination;

/// The subjects about which workers have asked, without the subjects that were forgotten.
#[derive(Debug)]
pub(super) struct AskedSubjects {
    by_subject: BTreeMap<Subject, Asked>,
    max: usize,
}

/// A subject that was asked about.
#[derive(Debug)]
pub(super) struct Asked {
    /// The subject's destination. Outer `None`: the control plane has not answered yet. Inner `None`: the subject does
    /// not exist.
    pub(super) lead: Option<Option<Destination>>,
    /// Whether a response of the control plane has named the subject: with an answer, with a resource that we could not
    /// read, or with a refusal.
    pub(super) has_response: bool,
    /// When a worker last asked about the subject, or reported that calls use it.
    used: Instant,
}

impl AskedSubjects {
    /// An empty set with room for `max` subjects.
    pub(super) fn new(max: usize) -> Self {
        Self { by_subject: BTreeMap::new(), max }
    }

    /// Adds a subject, or records that it was asked about again. `None` if the subject is new and there is no room for
    /// it.
    pub(super) fn ask(&mut self, subject: &Subject, now: Instant) -> Option<IsNew> {
        if let Some(asked) = self.by_subject.get_mut(subject) {
            asked.used = now;
            return Some(IsNew(false));
        }
        if self.is_full() {
            return None;
        }
        self.by_subject.insert(subject.clone(), Asked { lead: None, has_response: false, used: now });
        Some(IsNew(true))
    }

    /// Whether there is no room for a new subject.
    pub(super) fn is_full(&self) -> bool {
        self.by_subject.len() >= self.max
    }

    pub(super) fn len(&self) -> usize {
        self.by_subject.len()
    }

    pub(super) fn get(&self, subject: &Subject) -> Option<&Asked> {
        self.by_subject.get(subject)
    }

    pub(super) fn get_mut(&mut self, subject: &Subject) -> Option<&mut Asked> {
        self.by_subject.get_mut(subject)
    }

    pub(super) fn remove(&mut self, subject: &Subject) -> Option<Asked> {
        self.by_subject.remove(subject)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Subject> {
        self.by_subject.keys()
    }

    /// Records that calls used `subject` at the time `at`.
    pub(super) fn used(&mut self, subject: &Subject, at: Instant) {
        if let Some(asked) = self.by_subject.get_mut(subject) {
            asked.used = asked.used.max(at);
        }
    }

    /// Marks the most recently used subject of `subjects` as used at `now`. All of `subjects` lead to the same cluster,
    /// so one of them keeps the cluster. Returns `false` if this table has none of `subjects`.
    pub(super) fn one_is_used<'a>(&mut self, subjects: impl Iterator<Item = &'a Subject>, now: Instant) -> bool {
        let used = subjects.filter_map(|subject| Some((self.by_subject.get(subject)?.used, subject)));
        let Some((_, latest)) = used.max_by_key(|(used, _)| *used) else { return false };
        self.used(latest, now);
        true
    }

    /// Returns the subjects that no call has used for at least `idle`, without [`Subject::Inbound`].
    pub(super) fn idle(&self, now: Instant, idle: Duration) -> Vec<Subject> {
        let is_idle = |asked: &Asked| now.saturating_duration_since(asked.used) >= idle;
        let may_go = self.by_subject.iter().filter(|(subject, asked)| may_be_forgotten(subject) && is_idle(asked));
        may_go.map(|(subject, _)| subject.clone()).collect()
    }

    /// Returns up to `most` subjects to forget, the least recently used first. `may_go` decides whether a subject may
    /// be forgotten; its arguments are the subject and the time of its latest use.
    pub(super) fn least_recently_used(&self, most: usize, may_go: impl Fn(&Subject, Instant) -> bool) -> Vec<Subject> {
        let may_go = |(subject, asked): &(&Subject, &Asked)| may_be_forgotten(subject) && may_go(subject, asked.used);
        let may_go = self.by_subject.iter().filter(may_go);
        let mut may_go: Vec<(Instant, &Subject)> = may_go.map(|(subject, asked)| (asked.used, subject)).collect();
        may_go.sort_unstable();
        may_go.into_iter().take(most).map(|(_, subject)| subject.clone()).collect()
    }
}

/// The result of [`AskedSubjects::ask`]: whether the question has added the subject to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IsNew(pub(super) bool);

/// Whether a subject may be forgotten. The proxy needs the policies of its own application for as long as it runs; it
/// may forget every other subject.
fn may_be_forgotten(subject: &Subject) -> bool {
    *subject != Subject::Inbound
}
