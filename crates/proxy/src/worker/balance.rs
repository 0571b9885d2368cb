//! Balance: what a worker keeps of a cluster, and which endpoint a call goes to.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use leno_http2::fields::Known;
use leno_model::balance::Policy;
use leno_model::balance::{Balancer, EndpointId, Method, Pick};
use leno_model::mesh::{Cluster, ClusterKey, Endpoint, Mesh};
use leno_model::protocol::Protocol;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Worker;
use super::call::{Call, CallId};
use super::hop::PoolKey;
use super::reply::ProxyError;
use crate::limits::{RelayLimits, ms};
use crate::metrics::{Tls, TrafficMetrics, WorkerMetrics};

/// Series of one cluster's calls.
const MAX_TRAFFIC_SERIES: usize = 1_000;

/// What calls are for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum TargetKey {
    /// A Service's port.
    Service(ClusterKey),
    /// An address that the application dialled: an endpoint's own, or one outside of the mesh.
    Address(SocketAddr),
    /// The application beside us.
    Local(SocketAddr),
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(key) => key.fmt(f),
            Self::Address(address) | Self::Local(address) => address.fmt(f),
        }
    }
}

/// A cluster that calls have been sent to.
#[derive(Debug)]
pub(super) struct ClusterState {
    pub(super) target: TargetKey,
    pub(super) cluster: Arc<Cluster>,
    pub(super) balancer: Balancer,
    /// Where calls count, by who is at the other end.
    traffic: Vec<(Tls, Arc<TrafficMetrics>)>,
    members: FxHashMap<EndpointId, Member>,
    pub(super) pools: FxHashMap<PoolKey, Pool>,
    /// Calls in flight.
    pub(super) calls: usize,
    /// The mesh does not know it any more; it goes with its last call.
    pub(super) removed: bool,
}

/// An endpoint as the mesh knows it.
#[derive(Debug)]
struct Member {
    endpoint: Endpoint,
    /// Where calls to it count, once there was one: a place in the cluster's `traffic`.
    traffic: Option<u32>,
}

/// Connections to one endpoint that calls can share, and the calls that wait for one.
#[derive(Debug)]
pub(super) struct Pool {
    /// Where to connect.
    pub(super) address: SocketAddr,
    /// Connections that take calls, or will.
    pub(super) connections: Vec<usize>,
    /// How many of them are being established.
    pub(super) connecting: usize,
    pub(super) waiting: VecDeque<CallId>,
    /// It stands in the worker's list of endpoints that calls wait for.
    pub(super) listed: bool,
    /// Connections that failed in a row.
    pub(super) failures: u32,
    /// No connection is tried before.
    pub(super) retry_at: Option<Instant>,
    pub(super) last_error: String,
}

impl Pool {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            connections: Vec::new(),
            connecting: 0,
            waiting: VecDeque::new(),
            listed: false,
            failures: 0,
            retry_at: None,
            last_error: String::new(),
        }
    }

    /// Whether a call may be sent here, or wait here in a queue of at most so many.
    fn takes_calls(&self, now: Instant, max_waiting: usize) -> bool {
        self.waiting.len() < max_waiting && !self.is_backing_off(now)
    }

    fn is_backing_off(&self, now: Instant) -> bool {
        self.connections.is_empty() && self.retry_at.is_some_and(|at| now < at)
    }

    /// Notes a failed connection: the next pause is twice as long, with jitter.
    pub(super) fn back_off(&mut self, now: Instant, why: String, random: u64, relay: &RelayLimits) {
        let pause = ms(relay.min_backoff_ms).saturating_mul(1 << self.failures.min(16)).min(ms(relay.max_backoff_ms));
        // Between half of the pause and all of it, so that proxies do not knock in step.
        let jitter = pause.mul_f64((random % 1_000) as f64 / 2_000.0);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now + pause / 2 + jitter);
        self.last_error = why;
    }
}

