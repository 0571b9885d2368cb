//! Policy: what the relay records about a call to apply the policy of the call's route rule, except the call's deadline
//! and retries. The relay does not apply a setting in mode Audit, but counts what it would have done.

use leno_model::traffic::Setting;

use crate::Relay;
use crate::audit::{AuditedPart, AuditedParts};
use crate::call::due::Due;
use crate::call::reply::ProxyError;
use crate::call::{CallId, Response};
use crate::certain::Certain;

/// Number of checks per idle timeout. An idle call ends at most a fourth of its timeout too late: one interval between
/// two checks.
pub(crate) const IDLE_CHECKS: u32 = 4;

/// What the relay records about a call to apply the policy of the call's route rule.
#[derive(Debug, Default)]
pub(crate) struct PolicyProgress {
    /// Whether an endpoint has forbidden further attempts.
    pub(crate) is_pushed_back: bool,
    /// The call's progress at the latest idle check: content bytes of the request, plus content bytes of the response,
    /// plus the number of response header sections.
    pub(crate) seen: u64,
    /// Number of successive idle checks at which `seen` had not changed.
    pub(crate) idle_checks: u32,
    /// Number of hedges: attempts that began while another attempt was in progress.
    pub(crate) hedges: u8,
    /// The policy settings in mode Audit that the relay would have applied to the call in mode Enforce.
    pub(crate) audited: AuditedParts,
}

impl Relay {
    /// Counts a call that has exceeded a request timeout in mode Audit.
    pub(crate) fn audit_request_timeout(&mut self, id: CallId) {
        let route = self.calls.get(id).and_then(|call| call.route.as_ref());
        let Some(limit) = route.and_then(|route| route.policy().request_timeout.clone()) else { return };
        self.audit(id, AuditedPart::RequestTimeout, &limit.set_by);
    }

    /// Fails a call that has been idle for longer than its policy allows. Otherwise, schedules the next idle check. A
    /// call is idle while neither the client nor the endpoint sends content.
    pub(crate) fn check_idle(&mut self, id: CallId) {
        let now = self.now;
        let Some(call) = self.calls.get(id).certain() else { return };
        // A response header section also ends the idle time.
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

    /// Counts a call to which the relay would have applied a policy setting, if the setting were not in mode Audit.
    /// Counts each setting at most once per call. Exception: a call that matched no rule has no place for what was
    /// counted. Only the retry budget of its cluster can apply to such a call.
    #[cold]
    pub(crate) fn audit(&mut self, id: CallId, part: AuditedPart, set_by: &str) {
        if self.calls.progress_mut(id).is_none_or(|progress| progress.audited.add(part)) {
            self.metrics.count_audited(part.name());
            tracing::debug!(would = part.name(), "a call is only audited by {set_by}");
        }
    }

    /// Returns whether the relay applies a policy setting to a call. If the setting is in mode Audit, only counts the
    /// call ([`Self::audit`]) and returns `false`.
    pub(crate) fn acts<T>(&mut self, id: CallId, part: AuditedPart, setting: &Setting<T>) -> bool {
        if setting.is_audited() {
            self.audit(id, part, &setting.set_by);
        }
        !setting.is_audited()
    }
}
