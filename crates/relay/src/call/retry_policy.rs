//! Retry policy: sends a call again although an endpoint may have processed it, if the route rule that the call matched
//! allows this (GEP-1731, gRFC A6). A call that no endpoint has processed is sent again without a policy: see
//! [`retry`](super::retry). But the cluster's retry budget limits how often such a call is sent again after refusals.

use std::fmt::Display;
use std::time::{Duration, Instant};

use leno_http2::fields::Known;
use leno_http2::{ErrorCode, FieldSection};
use leno_model::traffic::Retry;

use crate::Relay;
use crate::audit::AuditedPart;
use crate::call::attempt::{Attempt, AttemptId};
use crate::call::due::Due;
use crate::call::record::{self, is_dropped_answer, outcome_of_answer};
use crate::call::reply::ProxyError;
use crate::call::response::status_code;
use crate::call::retry::Failure;
use crate::call::trace::AttemptEnd;
use crate::call::{Call, CallId};
use crate::certain::Certain;
use crate::downstream::client::Client;
use crate::downstream::origin::Door;
use crate::link::grpc::{self, Pushback};
use crate::metrics::reason;
use crate::pool::hop::Hop;
use crate::target::balance::choose_lane;
use crate::target::budget::Taken;
use crate::target::cluster::Standing;

/// Longest pause that an endpoint may ask for before a retry. If an endpoint asks for a longer pause, the relay does
/// not retry the call: it forwards the endpoint's answer, and the client decides.
const MAX_ASKED_PAUSE: Duration = Duration::from_secs(10);
/// Longest wait of a call for the proxy's next attempt to connect, if the proxy can connect to no endpoint. If the
/// proxy tries later than this, the call gets no retry.
const MAX_CONNECT_WAIT: Duration = Duration::from_secs(1);
/// Name of a response field that means: do not send this call again. A proxy adds the field in two cases:
///
/// - The proxy would have sent the call again, but the call or its cluster had no retry left.
/// - The application beside the proxy has failed because of a response with this field
///   ([`spent_chains`](crate::spent_chains)).
///
/// The proxies between this proxy and the client pass the field on, and do not send the call again either. So the
/// retries of several proxies in a row do not multiply.
const NOT_RETRIED: &[u8] = b"leno-not-retried";

/// The pause before a retry.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// The back-off of the call's rule.
    BackOff,
    /// The back-off of the call's rule, but at least this time: no connection can be opened before.
    AtLeast(Duration),
    /// The pause that the endpoint asks for.
    Asked(Pushback),
    /// No pause: the call is sent again at once.
    None,
}

/// Reason why a call gets no retry after a failed attempt, although its rule has retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unretried {
    /// The call has used all its retries.
    Attempts,
    /// The cluster's retry budget is used up.
    Budget,
    /// The call's deadline, or the end of the proxy's drain, would come before the retry.
    Deadline,
    /// The endpoint, or the proxy at the endpoint, forbids a retry, or asks for a longer pause than
    /// [`MAX_ASKED_PAUSE`].
    Pushback,
    /// The client retries its calls itself.
    Client,
    /// The request is not stored, or cannot be repeated.
    Request,
    /// The proxy can connect to no endpoint, and does not try again within [`MAX_CONNECT_WAIT`].
    Connection,
}

impl Unretried {
    /// Returns the reason's name in metrics.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Attempts => reason::ATTEMPTS,
            Self::Budget => reason::BUDGET,
            Self::Deadline => "deadline",
            Self::Pushback => "pushback",
            Self::Client => "client",
            Self::Request => "request",
            Self::Connection => "connection",
        }
    }
}

