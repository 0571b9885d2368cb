//! Retry: decides what happens when one of a call's attempts ends without an answer. The decision has three parts:
//!
//! - Whether the relay sends the call to another endpoint.
//! - If not, how the proxy answers the call.
//! - Which outcome the balancer records for the endpoint.
//!
//! Other files enforce the limits of the whole call, such as its deadline.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leno_http2::fields::Known;
use leno_http2::{ErrorCode, FieldSection, StreamKey};
use leno_model::balance::Outcome;

use crate::Relay;
use crate::call::attempt::{Attempt, AttemptId, Stage};
use crate::call::record::Ending;
use crate::call::reply::ProxyError;
use crate::call::retry_policy::{Unretried, Wait};
use crate::call::trace::AttemptEnd;
use crate::call::{Call, CallId, Response};
use crate::certain::Certain;
use crate::pool::hop::{Hop, Protocol};
use crate::pool::upstream::Upstream;

/// Reason why an attempt ended without an answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The call was not sent: the endpoint was removed or became silent while the call waited, the connection accepts
    /// no more calls, or the connection ended before its socket accepted a byte of the request.
    NotSent,
    /// No connection to the endpoint could be opened: [`ProxyError::Connect`], or [`ProxyError::NoSocket`] if the
    /// endpoint is not the cause.
    NotConnected(ProxyError),
    /// The server rejected the call without processing it (REFUSED_STREAM, RFC 9113 section 8.7). A proxy rejects calls
    /// that it cannot forward to its application; a server rejects calls while it is overloaded.
    Refused { endpoint: SocketAddr },
    /// The server does not process the call, because it closes the connection (GOAWAY, RFC 9113 section 6.8).
    GoneAway { endpoint: SocketAddr },
    /// The connection was lost. `was_used`: before the attempt, the connection had carried another call or had been
    /// idle, and the server had not begun to answer this attempt.
    Lost { endpoint: SocketAddr, was_used: bool },
    /// The server reset the stream.
    Reset(ErrorCode),
    /// The endpoint sent a malformed response, or took too long.
    Fault(ProxyError),
    /// The endpoint broke the connection's protocol, so the relay closes the connection.
    Violation(ProxyError),
}

impl Failure {
    /// Returns the failure of an attempt at `call` whose connection has ended. `stream` is the attempt's stream.
    pub(crate) fn lost(call: &Call, upstream: &Upstream, stream: StreamKey) -> Self {
        let (endpoint, codec) = (upstream.address, &upstream.link.codec);
        if !codec.has_sent(stream) && call.can_be_resent() {
            // A server may close an idle connection at any moment. If the connection is new, the endpoint has failed.
            if upstream.is_reused {
                return Self::NotSent;
            }
            let why = "the server closed the connection at once".to_owned();
            return Self::NotConnected(ProxyError::Connect { endpoint, why });
        }
        // In HTTP/2, an answer has begun only if its header section is complete. The call then has a response.
        let is_taken_up = upstream.key.hop == Hop::Plain(Protocol::Http1) && codec.is_taken_up(stream);
        Self::Lost { endpoint, was_used: upstream.is_reused && !is_taken_up }
    }

    /// Returns whether a route rule with retries sends the call again after this failure. It does if the connection or
    /// the stream failed, or if the attempt took too long (GEP-1731).
    fn may_be_retried(&self) -> bool {
        match self {
            Self::NotConnected(_) | Self::Refused { .. } | Self::GoneAway { .. } | Self::Lost { .. } => true,
            // The violation may belong to another call on the same connection.
            Self::Violation(_) => true,
            Self::Reset(_) | Self::Fault(ProxyError::BackendTimeout { .. }) => true,
            Self::NotSent | Self::Fault(_) => false,
        }
    }

