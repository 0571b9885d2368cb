//! Attempt: the endpoint's half of a call. An attempt begins when the balancer chooses an endpoint for the call. The
//! attempt then waits for a connection, or has a stream on a connection. Most calls have one attempt. If no endpoint
//! has processed a call, or if the call is retried, it gets another attempt. A hedged call has several attempts at
//! once: the relay forwards the first response that is not a failure, and cancels the other attempts.

use std::time::Instant;

use leno_http2::StreamKey;
use leno_model::balance::{Outcome, Pick};
use smallvec::SmallVec;

use crate::call::CallId;
use crate::pool::pools::PoolId;
use crate::pool::upstream::UpstreamId;
use crate::pool::waiting::Turn;

/// Identifies an attempt within its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttemptId {
    pub(crate) call: CallId,
    /// The number of this attempt among the attempts at its call. The first attempt has the number 1.
    number: u32,
}

impl AttemptId {
    pub(crate) fn number(self) -> u32 {
        self.number
    }
}

#[cfg(test)]
impl AttemptId {
    /// Returns the id of the first attempt at the call with the number `call`. The call need not exist.
    pub(crate) fn numbered(call: u32) -> Self {
        Self { call: CallId::numbered(call), number: 1 }
    }
}

/// The progress of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The endpoint is chosen.
    Chosen,
    /// The attempt waits for a connection, at this position in the queue of its pool.
    Waiting(Turn),
    /// The attempt was sent on this stream of this connection.
    Sent(UpstreamId, StreamKey),
    /// The attempt was sent, but its connection has ended.
    Lost,
}

/// One attempt at a call.
#[derive(Debug)]
pub(crate) struct Attempt {
    number: u32,
    /// The balancer's choice of the endpoint; `None` once the balancer knows how the attempt ended.
    pub(crate) pick: Option<Pick>,
    /// The pool of connections that the attempt may use.
    pub(crate) pool: PoolId,
    pub(crate) stage: Stage,
    /// When the attempt reached its current stage.
    pub(crate) since: Instant,
    /// Number of request content bytes that the endpoint's connection has moved to its output.
    pub(crate) sent_bytes: usize,
    /// Size in bytes of the request's trailers while they wait behind content in the endpoint's connection; 0 if no
    /// trailers wait.
    pub(crate) trailers_bytes: u32,
    /// Whether the attempt began while another attempt at the call was in progress.
    pub(crate) is_hedge: bool,
}

impl Attempt {
    /// Returns the stream of the attempt, if it was sent and its connection still exists.
    #[inline]
    pub(crate) fn stream(&self) -> Option<(UpstreamId, StreamKey)> {
        match self.stage {
            Stage::Sent(upstream, stream) => Some((upstream, stream)),
            Stage::Chosen | Stage::Waiting(_) | Stage::Lost => None,
        }
    }

    /// Returns the outcome for the balancer if the attempt ends now without an answer, and the endpoint is not the
    /// cause.
    pub(crate) fn unanswered(&self, now: Instant) -> Outcome {
        match self.stage {
            Stage::Sent(..) => Outcome::Cancelled { waited: now - self.since },
            Stage::Chosen | Stage::Waiting(_) | Stage::Lost => Outcome::NotSent,
        }
    }

    /// Returns the outcome for the balancer if the attempt ends because its call has reached its deadline. The call has
    /// taken too long, but the endpoint has not failed. After the response's headers, it has not succeeded either.
    pub(crate) fn out_of_time(&self, now: Instant) -> Outcome {
        match self.pick.as_ref().is_some_and(Pick::is_answered) {
            true => Outcome::NotSent,
            false => self.unanswered(now),
        }
    }

    /// Records that trailers of `bytes` bytes wait in the endpoint's connection until all content has been sent.
    pub(crate) fn trailers_wait(&mut self, bytes: usize) {
        self.trailers_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    }
}

/// The attempts at a call that have not ended, the number of attempts that have begun, and how often the call was sent
/// again after a refusal.
///
/// Invariants: numbers are unique and ascending. Once the response has begun, there is at most one attempt.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    current: SmallVec<[Attempt; 1]>,
    begun: u32,
    refusals: u8,
}

impl Attempts {
    /// Returns how many attempts have begun.
    pub(crate) fn begun(&self) -> u32 {
        self.begun
    }