/// Decides whether a call is sent again. Does not check the retry budget. Returns the pause before the retry. `until`
/// is the time at which the proxy's drain ends, if the proxy drains.
fn pause(
    call: &Call,
    retry: &Retry,
    wait: Wait,
    (now, until): (Instant, Option<Instant>),
    random: u32,
) -> Result<Duration, Unretried> {
    if !call.can_be_resent() || call.is_mirror() || call.is_tunnel {
        return Err(Unretried::Request);
    }
    if call.further_attempts() == 0 && call.request.contains(Known::GrpcPreviousRpcAttempts) {
        return Err(Unretried::Client);
    }
    let pause = match wait {
        _ if call.is_pushed_back() => return Err(Unretried::Pushback),
        Wait::Asked(Pushback::Stop) => return Err(Unretried::Pushback),
        Wait::Asked(Pushback::Wait(pause)) if pause > MAX_ASKED_PAUSE => return Err(Unretried::Pushback),
        _ if call.retries >= retry.attempts => return Err(Unretried::Attempts),
        // In gRPC, the server's pause applies (gRFC A6). In HTTP, the pause is at least the rule's back-off (GEP-1731).
        Wait::Asked(Pushback::Wait(pause)) if call.is_grpc => pause,
        Wait::Asked(Pushback::Wait(pause)) => pause.max(retry.backoff),
        Wait::BackOff => retry.pause(call.retries + 1, random),
        Wait::AtLeast(least) => retry.pause(call.retries + 1, random).max(least),
        Wait::None => Duration::ZERO,
    };
    check_time(call, pause, (now, until))?;
    Ok(pause)
}

/// Checks whether an attempt after this pause would begin before the call's deadline and before the end of the proxy's
/// drain (`until`).
fn check_time(call: &Call, pause: Duration, (now, until): (Instant, Option<Instant>)) -> Result<(), Unretried> {
    match call.deadline.into_iter().chain(until).min() {
        Some(at) if now + pause >= at => Err(Unretried::Deadline),
        _ => Ok(()),
    }
}

/// Returns whether a response may be a failure. If it may, the caller compares it with the rule's codes. A gRPC status
/// can cause a retry only in a trailers-only response. In other responses, the status arrives too late: the relay has
/// already forwarded the response headers.
#[inline]
pub(crate) fn may_have_failed(fields: &FieldSection, end_stream: bool) -> bool {
    end_stream || !fields.get(Known::Status).is_some_and(|status| status.starts_with(b"2"))
}

/// Returns whether a response has one of the codes for which a rule retries. A response to a gRPC call may come from a
/// gateway, and then has no gRPC status. In this case, compares the rule's codes with the HTTP status, and with the
/// gRPC status to which clients map the HTTP status (grpc/doc/http-grpc-status-mapping.md).
fn is_failure(retry: &Retry, fields: &FieldSection, is_grpc: bool) -> bool {
    let http = status_code(fields);
    if !is_grpc {
        return retry.applies_to(http, None);
    }
    if let Some(code) = grpc::status(fields) {
        return retry.applies_to(http, Some(code));
    }
    let taken_for = match http {
        200 => return false,
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    };
    retry.applies_to(http, None) || retry.applies_to(http, Some(taken_for))
}

/// Returns the pause that a response asks for: in gRPC by `grpc-retry-pushback-ms`, in HTTP by `Retry-After` in seconds
/// (RFC 9110 section 10.2.3). Any other `Retry-After`, such as a date, forbids a retry.
fn asked_pause(fields: &FieldSection, is_grpc: bool) -> Option<Pushback> {
    if fields.iter().any(|line| line.name == NOT_RETRIED) {
        return Some(Pushback::Stop);
    }
    if is_grpc {
        return grpc::pushback(fields);
    }
    let value = fields.iter().find(|line| line.name == b"retry-after")?.value;
    let seconds = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    Some(seconds.map_or(Pushback::Stop, |seconds| Pushback::Wait(Duration::from_secs(seconds))))
}

impl Call {
    /// If the call's retries or the cluster's retry budget are used up, adds the field [`NOT_RETRIED`] to a response.
    /// If the budget is used up, also adds a field `leno-proxy-error`. The response may already have such a field, with
    /// the error of the last attempt. The new field then comes second.
    pub(crate) fn mark_unretried(&self, response: &mut FieldSection) {
        let Some(why @ (Unretried::Attempts | Unretried::Budget)) = self.unretried else { return };
        response.push(NOT_RETRIED, why.reason().as_bytes());
        if self.is_grpc {
            response.set(Known::GrpcRetryPushbackMs, b"-1");
        }
        if why == Unretried::Budget {
            response.push(b"leno-proxy-error", b"retry-budget-spent");
        }
    }

