//! Hedge: sends a call to another endpoint before the first one has answered, if the policy of its rule allows this (gRFC
//! A6). The first attempt whose answer is no failure answers the call; the relay cancels the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::fields::Known;
use leno_model::balance::Method;
use leno_model::traffic::{Hedge, HedgeDelay, MethodLatencies, Setting, SlowShare};

use crate::Relay;
use crate::audit::AuditedPart;
use crate::call::attempt::AttemptId;
use crate::call::{Call, CallId};
use crate::certain::Certain;
use crate::target::balance::{Begun, Choice};
use crate::target::budget::Taken;
use crate::target::cluster::{ClusterState, Standing};

/// What a cluster learns about the calls that may be hedged.
#[derive(Debug)]
pub(crate) struct Hedging {
    latencies: MethodLatencies,
    slow: SlowShare,
}

/// Why a call that was not answered in time gets no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unhedged {
    /// The call has used all its further attempts.
    Attempts,
    /// So many calls are slow, or wait for connections, that the Service is loaded.
    Loaded,
    /// The calls to the cluster have used all their retries.
    Budget,
    /// The call's deadline has passed, or the proxy drains.
    Deadline,
    /// An endpoint, or a proxy there, asks for no further attempt.
    Pushback,
    /// The client sends its calls again itself.
    Client,
    /// The request is not complete or not stored, or an attempt has failed and the call waits for its retry.
    Request,
    /// The cluster has no other endpoint that takes calls.
    Endpoint,
    /// The policy is only audited.
    Audit,
}

impl Hedging {
    fn new(now: Instant) -> Self {
        Self { latencies: MethodLatencies::default(), slow: SlowShare::new(now) }
    }

    /// Returns the time after which a call of this method gets a further attempt; `None` while too little is known.
    fn delay(&mut self, hedge: &Hedge, method: Method, now: Instant) -> Option<Duration> {
        match hedge.delay {
            HedgeDelay::Fixed(delay) => Some(delay),
            HedgeDelay::Percentile(permille) => self.latencies.percentile(method, permille, now),
        }
    }
}

impl ClusterState {
    /// Returns what the cluster knows about calls that may be hedged.
    fn hedging(&mut self, now: Instant) -> &mut Hedging {
        self.hedging.get_or_insert_with(|| Box::new(Hedging::new(now)))
    }
}

/// Returns whether a call may get a further attempt, as far as the call itself shows. `until` is the end of a drain.
fn check(call: &Call, hedge: &Hedge, now: Instant, until: Option<Instant>) -> Result<(), Unhedged> {
    if !call.request_ended || !call.can_be_resent() || call.attempts.len() == 0 {
        return Err(Unhedged::Request);
    }
    if call.further_attempts() == 0 && call.request.contains(Known::GrpcPreviousRpcAttempts) {
        return Err(Unhedged::Client);
    }
    if call.route.as_ref().is_some_and(|route| route.progress.is_pushed_back) {
        return Err(Unhedged::Pushback);
    }
    if call.hedges() >= hedge.attempts {
        return Err(Unhedged::Attempts);
    }
    let deadline = call.deadline.map(|(at, _)| at);
    match deadline.into_iter().chain(until).min() {
        Some(at) if now >= at => Err(Unhedged::Deadline),
        _ => Ok(()),
    }
}