    /// Returns whether the endpoint may have processed the call.
    fn may_be_processed(&self) -> bool {
        match self {
            Self::NotSent | Self::NotConnected(_) | Self::Refused { .. } | Self::GoneAway { .. } => false,
            Self::Lost { .. } | Self::Reset(_) | Self::Fault(_) | Self::Violation(_) => true,
        }
    }

    /// Returns the reason's name in the metrics of routes; `None` for [`Failure::NotSent`], which is not a failure of
    /// an endpoint.
    fn why(&self) -> Option<&'static str> {
        match self {
            Self::NotSent => None,
            Self::Refused { .. } | Self::GoneAway { .. } => Some("refused"),
            Self::Lost { .. } => Some("connection-closed"),
            Self::Reset(_) => Some("reset"),
            Self::NotConnected(error) | Self::Fault(error) | Self::Violation(error) => Some(error.why()),
        }
    }
}

/// The relay's reaction to an attempt that has ended without an answer.
#[derive(Debug)]
enum Next {
    /// Send the call to another endpoint.
    Resend,
    /// Send the call to another endpoint after a pause. This uses one of the retries that the call's rule allows.
    Retry(Duration),
    /// Wait: another attempt may answer.
    AwaitOthers,
    /// Answer the call with an error.
    Fail(ProxyError),
    /// Reset the client's stream with the server's code.
    Reset(ErrorCode),
    /// End the call: the response was complete before.
    End,
    /// End an opaque connection whose response was complete before, and reset the client: the server has not accepted
    /// all bytes of the client.
    Cut,
}

/// Decides what happens to a call after the failure of one of its attempts.
fn next(call: &Call, failure: &Failure, max_attempts: u32) -> Next {
    if call.response == Response::Ended {
        // A server that has answered a request may refuse the rest of it. In an opaque connection, the two directions
        // do not depend on each other: after a clean end, the client would believe that the server has its bytes.
        return if call.protocol == Protocol::Opaque { Next::Cut } else { Next::End };
    }
    if call.attempts.len() > 1 {
        return Next::AwaitOthers;
    }
    let attempts = call.own_attempts();
    let can_be_resent = call.can_be_resent() && attempts < max_attempts;
    match failure {
        Failure::NotSent | Failure::NotConnected(_) if attempts < max_attempts => Next::Resend,
        Failure::GoneAway { .. } if can_be_resent => Next::Resend,
        // After the first refusal, further attempts of a call whose rule has retries are retries.
        Failure::Refused { .. } if can_be_resent && (call.attempts.refusals() == 0 || !call.has_retries()) => {
            Next::Resend
        }
        // A server often closes several idle connections at the same time, so the same call may meet several of them,
        // and is sent again each time.
        Failure::Lost { .. } if can_be_resent && is_race(call, failure) && !call.has_retries() => Next::Resend,
        _ => give_up(failure, attempts),
    }
}

/// Returns how the relay ends a call that is not sent again after this failure. `attempts` is the number of attempts
/// without the retries and hedges of a policy.
fn give_up(failure: &Failure, attempts: u32) -> Next {
    match *failure {
        Failure::NotSent => Next::Fail(ProxyError::TooManyAttempts { attempts }),
        Failure::Refused { endpoint } | Failure::GoneAway { endpoint } => Next::Fail(ProxyError::Refused { endpoint }),
        Failure::Lost { endpoint, .. } => Next::Fail(ProxyError::ConnectionClosed { endpoint }),
        Failure::Reset(code) => Next::Reset(code),
        Failure::NotConnected(ref error) | Failure::Fault(ref error) | Failure::Violation(ref error) => {
            Next::Fail(error.clone())
        }
    }
}

/// Returns whether the server may have closed the connection only because the connection was idle, and the request is
/// idempotent. An HTTP/1 server may close an idle connection at any moment, even while the next request is on its way.
/// The relay then sends an idempotent request again (RFC 9110 section 9.2.2). If the call's rule has retries, this uses
/// one retry.
fn is_race(call: &Call, failure: &Failure) -> bool {
    let was_used = matches!(failure, Failure::Lost { was_used: true, .. });
    was_used && call.protocol == Protocol::Http1 && is_idempotent(&call.request)
}

