//! Policy: the state that the policy of a route rule keeps for a call, except the call's deadline and retries. A part
//! of a policy in mode Audit does not act on calls: the relay only counts what the part would have done.

use leno_model::traffic::Setting;

use crate::Relay;
use crate::audit::{AuditedPart, AuditedParts};
use crate::call::due::Due;
use crate::call::reply::ProxyError;
use crate::call::{CallId, Response};
use crate::certain::Certain;

/// Number of checks per idle timeout. An idle call ends late by at most one interval between checks, that is, by the
/// timeout divided by this number.
pub(crate) const IDLE_CHECKS: u32 = 4;

/// State that the policy of a call's rule keeps for the call.
#[derive(Debug, Default)]
pub(crate) struct PolicyProgress {
    /// An endpoint forbids further attempts.
    pub(crate) is_pushed_back: bool,
    /// Sum of both sides' content bytes and the number of response header sections, at the latest check whether the
    /// call is idle.
    pub(crate) seen: u64,
    /// Number of checks since `seen` last changed.
    pub(crate) idle_checks: u32,
    /// Number of hedges: attempts that began while another attempt was in progress.
    pub(crate) hedges: u8,
    /// What the policy's parts in mode Audit would have done.
    pub(crate) audited: AuditedParts,
}

impl Relay {
    /// Counts a call that has exceeded a request timeout in mode Audit.
    pub(crate) fn audit_request_timeout(&mut self, id: CallId) {
        let route = self.calls.get(id).and_then(|call| call.route.as_ref());
        let Some(limit) = route.and_then(|route| route.policy().request_timeout.clone()) else { return };
        self.audit(id, AuditedPart::RequestTimeout, &limit.set_by);
    }

    /// Fails a call if neither side has sent content for the time that its policy allows.
    pub(crate) fn check_idle(&mut self, id: CallId) {
        let now = self.now;
        let Some(call) = self.calls.get(id).certain() else { return };
        // A header section also shows that the call is not idle.
        let sections = u64::from(call.interim_responses) + u64::from(call.response != Response::Awaited);
        let seen = call.request_bytes + call.response_bytes + sections;
        let Some(limit) = call.route.as_ref().and_then(|route| route.policy().stream_idle_timeout.clone()) else {
            return;
        };
        let Some(progress) = self.calls.progress_mut(id).certain() else { return };
        progress.idle_checks = if progress.seen == seen { progress.idle_checks.saturating_add(1) } else { 0 };
        progress.seen = seen;
        if progress.idle_checks >= IDLE_CHECKS {
            if self.acts(id, AuditedPart::StreamIdle, &limit) {
                self.fail(id, &ProxyError::StreamIdle { set_by: limit.set_by, timeout: limit.value.after });
            }
            return;
        }
        self.calls.wait_for(id, Due::Idle, limit.value.after / IDLE_CHECKS, now);
    }

    /// Counts what a part of a policy would have done with a call, once for each call.
    #[cold]
    pub(crate) fn audit(&mut self, id: CallId, part: AuditedPart, set_by: &str) {
        if self.calls.progress_mut(id).certain().is_some_and(|progress| progress.audited.add(part)) {
            self.metrics.count_audited(part.name());
            tracing::debug!(would = part.name(), "a call is only audited by {set_by}");
        }
    }

    /// Returns whether a part of a policy acts on a call. If the part is in mode Audit, it does not act, and the relay
    /// counts what the part would have done.
    pub(crate) fn acts<T>(&mut self, id: CallId, part: AuditedPart, setting: &Setting<T>) -> bool {
        if setting.is_audited() {
            self.audit(id, part, &setting.set_by);
        }
        !setting.is_audited()
    }
}