    /// Returns the reason why the call was not retried, for the text of an error. `cluster` is the cluster whose retry
    /// budget applies.
    pub(crate) fn unretried_text(&self, cluster: impl Display) -> Option<String> {
        match self.unretried? {
            Unretried::Attempts => Some("the call has used its retries".to_owned()),
            Unretried::Budget => Some(format!("the retry budget of {cluster} is spent")),
            Unretried::Deadline => Some("a retry would begin after the call's time limit".to_owned()),
            Unretried::Pushback => Some("an endpoint forbids a retry".to_owned()),
            Unretried::Client => Some("the client retries the call itself".to_owned()),
            Unretried::Request => Some("the proxy cannot repeat the request".to_owned()),
            Unretried::Connection => None,
        }
    }
}

impl Relay {
    /// Drops a response that is a failure, if the call has another attempt or gets a retry. Returns whether the
    /// response was dropped. If a failure is not dropped, may add fields to the response that say why the call was not
    /// retried.
    #[cold]
    pub(crate) fn retry_answered(&mut self, id: AttemptId, fields: &mut FieldSection) -> bool {
        let Some(call) = self.calls.get(id.call).certain() else { return false };
        let has_others = call.attempts.len() > 1;
        let retry = call.route.as_ref().and_then(|route| route.retry());
        // A retry policy in mode Audit must not drop an answer while other attempts may still answer.
        let retry = retry.filter(|retry| !has_others || !retry.is_audited());
        let is_failed = retry.is_some_and(|retry| is_failure(&retry.value, fields, call.is_grpc))
            || (has_others && is_dropped_answer(fields, call.is_grpc));
        if !is_failed && !self.has_lost_connection(id, fields) {
            return false;
        }
        let asked = asked_pause(fields, call.is_grpc);
        if has_others {
            if asked == Some(Pushback::Stop) {
                self.forbid_further_attempts(id.call);
            }
            self.drop_answer(id, fields);
            return true;
        }
        let Some(pause) = self.retry_in(id.call, asked.map_or(Wait::BackOff, Wait::Asked)) else {
            let Some(call) = self.calls.get(id.call).certain() else { return false };
            call.mark_unretried(fields);
            // Record the trace only if an endpoint has answered. Otherwise the fault may be in our own Pod, and a retry
            // by our caller may succeed at another replica of our application.
            if matches!(call.unretried, Some(Unretried::Attempts | Unretried::Budget | Unretried::Pushback)) {
                self.note_spent_chain(id.call);
            }
            return false;
        };
        self.drop_answer(id, fields);
        self.send_again_in(id.call, pause);
        true
    }

    /// Passes the field [`NOT_RETRIED`] on through our own application, although the application does not copy the
    /// field. The trace connects the inbound call with the outbound calls that the application makes to answer it:
    ///
    /// - Outbound call: if a failed response has the field, records the trace of the call.
    /// - Inbound call: if the response is a failure, and the trace was recorded after this call began, adds the field
    ///   to the response.
    #[cold]
    pub(crate) fn pass_on_spent_chain(&self, id: CallId, response: &mut FieldSection) {
        let Some(call) = self.calls.get(id).certain() else { return };
        let grpc_status = grpc::status(response).filter(|_| call.is_grpc);
        if !record::is_failure(status_code(response), grpc_status) {
            return;
        }
        let Some(client) = self.downstreams.get(call.client) else { return };
        let is_marked = response.iter().any(|line| line.name == NOT_RETRIED);
        match (client.origin.door, is_marked) {
            (Door::Outbound, true) => self.note_spent_chain(id),
            (Door::Inbound | Door::Tunnel, false) => {
                let is_spent = |chain| self.spent_chains.has(chain, call.started, self.now);
                if call.chain().is_some_and(is_spent) {
                    response.push(NOT_RETRIED, b"outbound");
                    // Keep a pause that the application itself asks for.
                    if call.is_grpc && !response.contains(Known::GrpcRetryPushbackMs) {
                        response.set(Known::GrpcRetryPushbackMs, b"-1");
                    }
                }
            }
            (Door::Outbound, false) | (Door::Inbound | Door::Tunnel, true) => {}
        }
    }

    /// Records the trace of a call that is not retried any more, if our own application made the call.
    #[cold]
    fn note_spent_chain(&self, id: CallId) {
        let Some(call) = self.calls.get(id).certain() else { return };
        let is_outbound = self.downstreams.get(call.client).is_some_and(|client| client.origin.door == Door::Outbound);
        if let Some(chain) = call.chain().filter(|_| is_outbound) {
            self.spent_chains.note(chain, self.now);
        }
    }

