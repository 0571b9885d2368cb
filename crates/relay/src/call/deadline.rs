//! Deadline: limits the time of a call, of each attempt at it, of pauses in its request content, and of the time in which
//! neither side sends anything. Also ends the pause before a retry.

use std::time::{Duration, Instant};

use leno_http2::fields::Known;

use crate::Relay;
use crate::audit::AuditedPart;
use crate::call::attempt::AttemptId;
use crate::call::reply::ProxyError;
use crate::call::retry::Failure;
use crate::call::{Call, CallId, Response};
use crate::limits::ms;
use crate::link::grpc;

/// The value of a timer: what it limits or begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Alarm {
    /// A whole call.
    Call(CallId),
    /// One attempt at one backend.
    Attempt(AttemptId),
    /// Each pause in the content of a call's request.
    Content(CallId),
    /// The pause before a call is sent again.
    Retry(CallId),
    /// A whole call, by a limit that is only audited.
    Audit(CallId),
    /// The time in which neither side of a call sends content.
    Idle(CallId),
    /// The time after which a call gets a further attempt.
    Hedge(CallId),
}

impl Alarm {
    pub(crate) fn call(self) -> CallId {
        match self {
            Self::Call(id)
            | Self::Content(id)
            | Self::Retry(id)
            | Self::Audit(id)
            | Self::Idle(id)
            | Self::Hedge(id) => id,
            Self::Attempt(id) => id.call,
        }
    }
}

impl Relay {
    /// Sets the deadline of a call, counted from its arrival: the timeout that the caller asks for, or the timeout of
    /// the route rule if that is shorter.
    pub(crate) fn set_deadline(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(id) else { return };
        if let Some(timeout) = time_allowed(call) {
            let at = call.started + timeout;
            self.calls.end_by(id, at);
        }
    }

    /// Sets a timer for an incomplete request, to check whether its content still arrives. A gRPC client, a tunnel and
    /// an upgraded connection may be silent for as long as they like, but not a gRPC call that policy allows only as a
    /// health check.
    pub(crate) fn expect_content(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id) else { return };
        // Most calls are gRPC calls, so the cheapest checks come first.
        if call.request_ended || call.content_timer.is_some() || (call.is_grpc && !call.is_health_check) {
            return;
        }
        // A tunnel may be silent for as long as its ends like.
        if call.is_mirror() || call.is_tunnel() {
            return;
        }
        self.calls.check_content_at(id, self.now + ms(self.limits.relay.content_timeout_ms));
    }

    /// Fails a call if its endpoint has waited too long for request content. If content waits in the proxy, the client
    /// is not to blame, and the call goes on.
    fn content_is_late(&mut self, id: CallId) {
        let Some(call) = self.calls.get(id) else { return };
        if call.request_ended || call.response != Response::Awaited {
            return;
        }
        let has_come =
            call.request_bytes > call.content_seen || call.released < call.attempts.sent_bytes().max(call.body.len());
        if has_come {
            return self.expect_content(id);
        }
        self.metrics.count_abuse("late_content");
        self.fail(id, &ProxyError::ContentLate { waited_ms: self.limits.relay.content_timeout_ms });
    }

    /// Fails the calls whose time is over.
    pub fn expire_deadlines(&mut self) {
        for alarm in self.calls.expire(self.now) {
            let Some(call) = self.calls.get(alarm.call()) else { continue };
            match alarm {
                _ if call.is_mirror() => self.drop_mirror(alarm.call()),
                Alarm::Call(id) => {
                    let error = out_of_time(call);
                    self.metrics.deadline_exceeded_total.add(1);
                    self.fail(id, &error);
                }
                Alarm::Attempt(id) => {
                    let Some(error) = self.attempt_out_of_time(id) else { continue };
                    self.metrics.deadline_exceeded_total.add(1);
                    self.attempt_failed(id, &Failure::Fault(error));
                }
                Alarm::Content(id) => self.content_is_late(id),
                Alarm::Retry(id) => self.calls.list(id),
                Alarm::Audit(id) => self.audit_request_timeout(id),
                Alarm::Idle(id) => self.check_idle(id),
                Alarm::Hedge(id) => self.hedge(id),
            }
        }
    }

    /// Returns the error of an attempt whose time is over; `None` if the limit is only audited.
    fn attempt_out_of_time(&mut self, id: AttemptId) -> Option<ProxyError> {
        let call = self.calls.get(id.call)?;
        let limit = call.route.as_ref()?.policy().backend_request_timeout.clone()?;
        let (upstream, _) = call.attempts.get(id)?.stream()?;
        let endpoint = self.pools.upstream(upstream)?.address;
        let (set_by, timeout) = (limit.set_by.clone(), limit.value.after);
        if !limit.is_audited() && call.attempts.begun() == 1 {
            self.note_latency(id.call);
        }
        self.acts(id.call, AuditedPart::BackendTimeout, &limit).then_some(ProxyError::BackendTimeout {
            endpoint,
            set_by,
            timeout,
        })
    }
}

/// Returns the time left until a call's deadline, to be sent to its server in `grpc-timeout`. Returns `None` if the call
/// has no deadline, if its request has no such field, or if no time has passed since the call began.
pub(crate) fn time_left(call: &Call, now: Instant) -> Option<Duration> {
    let (at, _) = call.deadline?;
    let is_told = now > call.started && call.request.contains(Known::GrpcTimeout);
    is_told.then(|| at.saturating_duration_since(now))
}

/// Returns how long a call may take. If the route rule allows less than the caller asks for, a gRPC server is told of
/// the rule's timeout instead of the caller's.
fn time_allowed(call: &mut Call) -> Option<Duration> {
    let asked = call.request.get(Known::GrpcTimeout).and_then(grpc::parse_timeout);
    let Some(route) = &mut call.route else { return asked };
    let Some(limit) = route.timeout().filter(|limit| asked.is_none_or(|asked| limit.after < asked)) else {
        return asked;
    };
    let allowed = limit.after;
    if call.is_grpc && call.request.contains(Known::GrpcTimeout) {
        call.request.set(Known::GrpcTimeout, grpc::format_timeout(allowed).as_bytes());
    } else if call.is_grpc {
        call.request.push_prepared(&limit.field);
    }
    route.sets_deadline = true;
    Some(allowed)
}

/// Returns the error for a call whose time is over.
fn out_of_time(call: &Call) -> ProxyError {
    let route = call.route.as_ref().filter(|route| route.sets_deadline);
    match route.and_then(|route| route.policy().request_timeout.as_ref()) {
        Some(limit) => ProxyError::RequestTimeout { set_by: limit.set_by.clone(), timeout: limit.value.after },
        None => ProxyError::DeadlineExceeded,
    }
}