impl ClusterState {
    /// Takes over the cluster's endpoints and settings; returns the pools of endpoints that have gone or changed.
    fn update(&mut self, now: Instant, cluster: Arc<Cluster>) -> Vec<Pool> {
        self.balancer.set_policy(cluster.balancer);
        self.balancer.set_endpoints(now, cluster.endpoints.iter().map(|endpoint| endpoint.address));
        let mut before = std::mem::take(&mut self.members);
        let mut same = FxHashSet::default();
        for (id, address) in self.balancer.endpoints() {
            let place = cluster.endpoints.binary_search_by_key(&address, |endpoint| endpoint.address);
            let Some(endpoint) = place.ok().and_then(|place| cluster.endpoints.get(place)) else { continue };
            if before.remove(&id).is_some_and(|before| before.endpoint.proxy == endpoint.proxy) {
                same.insert(id);
            }
            self.members.insert(id, Member { endpoint: endpoint.clone(), traffic: None });
        }
        self.cluster = cluster;
        self.pools.extract_if(|key, _| !same.contains(&key.endpoint)).map(|(_, pool)| pool).collect()
    }

    /// Chooses an endpoint for `call`. One that did not take it before is chosen again only when no other is left.
    fn pick(&mut self, now: Instant, call: &Call, max_waiting: usize) -> Option<Pick> {
        let (members, pools) = (&self.members, &self.pools);
        let usable = |id| {
            let Some(member): Option<&Member> = members.get(&id) else { return false };
            let pool = pools.get(&call.pool_key(id, member.endpoint.proxy.as_ref()));
            pool.is_none_or(|pool: &Pool| pool.takes_calls(now, max_waiting))
        };
        if call.tried.is_empty() {
            return self.balancer.pick(now, usable);
        }
        self.balancer
            .pick(now, |id| !call.tried.contains(&id) && usable(id))
            .or_else(|| self.balancer.pick(now, usable))
    }

    /// Why no endpoint can take a call.
    fn why_none(&self, now: Instant, own: usize) -> ProxyError {
        let cluster = self.target.to_string();
        if let Some(failed) = self.pools.values().find(|pool| pool.is_backing_off(now)) {
            return ProxyError::Connect { endpoint: failed.address, why: failed.last_error.clone() };
        }
        if self.members.is_empty() {
            return ProxyError::NoEndpoint { cluster };
        }
        let waiting = self.pools.values().map(|pool| pool.waiting.len()).sum();
        ProxyError::QueueFull { cluster, waiting, own }
    }

    /// The place of the series in which calls count that are protected so.
    pub(super) fn traffic_place(&mut self, metrics: &WorkerMetrics, tls: Tls) -> u32 {
        // Clients beyond the limit count together; the series of that many are one series anyway.
        let tls = if self.traffic.len() < MAX_TRAFFIC_SERIES { tls } else { Tls::MutualOther };
        let place = self.traffic.iter().position(|(of, _)| *of == tls).unwrap_or_else(|| {
            let series = metrics.traffic(&self.target.traffic_labels(tls.clone()));
            self.traffic.push((tls, series));
            self.traffic.len() - 1
        });
        place as u32
    }

    /// The series at a place that [`ClusterState::traffic_place`] gave.
    pub(super) fn traffic(&self, place: u32) -> Option<&TrafficMetrics> {
        self.traffic.get(place as usize).map(|(_, series)| &**series)
    }

    /// What the mesh knows of an endpoint.
    pub(super) fn member(&self, endpoint: EndpointId) -> Option<&Endpoint> {
        self.members.get(&endpoint).map(|member| &member.endpoint)
    }

    /// The pools of an endpoint.
    pub(super) fn pools_of(&self, endpoint: EndpointId) -> impl Iterator<Item = &Pool> {
        self.pools.iter().filter(move |(key, _)| key.endpoint == endpoint).map(|(_, pool)| pool)
    }

    /// Whether nothing is lost if it is forgotten.
    fn is_idle(&self) -> bool {
        self.calls == 0 && self.pools.values().all(|pool| pool.connections.is_empty() && pool.waiting.is_empty())
    }
}

/// A cluster of one address, which is no Service's.
pub(super) fn single(address: SocketAddr, known: Option<(&Cluster, &Endpoint)>) -> Arc<Cluster> {
    let unknown = || Endpoint { address, zone: None, hostname: None, pod: None, proxy: None };
    Arc::new(Cluster {
        key: ClusterKey { namespace: Box::default(), service: address.ip().to_string().into(), port: address.port() },
        balancer: Policy::Random,
        protocol: Protocol::Detect,
        settings: known.map(|(cluster, _)| cluster.settings.clone()).unwrap_or_default(),
        cluster_ips: Box::default(),
        endpoints: vec![known.map_or_else(unknown, |(_, endpoint)| endpoint.clone())],
        unready_endpoints: Vec::new(),
    })
}

