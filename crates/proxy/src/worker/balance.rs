//! Balance: what a worker keeps of a cluster, and which endpoint a call goes to.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use leno_http2::fields::Known;
use leno_model::balance::{Balancer, EndpointId, Method, Pick};
use leno_model::mesh::{Cluster, Mesh};
use rustc_hash::FxHashMap;

use super::Worker;
use super::call::{Call, CallId};
use super::outbound_labels;
use super::reply::ProxyError;
use crate::limits::{RelayLimits, ms};
use crate::metrics::{Target, TrafficMetrics};

/// A cluster that calls have been sent to.
#[derive(Debug)]
pub(super) struct ClusterState {
    pub(super) cluster: Arc<Cluster>,
    pub(super) balancer: Balancer,
    pub(super) metrics: Arc<TrafficMetrics>,
    pub(super) endpoints: FxHashMap<EndpointId, EndpointState>,
    /// Calls in flight.
    pub(super) calls: usize,
    /// The mesh does not know it any more; it goes with its last call.
    pub(super) removed: bool,
}

/// An endpoint: its connections, and the calls that wait for one.
#[derive(Debug)]
pub(super) struct EndpointState {
    pub(super) address: SocketAddr,
    /// Connections that take calls, or will.
    pub(super) connections: Vec<usize>,
    /// One of them is being established.
    pub(super) connecting: bool,
    pub(super) waiting: VecDeque<CallId>,
    /// It stands in the worker's list of endpoints that calls wait for.
    pub(super) listed: bool,
    /// Connections that failed in a row.
    pub(super) failures: u32,
    /// No connection is tried before.
    pub(super) retry_at: Option<Instant>,
    pub(super) last_error: String,
}

impl EndpointState {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            connections: Vec::new(),
            connecting: false,
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
    /// Takes over the cluster's endpoints and settings; returns the endpoints that have gone.
    fn update(&mut self, now: Instant, cluster: Arc<Cluster>) -> Vec<EndpointState> {
        self.balancer.set_policy(cluster.balancer);
        self.balancer.set_endpoints(now, cluster.endpoints.iter().map(|endpoint| endpoint.address));
        self.cluster = cluster;
        let mut before = std::mem::take(&mut self.endpoints);
        for (id, address) in self.balancer.endpoints() {
            let state = before.remove(&id).unwrap_or_else(|| EndpointState::new(address));
            self.endpoints.insert(id, state);
        }
        before.into_values().collect()
    }

    /// Chooses an endpoint for `call`. One that did not take it before is chosen again only when no other is left.
    fn pick(&mut self, now: Instant, call: &Call, max_waiting: usize) -> Option<Pick> {
        let endpoints = &self.endpoints;
        let usable =
            |id| endpoints.get(&id).is_some_and(|endpoint: &EndpointState| endpoint.takes_calls(now, max_waiting));
        if call.tried.is_empty() {
            return self.balancer.pick(now, usable);
        }
        self.balancer
            .pick(now, |id| !call.tried.contains(&id) && usable(id))
            .or_else(|| self.balancer.pick(now, usable))
    }

    /// Why no endpoint can take a call.
    fn why_none(&self, now: Instant, own: usize) -> ProxyError {
        let cluster = self.cluster.key.to_string();
        if let Some(failed) = self.endpoints.values().find(|endpoint| endpoint.is_backing_off(now)) {
            return ProxyError::Connect { endpoint: failed.address, why: failed.last_error.clone() };
        }
        if self.endpoints.is_empty() {
            return ProxyError::NoEndpoint { cluster };
        }
        let waiting = self.endpoints.values().map(|endpoint| endpoint.waiting.len()).sum();
        ProxyError::QueueFull { cluster, waiting, own }
    }
}

impl Worker {
    /// The state of a cluster, made when its first call comes.
    pub(super) fn cluster_state(&mut self, cluster: &Arc<Cluster>) -> usize {
        if let Some(&index) = self.cluster_by_key.get(&cluster.key) {
            return index;
        }
        let seed = self.seed ^ self.next_random();
        let mut state = ClusterState {
            cluster: cluster.clone(),
            balancer: Balancer::new(cluster.balancer, seed),
            metrics: self.metrics.traffic(&outbound_labels(Target::Service(cluster.key.clone()))),
            endpoints: FxHashMap::default(),
            calls: 0,
            removed: false,
        };
        state.update(self.now, cluster.clone());
        let index = self.clusters.insert(state);
        self.cluster_by_key.insert(cluster.key.clone(), index);
        index
    }

    /// Chooses the endpoint of a call.
    pub(super) fn pick_endpoint(&mut self, slot: u32) -> Result<EndpointId, ProxyError> {
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
        Ok(endpoint)
    }

    /// Takes over a new mesh: clusters keep what is known of the endpoints that stay, calls under way finish.
    pub(super) fn set_mesh(&mut self, mesh: Arc<Mesh>) {
        self.mesh_version += 1;
        self.burst = true;
        let indexes: Vec<usize> =
            self.clusters.iter().filter(|(_, state)| !state.removed).map(|(index, _)| index).collect();
        for index in indexes {
            let Some(state) = self.clusters.get_mut(index) else { continue };
            let key = &state.cluster.key;
            let known = mesh.clusters().binary_search_by(|cluster| cluster.key.cmp(key));
            let gone = match known.ok().and_then(|place| mesh.clusters().get(place)) {
                Some(cluster) => state.update(self.now, cluster.clone()),
                None => {
                    state.removed = true;
                    self.cluster_by_key.remove(key);
                    state.balancer.set_endpoints(self.now, []);
                    std::mem::take(&mut state.endpoints).into_values().collect()
                }
            };
            for endpoint in gone {
                self.endpoint_gone(endpoint);
            }
            self.drop_cluster_if_unused(index);
        }
        self.mesh = mesh;
    }

    /// An endpoint has left: calls in flight there finish, calls that waited for it go elsewhere.
    fn endpoint_gone(&mut self, endpoint: EndpointState) {
        for connection in endpoint.connections {
            match self.upstreams.get_mut(connection) {
                Some(upstream) if upstream.ready => upstream.retired = true,
                _ => self.close_upstream(connection, "its endpoint has left"),
            }
        }
        for id in endpoint.waiting {
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

    pub(super) fn endpoint(&mut self, cluster: usize, endpoint: EndpointId) -> Option<&mut EndpointState> {
        self.clusters.get_mut(cluster)?.endpoints.get_mut(&endpoint)
    }
}
