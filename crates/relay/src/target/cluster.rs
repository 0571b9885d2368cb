//! Cluster: the state that a worker keeps for a target of calls: its endpoints, their balancer, and which pools of
//! connections they have.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use leno_model::balance::{Balancer, EndpointId, Pick, Policy};
use leno_model::mesh::{Cluster, ClusterKey, Controller, Endpoint};
use leno_model::protocol::Protocol;
use rustc_hash::FxHashSet;

use crate::call::Call;
use crate::call::hedge::Hedging;
use crate::call::reply::ProxyError;
use crate::downstream::accounts::Lane;
use crate::limits::{RelayLimits, ms};
use crate::metrics::{TlsLabel, TrafficLabels, TrafficMetrics, WorkerMetrics};
use crate::pool::hop::PoolKey;
use crate::pool::pools::{Pool, PoolId, Pools};
use crate::slots::Id;
use crate::target::balance::Choice;
use crate::target::budget::ClusterBudget;
use crate::target::methods::Methods;
use crate::target::readiness::ReportedEndpoints;
use crate::target::routes::Routes;

/// Maximum number of metrics series for the calls of one cluster.
const MAX_TRAFFIC_SERIES: usize = 1_000;

/// The target of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TargetKey {
    /// A Service's port.
    Service(ClusterKey),
    /// An address that our own application connected to: the address of an endpoint, or an address outside of the mesh.
    Address(SocketAddr),
    /// A port of our own application.
    Local(SocketAddr),
}

/// The default port of HTTP, which clients leave out of `Host` (RFC 9110 section 4.2.1).
const HTTP_PORT: u16 = 80;

impl TargetKey {
    /// Returns the value that a client would send in `Host`.
    pub(crate) fn host(&self) -> String {
        let (host, port) = match self {
            Self::Service(ClusterKey { namespace, service, port }) => {
                (format!("{service}.{namespace}.svc.cluster.local"), *port)
            }
            Self::Address(SocketAddr::V6(address)) | Self::Local(SocketAddr::V6(address)) => {
                (format!("[{}]", address.ip()), address.port())
            }
            Self::Address(address) | Self::Local(address) => (address.ip().to_string(), address.port()),
        };
        if port == HTTP_PORT { host } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(key) => key.fmt(f),
            Self::Address(address) | Self::Local(address) => address.fmt(f),
        }
    }
}

/// Identifies a cluster within its worker.
pub(crate) type ClusterId = Id<ClusterState>;

/// The labels that distinguish the metrics series of one cluster: how the peer is authenticated, and for outbound calls
/// the controller of the server.
type PeerLabels = (TlsLabel, Option<Controller>);

/// The metrics series of calls from or to the same peers.
#[derive(Debug)]
struct PeerTraffic {
    /// The labels of the series; `None` if [`ClusterState::name_port`] has changed the target's labels since. Only
    /// calls that began before that change still use the series.
    labels: Option<PeerLabels>,
    series: Arc<TrafficMetrics>,
}

/// A cluster that calls have been sent to.
#[derive(Debug)]
pub(crate) struct ClusterState {
    pub(crate) target: TargetKey,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) balancer: Balancer,
    /// The metrics series of calls. `None`: [`ClusterState::release_traffic`] has released the series, and the index is
    /// free.
    traffic: Vec<Option<PeerTraffic>>,
    /// Whether metrics name the target's port, if this is a port of our own application.
    is_named: bool,
    /// Whether the target is the port where this proxy serves taps. Calls to it are not traffic of the application, so
    /// no exported series counts them.
    is_tap: bool,
    pub(super) members: Members,
    /// Whether a pool may have a queue, may have failed to connect, or may be doubtful ([`Pools::is_doubtful`]). If not,
    /// every endpoint takes calls, and no pool needs to be checked.
    may_be_busy: bool,
    /// The routes that are attached to this cluster; `None` if calls go to the cluster itself.
    pub(crate) routes: Option<Box<Routes>>,
    /// The budget for further attempts at calls to this cluster; `None` until its first use.
    pub(crate) retry_budget: Option<Box<ClusterBudget>>,
    /// Statistics of the calls that may be hedged; `None` if there have been none.
    pub(crate) hedging: Option<Box<Hedging>>,
    /// The methods that metrics name.
    pub(crate) methods: Methods,
    /// The metrics of the endpoints; `None` before their first report.
    pub(super) reported_endpoints: Option<ReportedEndpoints>,
    /// Number of calls in flight.
    calls: usize,
    standing: Standing,
}