impl Worker {
    /// The state of a Service's cluster, made when its first call comes.
    pub(super) fn service_state(&mut self, cluster: &Arc<Cluster>) -> usize {
        let target = TargetKey::Service(cluster.key.clone());
        match self.cluster_by_key.get(&target) {
            Some(&index) => index,
            None => self.add_cluster(target, cluster.clone()),
        }
    }

    /// The state of an address that is no Service's, made when its first call comes.
    pub(super) fn address_state(&mut self, target: TargetKey) -> Result<usize, ProxyError> {
        if let Some(&index) = self.cluster_by_key.get(&target) {
            return Ok(index);
        }
        if self.clusters.len() >= self.limits.relay.max_targets as usize {
            return Err(ProxyError::TooManyTargets { targets: self.clusters.len() });
        }
        let cluster = match target {
            TargetKey::Address(address) => self.cluster_of_address(&self.mesh, address),
            TargetKey::Local(address) => single(address, None),
            TargetKey::Service(_) => return Err(ProxyError::NoRoute("a Service has no address here".to_owned())),
        };
        Ok(self.add_cluster(target, cluster))
    }

    fn cluster_of_address(&self, mesh: &Mesh, address: SocketAddr) -> Arc<Cluster> {
        let known = mesh.endpoint_by_address(address);
        single(address, known.map(|(cluster, endpoint)| (&**cluster, endpoint)))
    }

    fn add_cluster(&mut self, target: TargetKey, cluster: Arc<Cluster>) -> usize {
        let seed = self.seed ^ self.next_random();
        let mut state = ClusterState {
            target: target.clone(),
            balancer: Balancer::new(cluster.balancer, seed),
            traffic: Vec::new(),
            cluster: cluster.clone(),
            members: FxHashMap::default(),
            pools: FxHashMap::default(),
            calls: 0,
            removed: false,
        };
        state.update(self.now, cluster);
        let index = self.clusters.insert(state);
        self.cluster_by_key.insert(target, index);
        index
    }

    /// Forgets addresses that nobody calls any more.
    pub(super) fn forget_idle_addresses(&mut self) {
        let is_left = |state: &ClusterState| !matches!(state.target, TargetKey::Service(_)) && state.is_idle();
        let left: Vec<usize> =
            self.clusters.iter().filter(|(_, state)| is_left(state)).map(|(index, _)| index).collect();
        for index in left {
            if let Some(state) = self.clusters.try_remove(index) {
                self.cluster_by_key.remove(&state.target);
                // Routes that were looked up name it.
                self.mesh_version += 1;
            }
        }
    }

    /// Chooses the endpoint of a call.
    pub(super) fn pick_endpoint(&mut self, slot: u32) -> Result<PoolKey, ProxyError> {
        let gone = || ProxyError::NoRoute("the Service has been removed".to_owned());
        let call = self.calls.get_mut(slot as usize).ok_or_else(gone)?;
        let cluster = call.cluster.and_then(|index| self.clusters.get_mut(index)).ok_or_else(gone)?;
        if cluster.removed {
            return Err(gone());
        }
        let own_waiting = self.clients.get(call.client).map_or(0, |client| client.waiting_calls);
        // A client leaves as many places free as it takes, so that no single one fills a queue.
        let max_waiting =
            (self.limits.relay.max_waiting_calls_per_endpoint as usize).saturating_sub(own_waiting).max(1);
        let pick = cluster.pick(self.now, call, max_waiting).ok_or_else(|| cluster.why_none(self.now, own_waiting))?;
        let endpoint = pick.endpoint;
        let method = call.request.get(Known::Path).map_or_else(Method::default, Method::of_path);
        call.pick = Some(pick.of(method));
        call.sent_at = self.now;
        let member = cluster.members.get(&endpoint);
        let key = call.pool_key(endpoint, member.and_then(|member| member.endpoint.proxy.as_ref()));
        if call.traffic.is_none() {
            call.traffic = member.and_then(|member| member.traffic);
            match call.traffic.and_then(|place| cluster.traffic(place)) {
                Some(traffic) => traffic.request(),
                None => self.count_first_request(slot, key),
            }
        }
        Ok(key)
    }