impl Relay {
    /// Plans a further attempt at a call whose first attempt has begun, if its policy names its method.
    #[cold]
    pub(crate) fn plan_hedge(&mut self, id: CallId) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        if call.is_mirror() || call.is_tunnel() || call.request.get(Known::Path).is_none() {
            return;
        }
        let field = |known| call.request.get(known).unwrap_or_default();
        let (verb, path) = (field(Known::Method), field(Known::Path));
        let Some(hedge) = call.route.as_ref().and_then(|route| route.hedge()) else { return };
        if !hedge.value.is_for(call.is_grpc, verb, path) {
            return;
        }
        let method = Method::of_path(path);
        let Some(cluster) = self.targets.get_mut(call.cluster) else { return };
        if cluster.retry_budget.is_none() {
            cluster.budget(now, self.workers, &self.metrics).note_call(now);
        }
        let hedging = cluster.hedging(now);
        let delay = hedging.delay(&hedge.value, method, now);
        if delay.is_some() {
            hedging.slow.note_call(now);
        }
        if let Some(route) = call.route.as_mut() {
            route.progress.hedged_method = Some(method);
        }
        if let Some(delay) = delay {
            self.calls.hedge_at(id, now + delay);
        }
    }

    /// Sends a call to another endpoint, since it was not answered in time.
    #[cold]
    pub(crate) fn hedge(&mut self, id: CallId) {
        let Some(route) = self.calls.get(id).and_then(|call| call.route.as_ref()) else { return };
        let Some(hedge) = route.hedge().cloned() else { return };
        let decided = self.begin_hedge(id, &hedge);
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        let Some(route) = call.route.as_mut() else { return };
        route.count_hedge(decided.as_ref().err().copied());
        let Ok((attempt, more_in)) = decided else { return };
        if let Some(delay) = more_in {
            self.calls.hedge_at(id, self.now + delay);
        }
        self.place(attempt);
    }

    /// Begins a further attempt at a call. Also returns the time until the next one, if there may be a next one.
    fn begin_hedge(&mut self, id: CallId, hedge: &Setting<Hedge>) -> Result<(Begun, Option<Duration>), Unhedged> {
        let (now, until, workers) = (self.now, self.draining, self.workers);
        let call = self.calls.get(id).ok_or(Unhedged::Request)?;
        check(call, &hedge.value, now, until)?;
        let method = call.route.as_ref().and_then(|route| route.progress.hedged_method).ok_or(Unhedged::Request)?;
        let cluster = self.targets.get_mut(call.cluster).ok_or(Unhedged::Request)?;
        if cluster.standing == Standing::Removed {
            return Err(Unhedged::Request);
        }
        let is_slow = cluster.hedging(now).slow.note_slow(now, hedge.value.expected_permille());
        if is_slow || cluster.has_queue(&self.pools) {
            return Err(Unhedged::Loaded);
        }
        if !cluster.has_other_endpoint(call) {
            return Err(Unhedged::Endpoint);
        }
        if hedge.is_audited() {
            self.audit(id, AuditedPart::Hedge, &hedge.set_by);
            return Err(Unhedged::Audit);
        }
        let overspent: Option<Arc<str>> = match cluster.take_retry(now, workers, &self.metrics) {
            Taken::Yes => None,
            Taken::OnlyAudited(set_by) => Some(set_by),
            Taken::No => return Err(Unhedged::Budget),
        };
        let more_in = cluster.hedging(now).delay(&hedge.value, method, now);
        if let Some(set_by) = overspent {
            self.audit(id, AuditedPart::RetryBudget, &set_by);
        }
        let begun = self.begin_attempt(id, Choice::Another).map_err(|_| Unhedged::Endpoint)?;
        let progress = self.calls.get_mut(id).and_then(|call| Some(&mut call.route.as_mut()?.progress));
        let hedges = progress.map_or(0, |progress| {
            progress.hedges += 1;
            progress.hedges
        });
        Ok((begun, more_in.filter(|_| hedges < hedge.value.attempts)))
    }

    /// Learns from the answer of an attempt at a call that may be hedged, before the other attempts are cancelled.
    #[cold]
    pub(crate) fn note_hedged_answer(&mut self, id: AttemptId) {
        let now = self.now;
        let Some(call) = self.calls.get(id.call).certain() else { return };
        let Some(route) = &call.route else { return };
        let (Some(method), Some(first)) = (route.progress.hedged_method, call.attempts.first(id.call)) else { return };
        let (first, since) = first;
        if first != id && route.progress.hedges > 0 {
            route.count_hedge_success();
        }
        if let Some(cluster) = self.targets.get_mut(call.cluster) {
            cluster.hedging(now).latencies.add(method, now - since, now);
        }
    }

    /// Notes that the answer of an attempt that failed forbids further ones.
    pub(crate) fn forbid_hedges(&mut self, id: CallId) {
        if let Some(route) = self.calls.get_mut(id).and_then(|call| call.route.as_mut()) {
            route.progress.is_pushed_back = true;
        }
    }
}

#[cfg(test)]
#[path = "hedge_tests.rs"]
mod tests;
