//! Balance: begins an attempt. Chooses the connections that the attempt may use, and lets the balancer of the cluster
//! choose the endpoint ([`leno_model::balance`]).

use leno_http2::fields::Known;
use leno_model::balance::{Method, Outcome};

use crate::Relay;
use crate::call::attempt::AttemptId;
use crate::call::reply::ProxyError;
use crate::call::{Call, CallId};
use crate::certain::Certain;
use crate::downstream::accounts::Lane;
use crate::downstream::downstreams::Downstreams;
use crate::limits::RelayLimits;
use crate::pool::hop::Protocol;
use crate::pool::pools::PoolId;
use crate::pool::upstream::CallSize;
use crate::target::cluster::{ClusterId, NO_QUEUE, Standing};
use crate::target::routes::CallRoute;

/// The set of endpoints that the balancer may choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Any endpoint, preferably an endpoint that the call has not tried ([`ClusterState::pick`]).
    ///
    /// [`ClusterState::pick`]: crate::target::cluster::ClusterState::pick
    Any,
    /// Only an endpoint that the call has not tried, that is not failing, at which the call has no attempt
    /// in flight, and for which no call waits.
    Another,
}

/// An attempt that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) attempt: AttemptId,
    /// The pool whose connections the attempt may use.
    pub(crate) pool: PoolId,
    /// The size of the call's request content.
    pub(crate) size: CallSize,
}

impl Relay {
    /// Begins an attempt at a call: chooses its endpoint.
    pub(crate) fn begin_attempt(&mut self, id: CallId, choice: Choice) -> Result<Begun, ProxyError> {
        let gone = || ProxyError::NoRoute("the Service has been removed".to_owned());
        let copies = self.calls.copies();
        let call = self.calls.get_mut(id).ok_or_else(gone)?;
        let lane = choose_lane(call, &mut self.downstreams, &self.limits.relay);
        let cluster_id = call.cluster.ok_or_else(gone)?;
        let cluster = self.targets.get_mut(cluster_id).ok_or_else(gone)?;
        if cluster.standing() == Standing::Removed {
            return Err(gone());
        }
        // Mirrored copies have no client, so all copies together count as one client.
        let client = self.downstreams.get(call.client);
        let own_waiting = client.map_or(copies, |client| client.waiting_calls);
        // A call may join a queue only if the queue has more free places than its client has waiting calls. So a single
        // client cannot fill a queue.
        let max_waiting =
            (self.limits.relay.max_waiting_calls_per_endpoint as usize).saturating_sub(own_waiting).max(1);
        let max_waiting = if choice == Choice::Another { NO_QUEUE } else { max_waiting };
        let pick = cluster
            .pick(self.now, (call, choice), lane, &self.pools, max_waiting)
            .ok_or_else(|| cluster.why_none(self.now, (call, lane), &self.pools, own_waiting))?;
        let endpoint = pick.endpoint;
        let method = call.request.get(Known::Path).map_or_else(Method::default, Method::of_path);
        let size = CallSize::of(call);
        let Some(pool) = cluster.pool(cluster_id, endpoint, call, lane, &mut self.pools).certain() else {
            cluster.balancer.finish(self.now, pick, Outcome::NotSent);
            return Err(gone());
        };
        cluster.begin_method(call, &self.metrics, self.limits.relay.max_methods_per_service as usize);
        if call.attempts.begun() == 0 && !call.is_mirror() {
            // Create the budget before the first retry or hedge: the earlier calls determine how many it allows.
            let may_need_budget = call.route.as_ref().is_some_and(CallRoute::may_begin_further_attempts);
            if may_need_budget || cluster.cluster.retry_budget.is_some() {
                cluster.budget(self.now, self.workers, &self.metrics).note_call(self.now);
            } else if let Some(budget) = &mut cluster.retry_budget {
                budget.note_call(self.now);
            }
        }
        let attempt = call.attempts.begin(id, pick.of(method), pool, self.now);
        if let Some(trace) = &mut call.trace {
            let address = cluster.member(endpoint).map(|endpoint| endpoint.address);
            let reason = cluster.balancer.last_reason();
            let is_hedge = call.attempts.get(attempt).is_some_and(|attempt| attempt.is_hedge);
            trace.begin_attempt(attempt, (address, reason, is_hedge), self.now, &mut self.random);
        }
        if call.traffic.is_none() {
            call.traffic = cluster.members.get(endpoint).and_then(|member| member.traffic);
            match call.traffic.and_then(|place| cluster.traffic(place)) {
                Some(_) if call.is_guess => {}
                Some(traffic) => traffic.request(),
                None => self.count_first_request(id, pool),
            }
        }
        Ok(Begun { attempt, pool, size })
    }

    /// Counts the first call to an endpoint, and stores the metrics series for later calls to the endpoint. The series
    /// of outbound calls has the identity and the controller of the endpoint as labels.
    fn count_first_request(&mut self, id: CallId, pool: PoolId) {
        let Some((cluster_id, key)) = self.pools.get(pool).map(|pool| (pool.cluster, pool.key)).certain() else {
            return;
        };
        let Some(cluster) = self.targets.get(cluster_id).certain() else { return };
        let proxy = cluster.member(key.endpoint).and_then(|endpoint| endpoint.proxy.as_ref());
        let server = proxy.and_then(|proxy| self.targets.id_of(proxy));
        let tls = self.endpoint_tls(cluster.target.direction(), key.hop, server.as_ref());
        let Some(cluster) = self.targets.get_mut(cluster_id).certain() else { return };
        let server = cluster.member(key.endpoint).and_then(|endpoint| endpoint.controller.clone());
        let place = cluster.traffic_place(&self.metrics, tls, server);
        if let Some(member) = cluster.members.get_mut(key.endpoint) {
            member.traffic = Some(place);
        }
        self.count_request(id, cluster_id, place);
    }

    /// Counts a new call in the series at index `place` of its cluster. While the proxy only guesses that the
    /// connection is opaque, stores the index and counts nothing.
    pub(crate) fn count_request(&mut self, id: CallId, cluster: ClusterId, place: u32) {
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        call.traffic = Some(place);
        if !call.is_guess
            && let Some(traffic) = self.targets.get(cluster).and_then(|cluster| cluster.traffic(place))
        {
            traffic.request();
        }
    }
}

/// Selects the lane of a call: the connections that it may use.
///
/// - Copies of requests have no account, so they use the shared connections.
/// - Opaque connections of our own application always use the shared connections.
/// - Opaque connections of our callers count like other calls, because each needs its own connection to the
///   application.
pub(crate) fn choose_lane(call: &mut Call, downstreams: &mut Downstreams, relay: &RelayLimits) -> Lane {
    let Some(account) = downstreams.get(call.client).map(|client| client.account) else { return Lane::Shared };
    let is_opaque = call.protocol == Protocol::Opaque;
    if is_opaque && !downstreams.accounts().is_of_a_caller(account) {
        return Lane::Shared;
    }
    // Do not count an opaque connection as an open request: its request is incomplete until the connection ends.
    let is_open = !is_opaque && !call.request_ended && !call.counts_as_open;
    let lane = downstreams.lane(account, is_open, relay);
    if is_open && lane.is_common() {
        call.counts_as_open = true;
        downstreams.request_open(call.client);
    }
    lane
}
