//! Hedge: sends a call to another endpoint before the first endpoint has answered, if the policy of the call's rule
//! allows this (gRFC A6). The relay forwards the first response that is not a failure, and cancels the other attempts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::FieldSection;
use leno_http2::fields::Known;
use leno_model::balance::Method;
use leno_model::traffic::{Hedge, HedgeDelay, MethodLatencies, Setting, SlowShare};

use crate::Relay;
use crate::audit::AuditedPart;
use crate::call::attempt::AttemptId;
use crate::call::due::Due;
use crate::call::record::{Ending, is_dropped_by_hedging};
use crate::call::{Call, CallId, Response};
use crate::certain::Certain;
use crate::link::grpc;
use crate::metrics::reason;
use crate::target::balance::{Begun, Choice, choose_lane};
use crate::target::budget::Taken;
use crate::target::cluster::{ClusterState, Others, Standing};

/// Maximum number of hedge delays for which a cluster counts slow calls. The delays of former policies count, too.
/// Above this number, the cluster forgets the counts of all delays.
const DELAYS_MAX: usize = 64;

/// A cluster's statistics of the calls that may be hedged.
#[derive(Debug, Default)]
pub(crate) struct Hedging {
    latencies: MethodLatencies,
    /// The share of slow calls for each hedge delay. There are few delays, so a linear search is faster than a hash
    /// table.
    slow: Vec<(HedgeDelay, SlowShare)>,
}

/// Why a call that was not answered in time gets no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unhedged {
    /// The call has used all its further attempts.
    Attempts,
    /// The Service is loaded: too many of its calls are slow, or all endpoints to which the hedge may go are busy.
    Loaded,
    /// The cluster's retry budget is used up.
    Budget,
    /// The call's deadline has passed, or the proxy's drain has ended.
    Deadline,
    /// An endpoint, or the proxy at an endpoint, forbids further attempts.
    Pushback,
    /// The client retries its calls itself.
    Client,
    /// The request is not complete or not stored, or an attempt has failed and the call waits for its retry.
    Request,
    /// The cluster has no other endpoint that is not failing.
    Endpoint,
    /// The hedge policy is in mode Audit: the proxy only counts the attempt that it would have begun.
    Audit,
    /// The hedge delay is a percentile of the method's latencies, and the method has had too few calls to compute the
    /// percentile.
    UnknownDelay,
}

impl Unhedged {
    /// Returns the reason's name in metrics.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Attempts => reason::ATTEMPTS,
            Self::Loaded => reason::LOADED,
            Self::Budget => reason::BUDGET,
            Self::Deadline => "deadline",
            Self::Pushback => "pushback",
            Self::Client => "client",
            Self::Request => "request",
            Self::Endpoint => "endpoint",
            Self::Audit => "audit",
            Self::UnknownDelay => "unknown-delay",
        }
    }
}

impl Hedging {
    /// Returns the time after which a call of this method gets a further attempt; `None` while the delay is not known.
    fn delay(&mut self, hedge: &Hedge, method: Method, now: Instant) -> Option<Duration> {
        match hedge.delay {
            HedgeDelay::Fixed(delay) => Some(delay),
            HedgeDelay::Percentile(permille) => self.latencies.percentile(method, permille, now),
        }
    }

    pub(crate) fn latencies(&self) -> &MethodLatencies {
        &self.latencies
    }

    /// Returns the share of slow calls among the calls with this hedge delay.
    fn slow(&mut self, delay: HedgeDelay, now: Instant) -> Option<&mut SlowShare> {
        let place = self.slow.iter().position(|(of, _)| *of == delay).unwrap_or_else(|| self.add_delay(delay, now));
        self.slow.get_mut(place).map(|(_, share)| share)
    }

    /// Adds a hedge delay that is not in `slow`. Returns its index there.
    #[cold]
    fn add_delay(&mut self, delay: HedgeDelay, now: Instant) -> usize {
        if self.slow.len() >= DELAYS_MAX {
            self.slow.clear();
        }
        self.slow.push((delay, SlowShare::new(delay, now)));
        self.slow.len() - 1
    }
}

impl ClusterState {
    /// Returns the cluster's statistics of the calls that may be hedged, and creates them if needed.
    fn hedging(&mut self) -> &mut Hedging {
        self.hedging.get_or_insert_default()
    }

