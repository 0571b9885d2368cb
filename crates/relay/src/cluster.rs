//! Cluster: the state that a worker keeps for a target of calls: its endpoints, their connections, and the calls that
//! wait for a connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use leno_model::balance::{Balancer, EndpointId, Pick, Policy};
use leno_model::mesh::{Cluster, ClusterKey, Endpoint};
use leno_model::protocol::Protocol;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::accounts::Lane;
use crate::call::Call;
use crate::connections::Connections;
use crate::follow::Routes;
use crate::hop::PoolKey;
use crate::limits::{RelayLimits, ms};
use crate::metrics::{Tls, TrafficMetrics, WorkerMetrics};
use crate::reply::ProxyError;
use crate::slots::Id;
use crate::waiting::Waiting;

/// Most metrics series for the calls of one cluster.
const MAX_TRAFFIC_SERIES: usize = 1_000;

/// The target of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TargetKey {
    /// A Service's port.
    Service(ClusterKey),
    /// An address that our own application connected to: of an endpoint, or outside of the mesh.
    Address(SocketAddr),
    /// A port of our own application.
    Local(SocketAddr),
}

/// The default port of HTTP, which clients leave out of `Host` (RFC 9110 section 4.2.1).
const HTTP_PORT: u16 = 80;

impl TargetKey {
    /// Returns what a client would write in `Host`.
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

/// A cluster that calls have been sent to.
#[derive(Debug)]
pub(crate) struct ClusterState {
    pub(crate) target: TargetKey,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) balancer: Balancer,
    /// The metrics series of calls, by the TLS label of the peer. An entry without a label is only for calls that began
    /// before [`ClusterState::name_port`].
    pub(crate) traffic: Vec<(Option<Tls>, Arc<TrafficMetrics>)>,
    /// Whether metrics name the target's port, if this is a port of our own application.
    pub(crate) is_named: bool,
    pub(crate) members: FxHashMap<EndpointId, Member>,
    pub(crate) pools: FxHashMap<PoolKey, Pool>,
    /// Whether a pool may have a queue, or may have failed to connect. If not, every endpoint takes calls, and no pool
    /// needs to be asked.
    pub(crate) may_be_busy: bool,
    /// The routes that are attached to this cluster; `None` if calls go to the cluster itself.
    pub(crate) routes: Option<Box<Routes>>,
    /// Calls in flight.
    pub(crate) calls: usize,
    pub(crate) standing: Standing,
}

/// Whether the mesh still has a cluster. If not, the cluster's state is dropped when its last call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Known,
    /// The cluster was removed from the mesh: calls that wait for an endpoint fail.
    Removed,
    /// The cluster was unused for so long that the proxy no longer asks the control plane about it. Calls that arrive
    /// at the same moment are still sent.
    Forgotten,
}

/// An endpoint as the mesh knows it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) endpoint: Endpoint,
    /// Index of the metrics series of calls to the endpoint, in the cluster's `traffic`; `None` before the first call.
    pub(crate) traffic: Option<u32>,
}

/// The connections to one endpoint under one [`PoolKey`], and the calls that wait for such a connection.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The address to connect to.
    pub(crate) address: SocketAddr,
    /// Connections that take calls, or will once they are established.
    pub(crate) connections: Connections,
    /// Number of connections that are being established.
    pub(crate) connecting: usize,
    pub(crate) waiting: Waiting,
    /// The pool is in the worker's list of pools with waiting calls.
    pub(crate) listed: bool,
    /// It has been logged that calls wait here. It is logged again only after the queue has been empty.
    pub(crate) wait_is_told: bool,
    /// Number of connections that failed in a row.
    pub(crate) failures: u32,
    /// No connection is tried before this time.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) last_error: String,
}

impl Pool {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            connections: Connections::default(),
            connecting: 0,
            waiting: Waiting::default(),
            listed: false,
            wait_is_told: false,
            failures: 0,
            retry_at: None,
            last_error: String::new(),
        }
    }

    /// Returns whether a call may be sent here, or may wait here in a queue of at most `max_waiting` calls.
    fn takes_calls(&self, now: Instant, max_waiting: usize) -> bool {
        self.waiting.len() < max_waiting && !self.is_backing_off(now)
    }

    fn is_backing_off(&self, now: Instant) -> bool {
        self.connections.is_empty() && self.retry_at.is_some_and(|at| now < at)
    }

    /// Records a failed connection. The next pause is twice as long, with jitter.
    pub(crate) fn back_off(&mut self, now: Instant, why: String, random: u64, relay: &RelayLimits) {
        let pause = ms(relay.min_backoff_ms).saturating_mul(1 << self.failures.min(16)).min(ms(relay.max_backoff_ms));
        // Between half of the pause and all of it, so that proxies do not reconnect at the same time.
        let jitter = pause.mul_f64((random % 1_000) as f64 / 2_000.0);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now + pause / 2 + jitter);
        self.last_error = why;
    }
}

