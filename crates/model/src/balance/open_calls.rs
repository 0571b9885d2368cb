//! The open calls of one endpoint: how many are in flight, which of them have answers, and whether the endpoint hangs.

use std::time::{Duration, Instant};

/// An endpoint hangs if it has left all calls of this time without an answer. If the usual latency is long, the limit is
/// [`HANG_FACTOR`] times the usual latency.
const HANG_MIN: Duration = Duration::from_secs(2);
const HANG_FACTOR: f64 = 3.0;

/// The open calls of one endpoint.
///
/// The endpoint does not track each call. The relay knows the calls, and only their numbers matter here.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenCalls {
    /// Number of picks that are not finished yet.
    pub(super) in_flight: u32,
    /// Number of picks in `in_flight` whose calls have not been answered yet.
    pub(super) unanswered: u32,
    /// Number of open calls whose answers have begun since the latest [`Self::take_old_answers`]. Without calls that
    /// have an outcome.
    new_answers: u32,
    /// Like `new_answers`, but the answers began before.
    old_answers: u32,
    /// Start of the latest call.
    latest_start: Option<Instant>,
    /// Start of the call that began last among the answered calls.
    latest_answered_start: Option<Instant>,
    /// Start of the first call of the present wait. Only calls that began after the endpoint's last answer or failure
    /// matter; `None` if there is no such call, or if all these calls have ended. If a call that was not sent overlaps
    /// another call, the wait contains the time of both calls, because the starts of single calls are not known here.
    waits_since: Option<Instant>,
    /// The duration of the earlier waits since the endpoint's last answer or failure. The time between two waits does
    /// not count, because an endpoint without calls has nothing to answer.
    waited: Duration,
    /// Calls that began earlier are no evidence, because the endpoint has become failing at this time.
    forgotten_before: Option<Instant>,
}

impl OpenCalls {
    /// Returns whether a call waits for its answer, and no call that began later has an answer. If later calls overtake
    /// a call, the endpoint works, and the call waits for another reason. For example, the call is a stream, and its
    /// server has no message to send yet.
    pub(super) fn owe_answer(&self) -> bool {
        self.unanswered > 0 && self.latest_start > self.latest_answered_start
    }

    /// Returns the number of calls that have been answered and continue.
    pub(super) fn answered(&self) -> u32 {
        self.in_flight - self.unanswered
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.latest_start = Some(now);
        self.waits_since.get_or_insert(now);
        self.in_flight += 1;
        self.unanswered += 1;
    }

    /// Records the response headers of a call.
    pub(super) fn answer(&mut self) {
        self.unanswered -= 1;
        self.new_answers += 1;
    }

    /// Records the end of the call that began at `started`. Returns whether a success of the call is a new outcome: false
    /// if [`Self::take_old_answers`] has counted it, or if the call began before [`Self::forget_answers`].
    ///
    /// A call that ends is taken for the latest answered call.
    pub(super) fn end(&mut self, is_answered: bool, started: Instant) -> bool {
        self.in_flight -= 1;
        if !is_answered {
            self.unanswered -= 1;
            return true;
        }
        // `new_answers` and `old_answers` do not contain this call, but perhaps a probe.
        if self.forgotten_before.is_some_and(|since| started < since) {
            return false;
        }
        let latest = if self.new_answers > 0 { &mut self.new_answers } else { &mut self.old_answers };
        let is_new = *latest > 0;
        *latest = latest.saturating_sub(1);
        is_new
    }

    /// Records an answer, or a failure, of the call that began at `started`.
    pub(super) fn heard(&mut self, started: Instant) {
        self.latest_answered_start = self.latest_answered_start.max(Some(started));
        self.waits_since = None;
        self.waited = Duration::ZERO;
    }

    /// Records that a call has ended without an answer. `is_evidence`: the endpoint has received the call.
    pub(super) fn unheard(&mut self, now: Instant, is_evidence: bool) {
        if self.unanswered > 0 {
            return;
        }
        if let Some(since) = self.waits_since.take()
            && is_evidence
        {
            self.waited += now.saturating_duration_since(since);
        }
    }

    /// Returns whether the endpoint has left all calls without an answer for a long time.
    pub(super) fn hang(&self, now: Instant, usual_ms: Option<f64>) -> bool {
        let usual_s = usual_ms.map_or(0.0, |usual_ms| usual_ms / 1e3);
        let waits = self.waits_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        (self.waited + waits).as_secs_f64() > HANG_MIN.as_secs_f64().max(HANG_FACTOR * usual_s)
    }

    /// Returns the number of open calls whose answers began before the previous call of this function.
    pub(super) fn take_old_answers(&mut self) -> u32 {
        std::mem::replace(&mut self.old_answers, std::mem::take(&mut self.new_answers))
    }

    /// Makes the calls that are open now no evidence: the endpoint has become failing.
    pub(super) fn forget_answers(&mut self, now: Instant) {
        self.forgotten_before = Some(now);
        self.new_answers = 0;
        self.old_answers = 0;
    }
}