/// The state of the endpoints that a hedge of a call may go to: the call has not tried them, and they are not failing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// At least one of these endpoints takes calls at once.
    Free,
    /// At each of these endpoints, other calls wait, connections to the endpoint fail, or the server may be gone.
    Busy,
    /// There is no such endpoint.
    None,
}

/// Value for `max_waiting` with which a call never joins a queue: a pool takes the call only if no call waits.
pub(crate) const NO_QUEUE: usize = 1;

/// Records whether the mesh still has a cluster. If it does not, the relay drops the cluster's state when the last call
/// ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Known,
    /// The cluster was removed from the mesh: calls that wait for an endpoint fail.
    Removed,
    /// The cluster was unused for so long that the proxy no longer asks the control plane about it. A call that arrives
    /// at that moment is still sent.
    Forgotten,
}

/// An endpoint as the mesh knows it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: EndpointId,
    pub(crate) endpoint: Endpoint,
    /// Index of the metrics series of calls to the endpoint, in the cluster's `traffic`. `None` until the first call
    /// after the endpoint was added, or after its proxy or its controller has changed.
    pub(super) traffic: Option<u32>,
    /// The endpoint's pools. There are few: one for each hop and lane that calls have used.
    pools: Vec<(PoolKey, PoolId)>,
}

impl Member {
    /// Returns the pool for a call.
    #[inline]
    fn pool(&self, key: PoolKey) -> Option<PoolId> {
        self.pools.iter().find(|(of, _)| *of == key).map(|(_, pool)| *pool)
    }

    /// Returns the pool whose connections `call` may use; `None` before the first such call.
    #[inline]
    fn pool_for(&self, call: &Call, lane: Lane) -> Option<PoolId> {
        self.pool(call.pool_key(self.id, self.endpoint.proxy.as_ref(), lane))
    }

    /// Returns whether the endpoint takes a call that uses connections of `lane`: at once, or in a queue of at most
    /// `max_waiting` calls.
    fn takes_call(&self, (call, lane): (&Call, Lane), pools: &Pools, (now, max_waiting): (Instant, usize)) -> bool {
        self.pool_for(call, lane).and_then(|pool| pools.get(pool)).is_none_or(|pool| pool.takes_calls(now, max_waiting))
    }

