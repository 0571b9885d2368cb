//! Discover: what a call is for, or whether it may come in, is asked of the control plane when it is first needed; calls wait
//! for the answer.

use std::time::Instant;

use leno_model::discovery::Subject;
use tokio::sync::mpsc::error::TrySendError;

use super::accept::{Door, Origin};
use super::call::CallId;
use super::reply::ProxyError;
use super::{SWEEP_EVERY, Worker};
use crate::limits::ms;

/// A question that the control plane has not answered.
#[derive(Debug)]
pub(super) struct Question {
    since: Instant,
    /// The calls that wait for the answer; some may be over.
    pub(super) calls: Vec<CallId>,
}

impl Worker {
    /// A call waits until it is known what it is for.
    pub(super) fn wait_for_answer(&mut self, id: CallId, subject: &Subject) {
        let most = self.limits.relay.max_waiting_calls_per_endpoint as usize;
        if let Err(error) = self.ask(subject) {
            return self.fail(id.slot, &error);
        }
        self.set_deadline(id);
        let calls = &self.calls;
        let is_waiting = |id: &CallId| calls.get(id.slot as usize).is_some_and(|call| call.serial == id.serial);
        let Some(question) = self.questions.get_mut(subject) else { return };
        if question.calls.len() >= most {
            question.calls.retain(is_waiting);
        }
        if question.calls.len() < most {
            return question.calls.push(id);
        }
        let waiting = question.calls.len();
        self.fail(id.slot, &ProxyError::QueueFull { cluster: subject.to_string(), waiting, own: waiting });
    }

    /// Whether it has to be asked first what an application's connection is for, and could be. If it cannot be, the calls
    /// on it will say so.
    pub(super) fn asks_first(&mut self, origin: &Origin) -> bool {
        self.unanswered(origin).is_some_and(|subject| self.ask(&subject).is_ok())
    }

    /// Whether the answer is still waited for with the connection unread. Towards the end of the time for it the
    /// connection is read, so that the calls on it are told that there is none.
    pub(super) fn awaits_answer(&self, origin: &Origin) -> bool {
        let limit = ms(self.limits.relay.discovery_timeout_ms);
        let limit = limit.saturating_sub((limit / 10).max(SWEEP_EVERY * 2));
        let question = self.unanswered(origin).and_then(|subject| self.questions.get(&subject));
        question.is_some_and(|question| self.now - question.since < limit)
    }

    fn unanswered(&self, origin: &Origin) -> Option<Subject> {
        self.mesh.unanswered_address(origin.original_destination?)
    }

    /// Asks, unless that was done before.
    fn ask(&mut self, subject: &Subject) -> Result<(), ProxyError> {
        if self.questions.contains_key(subject) {
            return Ok(());
        }
        let too_many = || ProxyError::TooManyTargets { targets: self.questions.len() };
        if self.questions.len() >= self.limits.relay.max_questions as usize {
            return Err(too_many());
        }
        match self.discovery.as_ref().map(|discovery| discovery.try_send(subject.clone())) {
            Some(Ok(())) => {}
            Some(Err(TrySendError::Full(_))) => return Err(too_many()),
            // Nobody is left who would ask: the proxy is at its end.
            Some(Err(TrySendError::Closed(_))) | None => return Err(unanswered(subject, 0)),
        }
        self.questions.insert(subject.clone(), Question { since: self.now, calls: Vec::new() });
        Ok(())
    }

    /// A whole new mesh is there: what waited for an answer that it has goes on.
    pub(super) fn take_answers(&mut self) {
        let mesh = self.mesh.clone();
        let mut calls = Vec::new();
        for (_, question) in self.questions.extract_if(|subject, _| mesh.answers(subject)) {
            calls.extend(question.calls);
        }
        for id in calls {
            self.enter(id);
        }
        self.review_arrivals(|arrival| arrival.origin.door == Door::Outbound);
    }

    /// Fails the calls whose question was not answered in time. The control plane is asked again by the next call.
    pub(super) fn sweep_questions(&mut self) {
        let limit = ms(self.limits.relay.discovery_timeout_ms);
        let now = self.now;
        let late: Vec<_> = self.questions.extract_if(|_, question| now - question.since >= limit).collect();
        for (subject, question) in late {
            for id in question.calls {
                if self.call_exists(id) {
                    self.fail(id.slot, &unanswered(&subject, limit.as_millis()));
                }
            }
        }
    }
}

/// Why a call cannot go on.
fn unanswered(subject: &Subject, waited_ms: u128) -> ProxyError {
    match subject {
        Subject::Inbound => ProxyError::PoliciesUnknown { waited_ms },
        subject => ProxyError::Unanswered { subject: subject.clone(), waited_ms },
    }
}
