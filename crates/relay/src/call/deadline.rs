//! Deadline: limits the time of a call, the time of each attempt, and the pauses in the content of the request. Also
//! handles all other events that become due for a call ([`due`](super::due)), such as retries and hedges.

use std::time::{Duration, Instant};

use leno_http2::fields::Known;
use leno_model::balance::Outcome;

use crate::Relay;
use crate::audit::AuditedPart;
use crate::call::attempt::AttemptId;
use crate::call::due::Due;
use crate::call::policy::IDLE_CHECKS;
use crate::call::record::Ending;
use crate::call::reply::ProxyError;
use crate::call::retry::Failure;
use crate::call::{Call, CallId, Response};
use crate::certain::Certain;
use crate::downstream::client::Client;
use crate::limits::ms;
use crate::link::grpc;
use crate::target::routes::CallRoute;

/// If the server cancels a call (CANCEL) at most this long before the call's deadline, the relay treats the call as if
/// the call had reached its deadline. The server knows the deadline from `grpc-timeout`, and its timer may fire before
/// ours: we round the value of the field down, by up to 1 ms, and our timers up, by up to 1 ms.
const SERVER_AHEAD: Duration = Duration::from_millis(2);

/// If a client cancels a call with less time left than this, the call has reached its deadline: the client's clock for
/// the deadline starts earlier than ours. For a timeout of more than 1 s, the limit is a hundredth of the timeout, up to
/// [`CLIENT_AHEAD_MAX`].
const CLIENT_AHEAD: Duration = Duration::from_millis(10);
const CLIENT_AHEAD_MAX: Duration = Duration::from_secs(1);

impl Call {
    /// Returns how a call has ended, for all that records its end. Many gRPC clients cancel their calls at the deadline,
    /// a moment before our timer fires. Such a call ends as if our timer had fired first. Otherwise, most calls that
    /// exceed their deadline would count as cancelled, and not as failed.
    #[inline]
    pub(crate) fn recorded_ending(&mut self, ending: Ending, now: Instant) -> Ending {
        match self.deadline {
            Some(deadline) if matches!(ending, Ending::Cancelled) => self.cancelled_ending(deadline, now),
            _ => ending,
        }
    }

    #[cold]
    fn cancelled_ending(&mut self, deadline: Instant, now: Instant) -> Ending {
        let (whole, left) = (deadline.saturating_duration_since(self.started), deadline.saturating_duration_since(now));
        // The client does not know a timeout that the route rule sets. The proxy itself ends a mirrored copy at the
        // copy's deadline.
        let is_clients = !self.is_mirror() && !self.route.as_ref().is_some_and(|route| route.sets_deadline);
        if !is_clients || left >= (whole / 100).clamp(CLIENT_AHEAD, CLIENT_AHEAD_MAX) {
            return Ending::Cancelled;
        }
        let error = ProxyError::DeadlineExceeded;
        let (http_status, grpc_status) = error.statuses();
        if self.http_status == 0 {
            self.http_status = if self.is_grpc { 200 } else { http_status };
        }
        Ending::ProxyError { why: error.why(), grpc_status: self.is_grpc.then_some(grpc_status as u8) }
    }

    /// Handles the beginning of the response to a call that asks for a tunnel or an upgrade. If the server accepts, lifts
    /// the time limits that the route rule sets. They limit the time of the server's answer, which is now complete. Both
    /// ends may use a tunnel for any time.
    #[cold]
    pub(crate) fn tunnel_answered(&mut self, now: Instant) {
        let is_accepted = match self.http_status {
            101 => true,
            200..=299 => !self.is_upgrade,
            _ => false,
        };
        if !is_accepted {
            return;
        }
        self.accepted_at = Some(now);
        self.due.call_off(Due::Attempt);
        self.due.call_off(Due::Audit);
        if self.route.as_ref().is_some_and(|route| route.sets_deadline) {
            self.due.call_off(Due::Deadline);
            self.deadline = None;
        }
    }
}

impl Relay {
    /// Sets the time limits of a call: the timeout that its client asks for and, once the call has a route, the limits
    /// in the policy of its rule.
    pub(crate) fn limit_call(&mut self, id: CallId) {
        let now = self.now;
        let Some((call, timetable)) = self.calls.timed(id).certain() else { return };
        if let Some(timeout) = time_allowed(call) {
            call.deadline = Some(call.started + timeout);
            timetable.wait_for(id, &mut call.due, Due::Deadline, call.started, timeout);
        }
        let Some(policy) = call.route.as_ref().map(CallRoute::policy) else { return };
        if let Some(limit) = policy.request_timeout.as_ref().filter(|limit| limit.is_audited()) {
            timetable.wait_for(id, &mut call.due, Due::Audit, call.started, limit.value.after);
        }
        // Tunnels have no idle timeout: both ends may be silent for any time.
        if let Some(limit) = policy.stream_idle_timeout.as_ref().filter(|_| !call.is_tunnel) {
            timetable.wait_for(id, &mut call.due, Due::Idle, now, limit.value.after / IDLE_CHECKS);
        }
    }