    /// Returns how often the call was sent again because a server had refused it, without a retry of its rule.
    pub(crate) fn refusals(&self) -> u8 {
        self.refusals
    }

    /// Records that the call is sent again because a server has refused it.
    pub(crate) fn note_refusal(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
    }

    /// Returns how many attempts have not ended.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.current.len()
    }

    /// Begins another attempt at the call `call`.
    #[inline]
    pub(crate) fn begin(&mut self, call: CallId, pick: Pick, pool: PoolId, now: Instant) -> AttemptId {
        self.begun += 1;
        let number = self.begun;
        self.current.push(Attempt {
            number,
            pick: Some(pick),
            pool,
            stage: Stage::Chosen,
            since: now,
            sent_bytes: 0,
            trailers_bytes: 0,
            is_hedge: !self.current.is_empty(),
        });
        AttemptId { call, number }
    }

    /// Removes an attempt that has ended.
    pub(crate) fn end(&mut self, id: AttemptId) -> Option<Attempt> {
        let place = self.current.iter().position(|attempt| attempt.number == id.number)?;
        Some(self.current.remove(place))
    }

    #[inline]
    pub(crate) fn get(&self, id: AttemptId) -> Option<&Attempt> {
        self.current.iter().find(|attempt| attempt.number == id.number)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: AttemptId) -> Option<&mut Attempt> {
        self.current.iter_mut().find(|attempt| attempt.number == id.number)
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Attempt> {
        self.current.iter()
    }

    #[inline]
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Attempt> {
        self.current.iter_mut()
    }

    /// Returns the attempts of the call `call` with their ids.
    pub(crate) fn ids(&self, call: CallId) -> impl Iterator<Item = (AttemptId, &Attempt)> {
        self.current.iter().map(move |attempt| (AttemptId { call, number: attempt.number }, attempt))
    }

    /// Returns the id of the attempt of `call` that has this stream.
    #[inline]
    pub(crate) fn on(&self, call: CallId, upstream: UpstreamId, stream: StreamKey) -> Option<AttemptId> {
        let attempt = self.current.iter().find(|attempt| attempt.stage == Stage::Sent(upstream, stream))?;
        Some(AttemptId { call, number: attempt.number })
    }

    /// Returns when the call's first attempt reached its current stage; `None` if this attempt has ended.
    pub(crate) fn first_since(&self) -> Option<Instant> {
        self.current.first().filter(|attempt| attempt.number == 1).map(|attempt| attempt.since)
    }

    /// Returns whether an attempt waits for a connection.
    pub(crate) fn is_waiting(&self) -> bool {
        self.current.iter().any(|attempt| matches!(attempt.stage, Stage::Waiting(_)))
    }

    /// Returns the stream of the latest attempt, if this attempt has a stream.
    pub(crate) fn latest_stream(&self) -> Option<(UpstreamId, StreamKey)> {
        self.current.last().and_then(Attempt::stream)
    }

    /// Returns the pool of the latest attempt, if the attempt had a stream and its connection has ended.
    pub(crate) fn latest_lost(&self) -> Option<PoolId> {
        self.current.last().filter(|attempt| attempt.stage == Stage::Lost).map(|attempt| attempt.pool)
    }

    /// Returns when the latest attempt was sent, if this attempt has a stream.
    pub(crate) fn latest_sent_at(&self) -> Option<Instant> {
        self.current.last().filter(|attempt| attempt.stream().is_some()).map(|attempt| attempt.since)
    }

    /// Returns whether any attempt has a stream.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        self.current.iter().any(|attempt| attempt.stream().is_some())
    }

    /// Returns the number of content bytes that every attempt has sent, that is, the minimum of all attempts. For these
    /// bytes, the client may get flow-control window again.
    #[inline]
    pub(crate) fn sent_bytes(&self) -> usize {
        self.current.iter().map(|attempt| attempt.sent_bytes).min().unwrap_or(0)
    }

    /// Returns the total size in bytes of the trailers that the endpoints' connections queue, one copy for each
    /// attempt.
    #[inline]
    pub(crate) fn trailers_bytes(&self) -> u32 {
        self.current.iter().fold(0, |bytes, attempt| bytes.saturating_add(attempt.trailers_bytes))
    }
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
pub(crate) mod tests;