    /// Adds the latency of the first attempt at a call to the latencies of the call's method. If the attempt has no
    /// answer, `latency` is the time that the attempt has taken so far.
    pub(crate) fn note_latency(&mut self, method: Method, latency: Duration, now: Instant) {
        self.hedging().latencies.add(method, latency, now);
    }
}

impl Call {
    /// Records that the attempt `id` answers a call that may be hedged. Must be called before the other attempts are
    /// cancelled. If the attempt is a hedge, counts a success of hedging. If the answer is not a failure, adds the
    /// latency of the call's first attempt to the latencies of the method. `took` is the time since the attempt `id`
    /// began.
    #[inline(never)]
    pub(crate) fn note_hedged_answer(
        &self,
        (id, method, took): (AttemptId, Method, Duration),
        fields: &FieldSection,
        cluster: &mut ClusterState,
        now: Instant,
    ) {
        let is_hedge = self.attempts.get(id).is_some_and(|attempt| attempt.is_hedge);
        if let Some(route) = self.route.as_ref().filter(|_| is_hedge) {
            route.count_hedge_success();
        }
        // Do not add the latency of a failure: it does not show how long the method takes.
        let grpc_status = if self.is_grpc { grpc::status(fields) } else { None };
        if is_dropped_by_hedging(self.http_status, grpc_status) {
            return;
        }
        let first_took = match id.number() {
            1 => Some(took),
            _ => self.attempts.first_since().map(|since| now - since),
        };
        if let Some(took) = first_took {
            cluster.note_latency(method, took, now);
        }
    }
}

/// Returns the method name by which policies select calls to hedge, and under which latencies are stored. The name of a
/// gRPC call is its `:path`. The name of any other call is its `:method`, because there may be too many different
/// paths.
pub(crate) fn hedged_name(request: &FieldSection, is_grpc: bool) -> &[u8] {
    request.get(if is_grpc { Known::Path } else { Known::Method }).unwrap_or_default()
}

/// Checks whether the state of the call itself allows a further attempt. `until` is the time at which the proxy's drain
/// ends, if the proxy drains.
fn check(call: &Call, hedge: &Hedge, now: Instant, until: Option<Instant>) -> Result<(), Unhedged> {
    if !call.request_ended || !call.can_be_resent() || call.attempts.len() == 0 {
        return Err(Unhedged::Request);
    }
    if call.further_attempts() == 0 && call.request.contains(Known::GrpcPreviousRpcAttempts) {
        return Err(Unhedged::Client);
    }
    if call.is_pushed_back() {
        return Err(Unhedged::Pushback);
    }
    if call.hedges() >= hedge.attempts {
        return Err(Unhedged::Attempts);
    }
    match call.deadline.into_iter().chain(until).min() {
        Some(at) if now >= at => Err(Unhedged::Deadline),
        _ => Ok(()),
    }
}

impl Relay {
    /// Plans a further attempt at a call whose only attempt has just begun, if the hedge policy of the call's rule
    /// names the call's method.
    #[inline(never)]
    pub(crate) fn plan_hedge(&mut self, id: CallId) {
        let now = self.now;
        let Some((call, timetable)) = self.calls.timed(id).certain() else { return };
        if call.is_mirror() || call.is_tunnel {
            return;
        }
        let Some(route) = call.route.as_mut() else { return };
        let Some(hedge) = route.hedge() else { return };
        let name = hedged_name(&call.request, call.is_grpc);
        if !hedge.value.applies_to(call.is_grpc, name) {
            return;
        }
        let method = Method::of_path(name);
        let Some(cluster) = self.targets.get_mut(call.cluster) else { return };
        let is_first = call.attempts.begun() == 1;
        let hedging = cluster.hedging();
        let delay = hedging.delay(&hedge.value, method, now);
        if is_first
            && delay.is_some()
            && let Some(share) = hedging.slow(hedge.value.delay, now)
        {
            share.note_call(now);
        }
        route.hedged_method = Some(method);
        match delay {
            Some(delay) => timetable.wait_for(id, &mut call.due, Due::Hedge, now, delay),
            None => {
                call.due.call_off(Due::Hedge);
                if is_first {
                    route.count_hedge(Some(Unhedged::UnknownDelay));
                }
            }
        }
    }