    /// Limits the time of an attempt that was sent, if the call's route rule has a limit for attempts.
    pub(crate) fn limit_attempt(&mut self, id: CallId) {
        let now = self.now;
        let Some((call, timetable)) = self.calls.timed(id).certain() else { return };
        if let Some(limit) = call.route.as_ref().and_then(|route| route.policy().backend_request_timeout.as_ref()) {
            timetable.wait_at_most(id, &mut call.due, Due::Attempt, now, limit.value.after);
        }
    }

    /// Sets the deadline of a call to `left` from now, unless the call has an earlier deadline.
    pub(crate) fn end_within(&mut self, id: CallId, left: Duration) {
        let now = self.now;
        let Some((call, timetable)) = self.calls.timed(id).certain() else { return };
        if call.deadline.is_none_or(|earlier| now + left < earlier) {
            call.deadline = Some(now + left);
            timetable.wait_for(id, &mut call.due, Due::Deadline, now, left);
        }
    }

    /// Plans a check whether the content of an incomplete request still arrives.
    ///
    /// Plans no check for a gRPC call, a tunnel or an upgraded connection, because its client may be silent for any
    /// time. But a gRPC call is checked in two cases: if policy allows it only as a health check, and if its response
    /// is complete, because the server then needs no more messages.
    pub(crate) fn expect_content(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id) else { return };
        // Most calls are gRPC calls, so the cheapest checks come first.
        let may_be_silent = call.is_grpc && !call.is_health_check && call.response != Response::Ended;
        if call.request_ended || may_be_silent || call.due.waits_for(Due::Content) {
            return;
        }
        // The two ends of a tunnel may be silent for any time.
        if call.is_mirror() || call.is_tunnel {
            return;
        }
        let (now, within) = (self.now, ms(self.limits.relay.content_timeout_ms));
        let Some((call, timetable)) = self.calls.timed(id).certain() else { return };
        timetable.wait_for(id, &mut call.due, Due::Content, now, within);
    }

    /// Checks whether content of a request still arrives. If the content has paused for `content_timeout_ms`, ends the
    /// call if its response is complete, and otherwise fails it. Exception: if content still waits in the proxy, the
    /// endpoint is slow, and not the client, so the call goes on.
    fn content_is_late(&mut self, id: CallId) {
        let (now, within) = (self.now, ms(self.limits.relay.content_timeout_ms));
        let Some(call) = self.calls.get(id) else { return };
        if call.request_ended || call.response == Response::Begun {
            return;
        }
        if (call.released as u64) < call.request_bytes {
            return self.expect_content(id);
        }
        let left = within.saturating_sub(now.saturating_duration_since(call.content_at));
        if left > Duration::ZERO {
            return self.calls.wait_for(id, Due::Content, left, now);
        }
        if call.response == Response::Ended {
            self.stop_client(call.client, call.client_stream);
            return self.end_call(id, Ending::Complete);
        }
        self.metrics.count_abuse("late_content");
        self.fail(id, &ProxyError::ContentLate { waited_ms: self.limits.relay.content_timeout_ms });
    }

    /// Does everything that has become due for calls. For example, fails the calls whose deadline has passed, and
    /// begins the attempts that were planned for now.
    pub fn expire_deadlines(&mut self) {
        for (id, due) in self.calls.expire(self.now) {
            let Some(call) = self.calls.get(id) else { continue };
            match due {
                _ if call.is_mirror() => self.drop_mirror(id),
                Due::Deadline => self.deadline_passed(id),
                Due::Attempt => self.check_attempts(id),
                Due::Content => self.content_is_late(id),
                Due::Retry => self.calls.list(id),
                Due::Audit => self.audit_request_timeout(id),
                Due::Idle => self.check_idle(id),
                Due::Hedge => self.hedge(id),
            }
        }
    }

    /// Fails a call that has reached its deadline.
    pub(crate) fn deadline_passed(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id).certain() else { return };
        if call.is_mirror() {
            return self.drop_mirror(id);
        }
        let error = out_of_time(call);
        self.metrics.deadline_exceeded_total.add(1);
        self.fail(id, &error);
    }

    /// Ends the attempts that have taken longer than the call's route rule allows for one attempt. Plans the next check
    /// for the call's other attempts.
    fn check_attempts(&mut self, id: CallId) {
        let now = self.now;
        let Some(call) = self.calls.get(id) else { return };
        let Some(limit) = call.route.as_ref().and_then(|route| route.policy().backend_request_timeout.as_ref()) else {
            return;
        };
        let (mut late, mut next) = (Vec::new(), None::<Duration>);
        for (id, attempt) in call.attempts.ids(id).filter(|(_, attempt)| attempt.stream().is_some()) {
            match limit.value.after.saturating_sub(now - attempt.since) {
                Duration::ZERO => late.push(id),
                left => next = Some(next.map_or(left, |next| next.min(left))),
            }
        }
        if let Some(left) = next {
            self.calls.wait_for(id, Due::Attempt, left, now);
        }
        for attempt in late {
            self.attempt_is_late(attempt);
        }
    }

    /// Ends an attempt that has taken too long, unless the limit is in mode Audit. If the attempt waits for the client,
    /// the time shows nothing about the endpoint, and a retry would wait for the client too.
    fn attempt_is_late(&mut self, id: AttemptId) {
        let Some(error) = self.attempt_out_of_time(id) else { return };
        self.metrics.deadline_exceeded_total.add(1);
        if self.waits_for_client(id) {
            self.excuse_endpoint(id);
            self.give_up_attempt(id, &error);
        } else {
            self.attempt_failed(id, &Failure::Fault(error));
        }
    }

    /// Returns whether an attempt waits for the client: the client owes content of its request, or does not take the
    /// content of the response. A gRPC stream owes nothing, because its client may wait for the server's messages. Nor
    /// does a call that asks for a tunnel: its client waits until the server accepts.
    fn waits_for_client(&self, id: AttemptId) -> bool {
        let Some(call) = self.calls.get(id.call) else { return false };
        let Some(attempt) = call.attempts.get(id) else { return false };
        let may_wait = call.is_grpc || call.is_tunnel;
        let owes_content = !call.request_ended && !may_wait && attempt.sent_bytes as u64 >= call.request_bytes;
        let is_unread = |client: &Client| client.link.codec.queued_on(call.client_stream) > 0;
        owes_content || self.downstreams.get(call.client).is_some_and(is_unread)
    }

    /// Ends the balancer's record of an attempt that shows nothing about its endpoint.
    fn excuse_endpoint(&mut self, id: AttemptId) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(id.call) else { return };
        let pick = call.attempts.get_mut(id).and_then(|attempt| attempt.pick.take());
        if let (Some(pick), Some(cluster)) = (pick, self.targets.get_mut(call.cluster)) {
            cluster.balancer.finish(now, pick, Outcome::NotSent);
        }
    }

    /// Returns the error of an attempt that has reached its time limit; `None` if the limit is in mode Audit.
    fn attempt_out_of_time(&mut self, id: AttemptId) -> Option<ProxyError> {
        let call = self.calls.get(id.call)?;
        let limit = call.route.as_ref()?.policy().backend_request_timeout.clone()?;
        let (upstream, _) = call.attempts.get(id)?.stream()?;
        let endpoint = self.pools.upstream(upstream)?.address;
        let (set_by, timeout) = (limit.set_by.clone(), limit.value.after);
        self.acts(id.call, AuditedPart::BackendTimeout, &limit).then_some(ProxyError::BackendTimeout {
            endpoint,
            set_by,
            timeout,
        })
    }
}