impl ClusterState {
    /// Replaces the cluster's endpoints and settings. Returns the pools of endpoints that were removed or changed.
    pub(crate) fn update(&mut self, now: Instant, cluster: Arc<Cluster>) -> Vec<Pool> {
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

    /// Chooses an endpoint for `call`, which uses connections of `lane`. An endpoint that did not process the call before is chosen only if no other is
    /// usable.
    pub(crate) fn pick(&mut self, now: Instant, call: &Call, lane: Lane, max_waiting: usize) -> Option<Pick> {
        if !self.may_be_busy && call.tried.is_empty() {
            return self.balancer.pick(now, |_| true);
        }
        let (members, pools) = (&self.members, &self.pools);
        let usable = |id| {
            let Some(member): Option<&Member> = members.get(&id) else { return false };
            let pool = pools.get(&call.pool_key(id, member.endpoint.proxy.as_ref(), lane));
            pool.is_none_or(|pool: &Pool| pool.takes_calls(now, max_waiting))
        };
        if call.tried.is_empty() {
            return self.balancer.pick(now, usable);
        }
        self.balancer
            .pick(now, |id| !call.tried.contains(&id) && usable(id))
            .or_else(|| self.balancer.pick(now, usable))
    }

    /// Finds out again whether a pool has a queue, or has failed to connect.
    pub(crate) fn check_pools(&mut self) {
        self.may_be_busy =
            self.may_be_busy && self.pools.values().any(|pool| !pool.waiting.is_empty() || pool.retry_at.is_some());
    }

    /// Returns the reason why no endpoint can take a call.
    pub(crate) fn why_none(&self, now: Instant, own: usize) -> ProxyError {
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

    /// Returns the index of the series for calls with this TLS label.
    pub(crate) fn traffic_place(&mut self, metrics: &WorkerMetrics, tls: Tls) -> u32 {
        // Clients beyond the limit count in one common series. For so many clients, the metrics combine the series
        // anyway.
        let tls = if self.traffic.len() < MAX_TRAFFIC_SERIES { tls } else { Tls::MutualOther };
        let place = self.traffic.iter().position(|(of, _)| of.as_ref() == Some(&tls)).unwrap_or_else(|| {
            let series = metrics.traffic(&self.traffic_labels(tls.clone()));
            self.traffic.push((Some(tls), series));
            self.traffic.len() - 1
        });
        place as u32
    }

    /// Makes metrics name the port: calls that begin from now on count under its number.
    pub(crate) fn name_port(&mut self) {
        self.is_named = true;
        self.traffic.iter_mut().for_each(|(of, _)| *of = None);
    }

    /// Returns the series at an index that [`ClusterState::traffic_place`] returned.
    pub(crate) fn traffic(&self, place: u32) -> Option<&TrafficMetrics> {
        self.traffic.get(place as usize).map(|(_, series)| &**series)
    }

    /// Returns an endpoint as the mesh knows it.
    pub(crate) fn member(&self, endpoint: EndpointId) -> Option<&Endpoint> {
        self.members.get(&endpoint).map(|member| &member.endpoint)
    }

    /// Returns the pools of an endpoint.
    pub(crate) fn pools_of(&self, endpoint: EndpointId) -> impl Iterator<Item = &Pool> {
        self.pools.iter().filter(move |(key, _)| key.endpoint == endpoint).map(|(_, pool)| pool)
    }

    /// Returns whether the state can be dropped: there are no calls and no connections.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls == 0 && self.pools.values().all(|pool| pool.connections.is_empty() && pool.waiting.is_empty())
    }
}

/// Creates the cluster of an address that belongs to no Service. `known` is the endpoint at the address, with its
/// cluster, if the mesh has one.
pub(crate) fn single(address: SocketAddr, known: Option<(&Cluster, &Endpoint)>) -> Arc<Cluster> {
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

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