    /// Ends an attempt whose answer the relay does not forward to the client.
    fn drop_answer(&mut self, id: AttemptId, fields: &FieldSection) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(id.call).certain() else { return };
        let grpc_status = grpc::status(fields).filter(|_| call.is_grpc);
        call.pass_over(id, (Some(status_code(fields)), grpc_status), None, now);
        if let Some(trace) = &mut call.trace {
            trace.end_attempt(id, AttemptEnd::Answered { http_status: status_code(fields), grpc_status }, now);
        }
        let statuses = (status_code(fields), grpc_status);
        let pushback = grpc::pushback(fields).and_then(Pushback::wait);
        let Some(attempt) = call.attempts.get(id).certain() else { return };
        let outcome = outcome_of_answer(call, attempt, statuses, pushback, now);
        let cluster = self.targets.get_mut(call.cluster);
        let pick = call.attempts.get_mut(id).and_then(|attempt| attempt.pick.take());
        if let (Some(pick), Some(cluster)) = (pick, cluster) {
            call.tried.push(pick.endpoint);
            cluster.balancer.finish(now, pick, outcome);
        }
        self.abandon(id);
    }

    /// Returns whether a response is an error of the proxy at the endpoint, because that proxy has lost its connection
    /// to the application.
    fn has_lost_connection(&self, id: AttemptId, fields: &FieldSection) -> bool {
        let is_lost = fields.iter().any(|line| line.name == b"leno-proxy-error" && line.value == b"connection-closed");
        let upstream = self.calls.attempt(id).and_then(Attempt::stream);
        let hop = upstream.and_then(|(upstream, _)| self.pools.upstream(upstream)).map(|upstream| upstream.key.hop);
        is_lost && hop.is_some_and(Hop::is_mutual_tls)
    }

    /// Returns the error for a call whose stream the server has reset, if the call's retries or the cluster's retry
    /// budget are used up. A reset cannot carry the field [`NOT_RETRIED`], so the client gets an error response
    /// instead.
    pub(crate) fn reset_unretried(&self, id: AttemptId, code: ErrorCode) -> Option<ProxyError> {
        let call = self.calls.get(id.call)?;
        let is_unretried = matches!(call.unretried, Some(Unretried::Attempts | Unretried::Budget));
        let (upstream, _) = self.calls.attempt(id)?.stream().filter(|_| is_unretried)?;
        Some(ProxyError::Reset { endpoint: self.pools.upstream(upstream)?.address, code })
    }

    /// Handles a call for which the proxy can connect to no endpoint. If the call gets a retry, it waits until one of
    /// the cluster's pools may connect again. Returns whether the call waits.
    #[cold]
    pub(crate) fn retry_later(&mut self, id: CallId) -> bool {
        let at = self.calls.get_mut(id).and_then(|call| {
            let lane = choose_lane(call, &mut self.downstreams, &self.limits.relay);
            self.targets.get(call.cluster?)?.connects_again_at(self.now, (call, lane), &self.pools)
        });
        let wait = at.map_or(Duration::ZERO, |at| at.saturating_duration_since(self.now));
        if wait > MAX_CONNECT_WAIT {
            self.count_connection_missing(id);
            return false;
        }
        let Some(pause) = self.retry_in(id, Wait::AtLeast(wait)) else { return false };
        self.send_again_in(id, pause);
        true
    }

    /// Takes a retry for a call after an attempt at the call has failed. Returns the pause before the retry, or `None`
    /// if the call is not sent again.
    pub(crate) fn retry_in(&mut self, id: CallId, wait: Wait) -> Option<Duration> {
        let (now, until, random) = (self.now, self.draining, self.random.u32(..));
        let is_crowded = !self.calls.has_room_for_replay(0, self.limits.relay.max_replay_bytes as usize / 2);
        let workers = self.workers;
        let call = self.calls.get_mut(id)?;
        let route = call.route.as_ref()?;
        let retry = route.retry()?;
        // The copies of requests that all calls keep share one limit (`max_replay_bytes`). If the copies use more than
        // half of the limit, a call with content gets no retry. The other half is reserved for calls that no endpoint
        // has processed.
        let has_room = !is_crowded || call.body.is_empty();
        let decided = pause(call, &retry.value, wait, (now, until), random);
        let decided = decided.and_then(|pause| if has_room { Ok(pause) } else { Err(Unretried::Request) });
        if retry.is_audited() {
            let set_by = retry.set_by.clone();
            if decided.is_ok() {
                self.audit(id, AuditedPart::Retry, &set_by);
            }
            return None;
        }
        let mut overspent = None;
        let decided = decided.and_then(|pause| {
            let cluster = self.targets.get_mut(call.cluster).ok_or(Unretried::Request)?;
            if cluster.standing() == Standing::Removed {
                return Err(Unretried::Request);
            }
            match cluster.take_retry(now, workers, &self.metrics) {
                Taken::Yes => {}
                Taken::OnlyAudited(set_by) => overspent = Some(set_by),
                Taken::No => return Err(Unretried::Budget),
            }
            Ok(pause)
        });
        route.count_retry(decided.err());
        match decided {
            Ok(_) => call.retries += 1,
            Err(why) => call.unretried = Some(why),
        }
        if let Some(set_by) = overspent {
            self.audit(id, AuditedPart::RetryBudget, &set_by);
        }
        decided.ok()
    }

    /// Counts a call that gets no retry, although its rule has retries, because the wait for a connection would be too
    /// long.
    fn count_connection_missing(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(id).filter(|call| call.has_retries()) else { return };
        call.unretried = Some(Unretried::Connection);
        if let Some(route) = &call.route {
            route.count_retry(call.unretried);
        }
    }

    /// Decides whether the relay sends a call again without a retry of the call's rule. The caller has checked that
    /// another attempt is possible. Returns the pause before this attempt, or `None` if the call is not sent again.
    pub(crate) fn resend_in(&mut self, id: CallId, failure: &Failure) -> Option<Duration> {
        match failure {
            Failure::Lost { .. } => {
                // The server may only have closed an idle connection. The default budget does not limit this case.
                let cluster = self.calls.get(id).and_then(|call| self.targets.get(call.cluster));
                let has_budget = cluster.is_some_and(|state| state.cluster.retry_budget.is_some());
                (!has_budget || self.take_resend(id)).then_some(Duration::ZERO)
            }
            Failure::Refused { .. } => self.resend_refused_in(id),
            _ => Some(Duration::ZERO),
        }
    }

    /// Decides whether the relay sends a refused call again. After the first refusal, the relay sends the call at once:
    /// gRFC A6 allows one such retry. Each further attempt takes a retry from the cluster's budget and needs a pause,
    /// because an overloaded server refuses calls faster than it could serve them.
    fn resend_refused_in(&mut self, id: CallId) -> Option<Duration> {
        let (now, until, random) = (self.now, self.draining, self.random.u32(..));
        let call = self.calls.get_mut(id).certain()?;
        let refusals = call.attempts.refusals();
        call.attempts.note_refusal();
        if refusals == 0 {
            return Some(Duration::ZERO);
        }
        // The caller's proxy can send the call to other endpoints. If both proxies sent it again and again, their
        // attempts would multiply.
        if self.downstreams.get(call.client).is_some_and(Client::is_callers_proxy) {
            return None;
        }
        let pause = Retry::default().pause(refusals, random);
        if let Err(why) = check_time(call, pause, (now, until)) {
            call.unretried = Some(why);
            return None;
        }
        self.take_resend(id).then_some(pause)
    }

    /// Takes a retry from the budget of a call's cluster, for a call that is sent again without a retry of its rule.
    /// Returns `false` only if the budget is used up and not in mode Audit.
    fn take_resend(&mut self, id: CallId) -> bool {
        let (now, workers) = (self.now, self.workers);
        let Some(call) = self.calls.get_mut(id).certain() else { return false };
        let Some(cluster) = self.targets.get_mut(call.cluster) else { return true };
        match cluster.take_retry(now, workers, &self.metrics) {
            Taken::Yes => true,
            Taken::OnlyAudited(set_by) => {
                self.audit(id, AuditedPart::RetryBudget, &set_by);
                true
            }
            Taken::No => {
                call.unretried = Some(Unretried::Budget);
                false
            }
        }
    }

    /// Sends a call again after a pause.
    pub(crate) fn send_again_in(&mut self, id: CallId, pause: Duration) {
        match pause.is_zero() {
            true => self.calls.list(id),
            false => self.calls.wait_for(id, Due::Retry, pause, self.now),
        }
    }
}

#[cfg(test)]
#[path = "retry_policy_tests.rs"]
mod tests;