/// Returns the time left until a call's deadline, to be sent to its server in `grpc-timeout`. Returns `None` if the
/// call has no deadline, if its request has no `grpc-timeout`, or if no time has passed since the call began.
pub(crate) fn time_left(call: &Call, now: Instant) -> Option<Duration> {
    let at = call.deadline?;
    let is_told = now > call.started && call.request.contains(Known::GrpcTimeout);
    is_told.then(|| at.saturating_duration_since(now))
}

/// Returns the time that a call may take; `None` if it has no limit. If the route rule allows less time than the client
/// asks for, or the client sets no timeout, uses the rule's timeout, and writes it into the `grpc-timeout` of a gRPC
/// request.
fn time_allowed(call: &mut Call) -> Option<Duration> {
    let asked = call.request.get(Known::GrpcTimeout).and_then(grpc::parse_timeout);
    let Some(route) = &mut call.route else { return asked };
    let Some(limit) = route.timeout().filter(|limit| limits_first(limit.after, asked)) else { return asked };
    let allowed = limit.after;
    if call.is_grpc && call.request.contains(Known::GrpcTimeout) {
        call.request.set(Known::GrpcTimeout, grpc::format_timeout(allowed).as_bytes());
    } else if call.is_grpc {
        call.request.push_prepared(&limit.field);
    }
    route.sets_deadline = true;
    Some(allowed)
}

/// Returns whether a rule's time limit is shorter than the timeout that the client asks for. Also returns `true` if the
/// client asks for no timeout.
pub(crate) fn limits_first(rule: Duration, asked: Option<Duration>) -> bool {
    asked.is_none_or(|asked| rule < asked)
}

/// Returns whether the call has reached its deadline, or will reach it so soon that the server may have cancelled the
/// call because of the deadline.
pub(crate) fn is_nearly_out_of_time(call: &Call, now: Instant) -> bool {
    call.deadline.is_some_and(|at| now + SERVER_AHEAD >= at)
}

/// Returns the error for a call that has reached its deadline.
fn out_of_time(call: &Call) -> ProxyError {
    let route = call.route.as_ref().filter(|route| route.sets_deadline);
    match route.and_then(|route| route.policy().request_timeout.as_ref()) {
        Some(limit) => ProxyError::RequestTimeout { set_by: limit.set_by.clone(), timeout: limit.value.after },
        None => ProxyError::DeadlineExceeded,
    }
}

#[cfg(test)]
#[path = "deadline_tests.rs"]
mod tests;