    /// Sends a call to another endpoint, because it was not answered in time.
    #[cold]
    pub(crate) fn hedge(&mut self, id: CallId) {
        let Some(route) = self.calls.get(id).and_then(|call| call.route.as_ref()) else { return };
        let Some(hedge) = route.hedge().cloned() else { return };
        let begun = self.begin_hedge(id, &hedge);
        let Some(call) = self.calls.get(id).certain() else { return };
        let Some(route) = &call.route else { return };
        route.count_hedge(begun.as_ref().err().copied());
        let Ok(begun) = begun else { return };
        let (method, has_more) = (call.hedged_method(), call.hedges() < hedge.value.attempts);
        let cluster = self.targets.get_mut(call.cluster).filter(|_| has_more);
        if let (Some(cluster), Some(method)) = (cluster, method)
            && let Some(delay) = cluster.hedging().delay(&hedge.value, method, self.now)
        {
            self.calls.wait_for(id, Due::Hedge, delay, self.now);
        }
        self.place(begun);
    }

    /// Begins a further attempt at a call.
    fn begin_hedge(&mut self, id: CallId, hedge: &Setting<Hedge>) -> Result<Begun, Unhedged> {
        let (now, until, workers) = (self.now, self.draining, self.workers);
        let call = self.calls.get_mut(id).ok_or(Unhedged::Request)?;
        let checked = check(call, &hedge.value, now, until);
        let cluster = self.targets.get_mut(call.cluster).ok_or(Unhedged::Request)?;
        let share = cluster.hedging().slow(hedge.value.delay, now).certain().ok_or(Unhedged::Request)?;
        // Count the call as slow, even if it cannot be hedged. Count it only at its first attempt, where `plan_hedge`
        // has counted the call, too.
        if call.attempts.begun() == 1 {
            share.note_slow(now);
        }
        checked?;
        if share.is_loaded(now) {
            return Err(Unhedged::Loaded);
        }
        if cluster.standing() == Standing::Removed {
            return Err(Unhedged::Request);
        }
        let lane = choose_lane(call, &mut self.downstreams, &self.limits.relay);
        match cluster.others(now, (call, lane), &self.pools) {
            Others::Free => {}
            Others::Busy => return Err(Unhedged::Loaded),
            Others::None => return Err(Unhedged::Endpoint),
        }
        if hedge.is_audited() {
            if cluster.has_retry_left(now, workers) {
                self.audit(id, AuditedPart::Hedge, &hedge.set_by);
            }
            return Err(Unhedged::Audit);
        }
        let overspent: Option<Arc<str>> = match cluster.take_retry(now, workers, &self.metrics) {
            Taken::Yes => None,
            Taken::OnlyAudited(set_by) => Some(set_by),
            Taken::No => return Err(Unhedged::Budget),
        };
        if let Some(set_by) = overspent {
            self.audit(id, AuditedPart::RetryBudget, &set_by);
        }
        let begun = self.begin_attempt(id, Choice::Another).map_err(|_| Unhedged::Endpoint)?;
        if let Some(progress) = self.calls.progress_mut(id) {
            progress.hedges += 1;
        }
        Ok(begun)
    }

    /// If a call may be hedged, adds the time that its first attempt has taken so far to the latencies of its method.
    /// Call this function when the relay ends the first attempt without an answer: the answer would have taken at least
    /// this time.
    pub(crate) fn note_given_up(&mut self, id: CallId) {
        let now = self.now;
        let Some(call) = self.calls.get(id) else { return };
        let (Some(method), Some(since)) = (call.hedged_method(), call.attempts.first_since()) else { return };
        if let Some(cluster) = self.targets.get_mut(call.cluster) {
            cluster.note_latency(method, now - since, now);
        }
    }

    /// At the end of a call that may be hedged and took too long, adds the time of its first attempt to the latencies of
    /// its method: the method took at least this time. Leaves out all other failures: the time until a failure does not
    /// show how long the method takes.
    #[inline]
    pub(crate) fn note_unanswered(&mut self, id: CallId, ending: Ending) {
        let is_unanswered = |call: &Call| call.response == Response::Awaited && call.hedged_method().is_some();
        if self.calls.get(id).is_some_and(is_unanswered) && ending.took_too_long() {
            self.note_given_up(id);
        }
    }

    /// Records that the answer of a failed attempt forbids further attempts.
    pub(crate) fn forbid_further_attempts(&mut self, id: CallId) {
        if let Some(progress) = self.calls.progress_mut(id) {
            progress.is_pushed_back = true;
        }
    }
}

#[cfg(test)]
#[path = "hedge_tests.rs"]
mod tests;
