//! Discover: asks the control plane for the destination of a call, or for the policies of inbound calls, when a call
//! first needs the answer. Calls wait for the answer.

use std::time::{Duration, Instant};

use leno_model::discovery::Subject;
use rustc_hash::FxHashMap;

use crate::call::CallId;
use crate::call::reply::ProxyError;
use crate::downstream::origin::Origin;
use crate::effect::Effect;
use crate::limits::ms;
use crate::{Relay, SWEEP_EVERY};

/// A question that the control plane has not answered.
#[derive(Debug)]
pub(crate) struct Question {
    /// The time at which the oldest of the waiting calls began to wait, or an earlier time.
    since: Instant,
    /// When the control plane was last asked.
    asked: Instant,
    /// When the latest connection that is left unread until the answer began to wait. The connection may have ended.
    held: Option<Instant>,
    /// The calls that wait for the answer. Some of them may have ended.
    pub(crate) calls: Vec<CallId>,
}

/// The questions that the control plane has not answered, and the answers that calls use.
#[derive(Debug)]
pub(crate) struct Questions {
    /// Whether the relay can ask the control plane about subjects that the mesh does not have. If `false`, the relay
    /// gets the whole mesh at once, and never asks.
    discovers: bool,
    open: FxHashMap<Subject, Question>,
    /// Subjects that were looked up for calls since the last report, with the time of the latest lookup.
    used: FxHashMap<Subject, Instant>,
}

impl Questions {
    pub(crate) fn new(discovers: bool) -> Self {
        Self { discovers, open: FxHashMap::default(), used: FxHashMap::default() }
    }

    /// Removes a question that is no longer open, for any reason.
    pub(crate) fn take(&mut self, subject: &Subject) -> Option<Question> {
        self.open.remove(subject)
    }

    /// Returns the subjects of the open questions.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.open.keys()
    }

    /// Returns whether the relay records further uses of answers. The proxy reads the records to decide which answers
    /// it forgets first. Without a control plane, the proxy forgets no answer, so the relay records no use. The relay
    /// keeps at most `max_subjects` records, because the proxy keeps at most `max_subjects` answers.
    pub(crate) fn records_use(&self, max_subjects: usize) -> bool {
        self.discovers && self.used.len() < max_subjects
    }

    /// Records that the target of a call was looked up in the answer about `subject`.
    pub(crate) fn note_use(&mut self, subject: Subject, now: Instant) {
        self.used.insert(subject, now);
    }

    /// Returns the answers that were used since the last call of this function, and the time of their latest use.
    pub(crate) fn take_used(&mut self) -> impl Iterator<Item = (Subject, Instant)> {
        std::mem::take(&mut self.used).into_iter()
    }
}

impl Relay {
    /// Makes a call wait for the control plane's answer about `subject`.
    pub(crate) fn wait_for_answer(&mut self, id: CallId, subject: &Subject) {
        let most = self.limits.relay.max_waiting_calls_per_endpoint as usize;
        if let Err(error) = self.ask(subject) {
            return self.fail(id, &error);
        }
        self.limit_call(id);
        let begun = self.began_to_wait(id).unwrap_or(self.now);
        let calls = &self.calls;
        let is_waiting = |id: &CallId| calls.contains(*id);
        let Some(question) = self.questions.open.get_mut(subject) else { return };
        if question.calls.len() >= most {
            question.calls.retain(is_waiting);
        }
        if question.calls.len() < most {
            question.since = question.since.min(begun);
            return question.calls.push(id);
        }
        let waiting = question.calls.len();
        self.fail(id, &ProxyError::QueueFull { cluster: subject.to_string(), waiting, own: waiting });
    }

    /// Asks the control plane about the destination of a new connection of our own application, if the mesh has no
    /// answer. Returns whether an answer is expected: the worker then leaves the connection unread. If the question
    /// cannot be sent, the calls on the connection fail with the reason.
    pub fn asks_first(&mut self, origin: &Origin) -> bool {
        let Some(subject) = self.unanswered(origin) else { return false };
        if self.ask(&subject).is_err() {
            return false;
        }
        if let Some(question) = self.questions.open.get_mut(&subject) {
            question.held = Some(self.now);
        }
        true
    }

    /// Returns whether the worker must leave a connection unread for now, until the answer arrives. `since` is the time
    /// at which the worker accepted the connection. Shortly before the answer is overdue for this connection, the
    /// worker reads the connection, so that its calls can fail with the reason.
    pub fn awaits_answer(&self, origin: &Origin, since: Instant) -> bool {
        let is_open = |subject: &Subject| self.questions.open.contains_key(subject);
        self.unanswered(origin).is_some_and(|subject| is_open(&subject)) && self.now - since < self.hold_max()
    }