    /// Returns whether the endpoint takes the call ([`Self::takes_call`]), and its server is not known to be silent
    /// ([`Pools::is_doubtful`]).
    fn is_usable(&self, (call, lane): (&Call, Lane), pools: &Pools, (now, max_waiting): (Instant, usize)) -> bool {
        let is_doubtful = || self.pool_for(call, lane).is_some_and(|pool| pools.is_doubtful(pool));
        self.takes_call((call, lane), pools, (now, max_waiting)) && !is_doubtful()
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = PoolId> {
        self.pools.iter().map(|(_, pool)| *pool)
    }
}

/// The endpoints of a cluster, each at the index [`EndpointId::slot`].
#[derive(Debug, Default)]
pub(crate) struct Members {
    by_slot: Vec<Option<Member>>,
}

impl Members {
    #[inline]
    pub(crate) fn get(&self, id: EndpointId) -> Option<&Member> {
        self.by_slot.get(id.slot())?.as_ref().filter(|member| member.id == id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: EndpointId) -> Option<&mut Member> {
        self.by_slot.get_mut(id.slot())?.as_mut().filter(|member| member.id == id)
    }

    fn insert(&mut self, member: Member) {
        let slot = member.id.slot();
        if self.by_slot.len() <= slot {
            self.by_slot.resize_with(slot + 1, || None);
        }
        if let Some(place) = self.by_slot.get_mut(slot) {
            *place = Some(member);
        }
    }

    /// Removes an endpoint, unless another endpoint has its slot now.
    fn remove(&mut self, id: EndpointId) -> Option<Member> {
        self.by_slot.get_mut(id.slot())?.take_if(|member| member.id == id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.by_slot.iter().flatten()
    }
}

impl ClusterState {
    /// Creates the state of a target. It has no routes yet, and metrics name the target.
    pub(crate) fn new(target: TargetKey, cluster: Arc<Cluster>, seed: u64, now: Instant) -> Self {
        let mut state = Self {
            target,
            cluster: cluster.clone(),
            balancer: Balancer::new(cluster.balancer, seed),
            traffic: Vec::new(),
            is_named: true,
            is_tap: false,
            members: Members::default(),
            may_be_busy: false,
            routes: None,
            retry_budget: None,
            hedging: None,
            methods: Methods::default(),
            reported_endpoints: None,
            calls: 0,
            standing: Standing::Known,
        };
        state.update(now, cluster);
        state
    }

    /// Replaces the cluster's endpoints and settings. Returns the pools of endpoints that were removed or changed.
    pub(crate) fn update(&mut self, now: Instant, cluster: Arc<Cluster>) -> Vec<PoolId> {
        self.balancer.set_policy(cluster.balancer);
        self.balancer.set_endpoints(now, cluster.endpoints.iter().map(|endpoint| endpoint.address));
        let mut before = std::mem::take(&mut self.members);
        let mut gone = Vec::new();
        for (id, address) in self.balancer.endpoints() {
            let place = cluster.endpoints.binary_search_by_key(&address, |endpoint| endpoint.address);
            let Some(endpoint) = place.ok().and_then(|place| cluster.endpoints.get(place)) else { continue };
            let mut member = Member { id, endpoint: endpoint.clone(), traffic: None, pools: Vec::new() };
            if let Some(same) = before.remove(id) {
                let has_same_proxy = same.endpoint.proxy == endpoint.proxy;
                // The labels of the series contain the proxy's identity and the controller.
                if has_same_proxy && same.endpoint.controller == endpoint.controller {
                    member.traffic = same.traffic;
                }
                match has_same_proxy {
                    true => member.pools = same.pools,
                    false => gone.extend(same.pools()),
                }
            }
            self.members.insert(member);
        }
        gone.extend(before.iter().flat_map(Member::pools));
        if self.cluster.objectives != cluster.objectives {
            self.methods.set_objectives(cluster.objectives.as_deref());
        }
        self.cluster = cluster;
        gone
    }

    /// Records that the mesh no longer has the cluster. If `standing` is [`Standing::Removed`], also removes all
    /// endpoints, and returns their pools.
    pub(super) fn lose(&mut self, now: Instant, standing: Standing) -> Vec<PoolId> {
        self.standing = standing;
        // A new state of the same Service uses the same metrics, while calls may keep this state for hours.
        self.reported_endpoints = None;
        if standing == Standing::Removed { self.clear(now) } else { Vec::new() }
    }

    /// Returns whether the mesh still has the cluster and, if not, why.
    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// Counts a call in flight. The caller must call [`Self::call_left`] when the call leaves the cluster.
    pub(crate) fn call_joined(&mut self) {
        self.calls += 1;
    }

    /// Records the end of a call, or that the call went to another cluster.
    pub(super) fn call_left(&mut self) {
        self.calls = self.calls.saturating_sub(1);
    }

    /// Returns the number of calls in flight.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// Records that a call waits for a connection to an endpoint, that a connection to an endpoint has failed, or that
    /// the server of a connection may be gone.
    pub(crate) fn note_busy(&mut self) {
        self.may_be_busy = true;
    }

    /// Returns whether a pool may have a queue, may have failed to connect, or may be doubtful.
    pub(crate) fn may_be_busy(&self) -> bool {
        self.may_be_busy
    }

    /// Makes metrics leave out the target's port until [`Self::name_port`].
    pub(super) fn hide_port(&mut self) {
        self.is_named = false;
    }

    /// Records that the target is the port where this proxy serves taps.
    pub(super) fn become_tap(&mut self) {
        self.is_tap = true;
    }

    /// Returns whether the target is the port where this proxy serves taps.
    pub(crate) fn is_tap(&self) -> bool {
        self.is_tap
    }

    /// Returns whether metrics name the target's port, if this is a port of our own application.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Removes all endpoints. Returns their pools.
    pub(super) fn clear(&mut self, now: Instant) -> Vec<PoolId> {
        self.balancer.set_endpoints(now, []);
        std::mem::take(&mut self.members).iter().flat_map(Member::pools).collect()
    }

    /// Chooses an endpoint for `call`, which uses connections of `lane`. A further attempt prefers endpoints that are
    /// not failing and, among these, endpoints that the call has not tried. An earlier attempt may have ended through no
    /// fault of its endpoint, but an attempt at a failing endpoint most likely fails.
    /// With [`Choice::Another`], returns only an endpoint that is not failing and that is not tried.
    ///
    /// An endpoint whose server may be gone ([`Pools::is_doubtful`]) gets no call while there is an alternative
    /// ([`Self::has_alternative`]), and never with [`Choice::Another`].
    pub(crate) fn pick(
        &mut self,
        now: Instant,
        (call, choice): (&Call, Choice),
        lane: Lane,
        pools: &Pools,
        max_waiting: usize,
    ) -> Option<Pick> {
        let is_free = choice == Choice::Any && call.tried.is_empty();
        if !self.may_be_busy && is_free {
            return self.balancer.pick(now, |_| true);
        }
        let members = &self.members;
        let is_usable = |member: &Member| member.is_usable((call, lane), pools, (now, max_waiting));
        let takes_call = |member: &Member| member.takes_call((call, lane), pools, (now, max_waiting));
        let avoids_doubt = choice == Choice::Another || self.has_alternative(is_usable);
        let is_candidate = |member: &Member| if avoids_doubt { is_usable(member) } else { takes_call(member) };
        let usable = |id| members.get(id).is_some_and(is_candidate);
        let balancer = &mut self.balancer;
        match is_free {
            true => balancer.pick(now, usable),
            false => pick_again(balancer, members, now, (call, choice), usable),
        }
    }

    /// Returns whether a call need not go to an endpoint whose server may be gone: another endpoint is usable and not
    /// failing. A call to a failing endpoint most likely fails, but a silent server may only have paused.
    fn has_alternative(&self, is_usable: impl Fn(&Member) -> bool) -> bool {
        self.members.iter().any(|member| !self.balancer.is_failing(member.id) && is_usable(member))
    }

    /// Returns the endpoint that [`ClusterState::pick`] would choose for a new call, and the reason. Changes nothing,
    /// because it uses a copy of the balancer.
    pub(crate) fn preview(
        &self,
        now: Instant,
        call: &Call,
        lane: Lane,
        pools: &Pools,
        max_waiting: usize,
    ) -> Option<(EndpointId, String)> {
        let mut balancer = self.balancer.clone();
        let is_usable = |member: &Member| member.is_usable((call, lane), pools, (now, max_waiting));
        let takes_call = |member: &Member| member.takes_call((call, lane), pools, (now, max_waiting));
        let avoids_doubt = self.has_alternative(is_usable);
        let is_candidate = |member: &Member| if avoids_doubt { is_usable(member) } else { takes_call(member) };
        let usable = |id| !self.may_be_busy || self.members.get(id).is_some_and(is_candidate);
        let pick = balancer.pick(now, usable)?;
        Some((pick.endpoint, balancer.explain_last_pick().unwrap_or_default()))
    }

    /// Returns the pool of an endpoint whose connections `call` may use. The first call creates the pool.
    #[inline]
    pub(crate) fn pool(
        &mut self,
        own: ClusterId,
        endpoint: EndpointId,
        call: &Call,
        lane: Lane,
        pools: &mut Pools,
    ) -> Option<PoolId> {
        let member = self.members.get_mut(endpoint)?;
        let key = call.pool_key(endpoint, member.endpoint.proxy.as_ref(), lane);
        if let Some(pool) = member.pool(key) {
            return Some(pool);
        }
        let pool = pools.insert(Pool::new(own, key, key.hop.address(&member.endpoint)));
        member.pools.push((key, pool));
        Some(pool)
    }

    /// Lets unused pools forget their old failures. Clears `may_be_busy` if no pool has a queue any more, no pool has
    /// failed to connect, and no pool is doubtful.
    pub(crate) fn check_pools(&mut self, now: Instant, pools: &mut Pools, relay: &RelayLimits) {
        if !self.may_be_busy {
            return;
        }
        self.may_be_busy = false;
        for member in self.members.iter() {
            let is_connected = member.pools().filter_map(|id| pools.get(id)).any(Pool::is_connected);
            for id in member.pools() {
                let Some(pool) = pools.get_mut(id) else { continue };
                if is_connected {
                    pool.forget_old_failures(now, ms(relay.max_backoff_ms));
                }
                self.may_be_busy |= pool.may_be_busy() || pools.is_doubtful(id);
            }
        }
    }

    /// Returns the state of the endpoints that a hedge of `call`, which uses connections of `lane`, may go to. Stops at
    /// the first endpoint that takes the call at once, so the cost is usually small.
    pub(crate) fn others(&self, now: Instant, (call, lane): (&Call, Lane), pools: &Pools) -> Others {
        let may_be_hedged_at = |member: &&Member| !call.has_tried(member.id) && !self.balancer.is_failing(member.id);
        let mut others = self.members.iter().filter(may_be_hedged_at).peekable();
        if others.peek().is_none() {
            return Others::None;
        }
        let is_free = |member: &Member| member.is_usable((call, lane), pools, (now, NO_QUEUE));
        if others.any(is_free) { Others::Free } else { Others::Busy }
    }

    /// Returns when the first pool for `call` that opens no connection for now opens one again; `None` without such a
    /// pool. The call uses connections of `lane`.
    pub(crate) fn connects_again_at(
        &self,
        now: Instant,
        (call, lane): (&Call, Lane),
        pools: &Pools,
    ) -> Option<Instant> {
        let backing_off = self.pools_for((call, lane), pools).filter(|pool| pool.is_backing_off(now));
        backing_off.filter_map(Pool::retry_at).min()
    }

    /// Returns the reason why no endpoint can take `call`, which uses connections of `lane`. `own` is the number of
    /// waiting calls of the call's client.
    pub(crate) fn why_none(&self, now: Instant, (call, lane): (&Call, Lane), pools: &Pools, own: usize) -> ProxyError {
        let cluster = self.target.to_string();
        if let Some(failed) = self.pools_for((call, lane), pools).find(|pool| pool.is_backing_off(now)) {
            return failed.connect_error();
        }
        if self.members.iter().next().is_none() {
            return ProxyError::NoEndpoint { cluster };
        }
        let waiting = self.pools_for((call, lane), pools).map(|pool| pool.waiting().len()).sum();
        ProxyError::QueueFull { cluster, waiting, own }
    }

    /// Returns the index of the metrics series for calls with these labels: `tls`, and the controller of the server.
    pub(crate) fn traffic_place(&mut self, metrics: &WorkerMetrics, tls: TlsLabel, server: Option<Controller>) -> u32 {
        let mut labels = (tls, server);
        if let Some(place) = self.place_of(&labels) {
            return place as u32;
        }
        let free = self.traffic.iter().position(Option::is_none);
        // Peers beyond the limit share series whose labels have no names. For so many peers, the table of all metrics
        // series would reach its own limit, and would combine the series anyway.
        if free.is_none() && self.traffic.len() >= MAX_TRAFFIC_SERIES {
            labels = (labels.0.without_name(), None);
            if let Some(place) = self.place_of(&labels) {
                return place as u32;
            }
        }
        let (tls, server) = labels.clone();
        let series = match self.is_tap {
            true => Arc::default(),
            false => metrics.traffic(&TrafficLabels { server, ..self.traffic_labels(tls) }),
        };
        let peer = Some(PeerTraffic { labels: Some(labels), series });
        match free.and_then(|free| self.traffic.get_mut(free)) {
            Some(place) => *place = peer,
            None => self.traffic.push(peer),
        }
        free.unwrap_or(self.traffic.len() - 1) as u32
    }

    fn place_of(&self, labels: &PeerLabels) -> Option<usize> {
        let has_labels = |peer: &PeerTraffic| peer.labels.as_ref() == Some(labels);
        self.traffic.iter().position(|peer| peer.as_ref().is_some_and(has_labels))
    }

    /// Releases the series whose index is in use neither by an endpoint nor elsewhere (`is_used`). The series of peers
    /// that have left can then end, and other peers can use the indexes.
    pub(crate) fn release_traffic(&mut self, is_used: impl Fn(u32) -> bool) {
        let of_endpoints: FxHashSet<u32> = self.members.iter().filter_map(|member| member.traffic).collect();
        for (place, peer) in (0..).zip(&mut self.traffic) {
            if !of_endpoints.contains(&place) && !is_used(place) {
                *peer = None;
            }
        }
    }

    /// Makes metrics name the port: calls that begin from now on count under its number.
    pub(crate) fn name_port(&mut self) {
        self.is_named = true;
        self.traffic.iter_mut().flatten().for_each(|peer| peer.labels = None);
        self.methods = Methods::default();
    }

    /// Returns the series at an index that [`ClusterState::traffic_place`] returned.
    pub(crate) fn traffic(&self, place: u32) -> Option<&TrafficMetrics> {
        self.traffic.get(place as usize)?.as_ref().map(|peer| &*peer.series)
    }

    /// Returns an endpoint as the mesh knows it.
    pub(crate) fn member(&self, endpoint: EndpointId) -> Option<&Endpoint> {
        self.members.get(endpoint).map(|member| &member.endpoint)
    }

    /// Returns the connection pools of an endpoint; no pools if the endpoint does not belong to this cluster.
    pub(crate) fn pools_of<'a>(&'a self, endpoint: EndpointId, pools: &'a Pools) -> impl Iterator<Item = &'a Pool> {
        self.members.get(endpoint).into_iter().flat_map(Member::pools).filter_map(|pool| pools.get(pool))
    }

    /// Returns whether the server of one of an endpoint's pools may be gone ([`Pools::is_doubtful`]).
    pub(super) fn is_doubtful(&self, endpoint: EndpointId, pools: &Pools) -> bool {
        self.members.get(endpoint).is_some_and(|member| member.pools().any(|pool| pools.is_doubtful(pool)))
    }

    /// Returns the pools whose connections `call` may use, in `lane`.
    fn pools_for<'a>(&'a self, (call, lane): (&'a Call, Lane), pools: &'a Pools) -> impl Iterator<Item = &'a Pool> {
        self.members.iter().filter_map(move |member| pools.get(member.pool_for(call, lane)?))
    }

    /// Returns the pools of all endpoints.
    fn pools<'a>(&'a self, pools: &'a Pools) -> impl Iterator<Item = &'a Pool> {
        self.members.iter().flat_map(Member::pools).filter_map(|pool| pools.get(pool))
    }

    /// Returns whether the state can be dropped: there are no calls and no connections.
    pub(crate) fn is_idle(&self, pools: &Pools) -> bool {
        self.calls == 0 && self.pools(pools).all(Pool::is_idle)
    }
}

/// Chooses an endpoint for a further attempt at `call`, among the endpoints for which `usable` returns true. See
/// [`ClusterState::pick`].
fn pick_again(
    balancer: &mut Balancer,
    members: &Members,
    now: Instant,
    (call, choice): (&Call, Choice),
    usable: impl Fn(EndpointId) -> bool + Copy,
) -> Option<Pick> {
    // Find out before the pick which endpoints to avoid: during the pick, the balancer cannot answer.
    let is_failing = |id: &EndpointId| balancer.is_failing(*id);
    let avoided: Vec<EndpointId> = members.iter().map(|member| member.id).filter(is_failing).collect();
    let untried = |id| !call.has_tried(id) && usable(id);
    let best = balancer.pick(now, |id| !avoided.contains(&id) && untried(id));
    match choice {
        Choice::Another => best,
        Choice::Any => best
            .or_else(|| balancer.pick(now, |id| !avoided.contains(&id) && usable(id)))
            .or_else(|| balancer.pick(now, untried))
            .or_else(|| balancer.pick(now, usable)),
    }
}

/// Creates the cluster for calls to an address instead of a Service. `known` is the endpoint that has this address,
/// with the cluster of its Service; `None` if the mesh has no such endpoint.
pub(crate) fn single(address: SocketAddr, known: Option<(&Cluster, &Endpoint)>) -> Arc<Cluster> {
    let unknown = || Endpoint { address, zone: None, hostname: None, pod: None, controller: None, proxy: None };
    Arc::new(Cluster {
        key: ClusterKey { namespace: Box::default(), service: address.ip().to_string().into(), port: address.port() },
        balancer: Policy::Random,
        protocol: Protocol::Detect,
        settings: known.map(|(cluster, _)| cluster.settings.clone()).unwrap_or_default(),
        retry_budget: None,
        objectives: None,
        cluster_ips: Box::default(),
        endpoints: vec![known.map_or_else(unknown, |(_, endpoint)| endpoint.clone())],
        unready_endpoints: Vec::new(),
    })
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