/// Returns whether the relay excuses the loss of a connection, because the server may only have closed an idle
/// connection. The balancer then records no failure of the endpoint. If the call has lost so many connections that it
/// has no attempt left, the loss is a failure.
fn is_harmless(call: &Call, failure: &Failure, next: &Next) -> bool {
    let is_sent_again = matches!(next, Next::Resend | Next::Retry(_));
    // The call gets no retry because of its client, its deadline or the retry budget, and not because of the server.
    let is_prevented = matches!(call.unretried, Some(Unretried::Budget | Unretried::Deadline | Unretried::Client));
    is_race(call, failure) && (is_sent_again || is_prevented)
}

/// Returns the outcome that the balancer records for the endpoint of a failed attempt.
fn outcome(attempt: &Attempt, failure: &Failure, is_harmless: bool, now: Instant) -> Outcome {
    let has_failed = match failure {
        Failure::NotSent | Failure::GoneAway { .. } => false,
        Failure::Lost { .. } => !is_harmless,
        // A refusal takes a fraction of a millisecond. If it were no failure, an overloaded server would look fast.
        Failure::Refused { .. } => true,
        Failure::NotConnected(error) => !matches!(error, ProxyError::NoSocket { .. }),
        Failure::Reset(_) | Failure::Fault(_) | Failure::Violation(_) => true,
    };
    match has_failed {
        true => Outcome::Failure { latency: now - attempt.since, pushback: None },
        false => Outcome::NotSent,
    }
}

/// Returns whether a request may be repeated (RFC 9110 section 9.2.2).
fn is_idempotent(request: &FieldSection) -> bool {
    let method = request.get(Known::Method).unwrap_or_default();
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE")
        && !request.contains(Known::LenoUpgrade)
}

impl Relay {
    /// Handles the end of an attempt that was not answered.
    pub(crate) fn attempt_failed(&mut self, id: AttemptId, failure: &Failure) {
        let now = self.now;
        let Some(call) = self.calls.get(id.call) else { return };
        let (mut next, attempts) = (next(call, failure, self.limits.relay.max_attempts), call.own_attempts());
        // If the server has only closed an idle connection, it is not overloaded, so the call is sent again without
        // back-off.
        let wait = if is_race(call, failure) { Wait::None } else { Wait::BackOff };
        if matches!(next, Next::Fail(_) | Next::Reset(_))
            && failure.may_be_retried()
            && let Some(pause) = self.retry_in(id.call, wait)
        {
            next = Next::Retry(pause);
        }
        let mut resend_in = Duration::ZERO;
        if matches!(next, Next::Resend) {
            match self.resend_in(id.call, failure) {
                Some(pause) => resend_in = pause,
                None => next = give_up(failure, attempts),
            }
        }
        if let Next::Reset(code) = next
            && let Some(error) = self.reset_unretried(id, code)
        {
            next = Next::Fail(error);
        }
        let Some(call) = self.calls.get_mut(id.call).certain() else { return };
        if let (Next::Retry(_) | Next::AwaitOthers, Some(why)) = (&next, failure.why()) {
            call.pass_over(id, (None, None), Some(why), now);
        }
        if let Some(trace) = &mut call.trace {
            trace.end_attempt(id, AttemptEnd::Unanswered { why: failure.why().unwrap_or("not-sent") }, now);
        }
        let is_harmless = is_harmless(call, failure, &next);
        let cluster = self.targets.get_mut(call.cluster);
        let Some(attempt) = call.attempts.get_mut(id).certain() else { return };
        if let (Some(pick), Some(cluster)) = (attempt.pick.take(), cluster) {
            let endpoint = pick.endpoint;
            cluster.balancer.finish(now, pick, outcome(attempt, failure, is_harmless, now));
            call.tried.push(endpoint);
        }
        call.may_be_processed |= failure.may_be_processed();
        // The connection is lost, so there is no stream to cancel.
        if matches!(failure, Failure::Lost { .. } | Failure::Violation(_)) {
            attempt.stage = Stage::Lost;
        }
        let client = (call.client, call.client_stream);
        let is_late = matches!(failure, Failure::Fault(ProxyError::BackendTimeout { .. }));
        if is_late && matches!(next, Next::Retry(_) | Next::AwaitOthers) && id.number() == 1 {
            self.note_given_up(id.call);
        }
        match next {
            Next::Resend => {
                if !matches!(failure, Failure::NotSent | Failure::NotConnected(_)) {
                    self.metrics.resent_total.add(1);
                }
                self.leave_queue(id);
                self.calls.end_attempt(id);
                self.send_again_in(id.call, resend_in);
            }
            Next::Retry(pause) => {
                self.abandon(id);
                self.send_again_in(id.call, pause);
            }
            Next::AwaitOthers => self.abandon(id),
            Next::Fail(error) => self.fail(id.call, &error),
            Next::Reset(_) if self.calls.get(id.call).is_some_and(Call::is_mirror) => self.fail_mirror(id.call, true),
            Next::Reset(code) => {
                self.count_broken(id.call);
                self.reset_client_stream(client.0, client.1, code);
                self.end_call(id.call, Ending::Broken);
            }
            Next::End => {
                self.stop_client(client.0, client.1);
                self.end_call(id.call, Ending::Complete);
            }
            Next::Cut => {
                self.cut_client(client.0, client.1);
                self.end_call(id.call, Ending::Complete);
            }
        }
    }