    /// Longest time for which a connection stays unread while a question about its destination is open.
    fn hold_max(&self) -> Duration {
        let limit = self.answer_max();
        limit.saturating_sub((limit / 10).max(SWEEP_EVERY * 2))
    }

    fn unanswered(&self, origin: &Origin) -> Option<Subject> {
        self.targets.mesh().unanswered_address(origin.original_destination?)
    }

    /// Asks the control plane about `subject`, unless the question is already open.
    pub(crate) fn ask(&mut self, subject: &Subject) -> Result<(), ProxyError> {
        if self.questions.open.contains_key(subject) {
            return Ok(());
        }
        let too_many = || ProxyError::TooManyTargets { targets: self.questions.open.len() };
        if self.questions.open.len() >= self.limits.relay.max_questions as usize {
            return Err(too_many());
        }
        if !self.questions.discovers {
            return Err(unanswered(subject, 0));
        }
        self.effects.push(Effect::Ask(subject.clone()));
        let question = Question { since: self.now, asked: self.now, held: None, calls: Vec::new() };
        self.questions.open.insert(subject.clone(), question);
        Ok(())
    }

    /// Removes a question that the event loop cannot send to the control plane, and fails the calls that wait for the
    /// answer. The reason is that too many questions are open (`too_many`), or that the proxy ends.
    pub fn refuse_question(&mut self, subject: &Subject, too_many: bool) {
        let Some(question) = self.questions.take(subject) else { return };
        let targets = self.questions.open.len();
        let error = if too_many { ProxyError::TooManyTargets { targets } } else { unanswered(subject, 0) };
        for id in question.calls {
            if self.calls.contains(id) {
                self.fail(id, &error);
            }
        }
    }

    /// After the whole mesh was replaced, continues the calls whose question the new mesh answers.
    pub(crate) fn take_answers(&mut self) {
        let mesh = self.targets.mesh().clone();
        let mut calls = Vec::new();
        for (_, question) in self.questions.open.extract_if(|subject, _| mesh.answers(subject)) {
            calls.extend(question.calls);
        }
        for id in calls {
            self.enter(id);
        }
    }

    /// Fails the calls that have waited too long for an answer. If other calls or connections wait for the same answer,
    /// asks again for them. Otherwise, the next call asks again.
    pub(crate) fn sweep_questions(&mut self) {
        let limit = self.answer_max();
        let now = self.now;
        let late: Vec<_> = self.questions.open.extract_if(|_, question| now - question.since >= limit).collect();
        for (subject, Question { mut asked, held, calls, .. }) in late {
            let held = held.filter(|held| now - *held < limit);
            let (mut waiting, mut oldest) = (Vec::new(), held.unwrap_or(now));
            for id in calls {
                let Some(begun) = self.began_to_wait(id) else { continue };
                if now - begun >= limit {
                    self.fail(id, &unanswered(&subject, (now - begun).as_millis()));
                } else {
                    waiting.push(id);
                    oldest = oldest.min(begun);
                }
            }
            if waiting.is_empty() && held.is_none() {
                continue;
            }
            if now - asked >= limit {
                self.effects.push(Effect::Ask(subject.clone()));
                asked = now;
            }
            self.questions.open.insert(subject, Question { since: oldest, asked, held, calls: waiting });
        }
    }

    /// Returns when a call began to wait for an answer. If the connection was left unread, the request may have waited
    /// in the socket since the worker accepted the connection. Once that is longer ago than a call may wait, requests
    /// on the connection are new.
    fn began_to_wait(&self, id: CallId) -> Option<Instant> {
        let call = self.calls.get(id)?;
        let held = self.downstreams.get(call.client).and_then(|client| client.held_since);
        let held = held.filter(|held| call.started.saturating_duration_since(*held) < self.answer_max());
        Some(held.unwrap_or(call.started))
    }

    /// Longest time for which a call waits for an answer.
    fn answer_max(&self) -> Duration {
        ms(self.limits.relay.discovery_timeout_ms)
    }
}

/// Returns the error for a call whose question was not answered.
fn unanswered(subject: &Subject, waited_ms: u128) -> ProxyError {
    match subject {
        Subject::Inbound => ProxyError::PoliciesUnknown { waited_ms },
        subject => ProxyError::Unanswered { subject: subject.clone(), waited_ms },
    }
}

#[cfg(test)]
#[path = "discover_tests.rs"]
mod tests;