    /// Outbound calls count under the name of the endpoint that they are sent to; the first one looks for the series.
    fn count_first_request(&mut self, slot: u32, key: PoolKey) {
        let Some(index) = self.calls.get(slot as usize).and_then(|call| call.cluster) else { return };
        let Some(cluster) = self.clusters.get(index) else { return };
        let proxy = cluster.member(key.endpoint).and_then(|endpoint| endpoint.proxy.as_ref());
        let id = proxy.and_then(|proxy| self.id_of(proxy));
        let tls = self.endpoint_tls(cluster.target.direction(), key.hop, id);
        let Some(cluster) = self.clusters.get_mut(index) else { return };
        let place = cluster.traffic_place(&self.metrics, tls);
        if let Some(member) = cluster.members.get_mut(&key.endpoint) {
            member.traffic = Some(place);
        }
        if let Some(traffic) = cluster.traffic(place) {
            traffic.request();
        }
        if let Some(call) = self.calls.get_mut(slot as usize) {
            call.traffic = Some(place);
        }
    }

    /// Takes over a new mesh: clusters keep what is known of the endpoints that stay, calls under way finish.
    pub(super) fn set_mesh(&mut self, mesh: Arc<Mesh>) {
        self.mesh_version += 1;
        self.burst = true;
        let indexes: Vec<usize> =
            self.clusters.iter().filter(|(_, state)| !state.removed).map(|(index, _)| index).collect();
        for index in indexes {
            let Some(state) = self.clusters.get(index) else { continue };
            let cluster = match &state.target {
                TargetKey::Service(key) => {
                    let place = mesh.clusters().binary_search_by(|cluster| cluster.key.cmp(key)).ok();
                    place.and_then(|place| mesh.clusters().get(place)).cloned()
                }
                TargetKey::Address(address) => Some(self.cluster_of_address(&mesh, *address)),
                TargetKey::Local(_) => continue,
            };
            let Some(state) = self.clusters.get_mut(index) else { continue };
            let gone = match cluster {
                Some(cluster) => state.update(self.now, cluster),
                None => {
                    state.removed = true;
                    self.cluster_by_key.remove(&state.target);
                    state.balancer.set_endpoints(self.now, []);
                    state.members.clear();
                    std::mem::take(&mut state.pools).into_values().collect()
                }
            };
            for pool in gone {
                self.pool_gone(pool);
            }
            self.drop_cluster_if_unused(index);
        }
        self.mesh = mesh;
    }

    /// An endpoint has left: calls in flight there finish, calls that waited for it go elsewhere.
    fn pool_gone(&mut self, pool: Pool) {
        for connection in pool.connections {
            match self.upstreams.get_mut(connection) {
                Some(upstream) if upstream.ready => upstream.retired = true,
                _ => self.close_upstream(connection, "its endpoint has left"),
            }
        }
        for id in pool.waiting {
            self.send_again(id);
        }
    }

    pub(super) fn call_left_cluster(&mut self, index: usize) {
        if let Some(cluster) = self.clusters.get_mut(index) {
            cluster.calls = cluster.calls.saturating_sub(1);
        }
        self.drop_cluster_if_unused(index);
    }

    fn drop_cluster_if_unused(&mut self, index: usize) {
        if self.clusters.get(index).is_some_and(|cluster| cluster.removed && cluster.calls == 0) {
            self.clusters.remove(index);
        }
    }

    pub(super) fn pool(&mut self, cluster: usize, key: PoolKey) -> Option<&mut Pool> {
        self.clusters.get_mut(cluster)?.pools.get_mut(&key)
    }

    /// The pool of an endpoint that is known, made when its first call comes.
    pub(super) fn pool_of_member(&mut self, cluster: usize, key: PoolKey) -> Option<&mut Pool> {
        let state = self.clusters.get_mut(cluster)?;
        let member = &state.members.get(&key.endpoint)?.endpoint;
        Some(state.pools.entry(key).or_insert_with(|| Pool::new(key.hop.address(member))))
    }
}