    /// Ends an attempt that cannot go on, for a reason that its endpoint did not cause. If the call has no other
    /// attempt, answers the call with the error.
    pub(crate) fn give_up_attempt(&mut self, id: AttemptId, error: &ProxyError) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(id.call).filter(|call| call.attempts.len() > 1) else {
            return self.fail(id.call, error);
        };
        if let Some(trace) = &mut call.trace {
            trace.end_attempt(id, AttemptEnd::Unanswered { why: error.why() }, now);
        }
        self.abandon(id);
    }

    /// Cancels all attempts of a call except `answering`, whose response has begun.
    #[cold]
    pub(crate) fn abandon_others(&mut self, answering: AttemptId) {
        let Some(call) = self.calls.get(answering.call).certain() else { return };
        let others = call.attempts.ids(answering.call).map(|(id, _)| id).filter(|id| *id != answering);
        for id in others.collect::<Vec<_>>() {
            self.abandon(id);
        }
    }

    /// Ends an attempt. The call goes on with its other attempts, present or future.
    pub(crate) fn abandon(&mut self, id: AttemptId) {
        self.leave_queue(id);
        let now = self.now;
        let Some(mut attempt) = self.calls.end_attempt(id).certain() else { return };
        let Some(call) = self.calls.get_mut(id.call).certain() else { return };
        if let Some(trace) = &mut call.trace {
            trace.end_attempt(id, AttemptEnd::Cancelled, now);
        }
        if let (Some(pick), Some(cluster)) = (attempt.pick.take(), self.targets.get_mut(call.cluster)) {
            cluster.balancer.finish(now, pick, attempt.unanswered(now));
        }
        if let Some((upstream, stream)) = attempt.stream() {
            // The proxy cancels the stream, so this does not count as a cancellation by the client.
            self.cancel_upstream(upstream, stream, None);
        }
        self.count_fields(id.call);
        self.keep_no_more_than_allowed(id.call);
    }

    /// Drops the kept copy of a request if the copy is larger than a call may keep, and no attempt waits to send it.
    fn keep_no_more_than_allowed(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id).certain() else { return };
        let is_needed = !call.attempts.is_sent() || call.attempts.is_waiting();
        if !is_needed && !self.may_keep(call.body.len(), 0) {
            self.stop_replay(id);
        }
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
