//! Cluster: what a worker keeps of a target of calls: its endpoints, their connections, the calls that wait for one.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use leno_model::balance::{Balancer, EndpointId, Pick, Policy};
use leno_model::mesh::{Cluster, ClusterKey, Endpoint};
use leno_model::protocol::Protocol;
use rustc_hash::{FxHashMap, FxHashSet};

use super::call::Call;
use super::connections::Connections;
use super::follow::Routes;
use super::hop::PoolKey;
use super::reply::ProxyError;
use super::waiting::Waiting;
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

/// The port that a `Host` leaves out (RFC 9110 section 4.2.1).
const HTTP_PORT: u16 = 80;

impl TargetKey {
    /// What a client would write in `Host`.
    pub(super) fn host(&self) -> String {
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

/// A cluster that calls have been sent to.
#[derive(Debug)]
pub(super) struct ClusterState {
    pub(super) target: TargetKey,
    pub(super) cluster: Arc<Cluster>,
    pub(super) balancer: Balancer,
    /// Where calls count, by who is at the other end. Without one, only calls that have begun count there.
    pub(super) traffic: Vec<(Option<Tls>, Arc<TrafficMetrics>)>,
    /// Whether its port is named in metrics, if it is one of the application beside us.
    pub(super) is_named: bool,
    pub(super) members: FxHashMap<EndpointId, Member>,
    pub(super) pools: FxHashMap<PoolKey, Pool>,
    /// What calls follow that are for this cluster; none if they go to the cluster itself.
    pub(super) routes: Option<Box<Routes>>,
    /// Calls in flight.
    pub(super) calls: usize,
    pub(super) standing: Standing,
}

/// Whether the mesh still knows a cluster. One that it does not know any more goes with its last call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Known,
    /// It is not there any more: calls that waited for an endpoint fail.
    Removed,
    /// It was left alone for so long that the control plane is not asked about it any more. Calls that came in the same moment
    /// are sent as if nothing had happened.
    Forgotten,
}

/// An endpoint as the mesh knows it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) endpoint: Endpoint,
    /// Where calls to it count, once there was one: a place in the cluster's `traffic`.
    pub(super) traffic: Option<u32>,
}

/// Connections to one endpoint that calls can share, and the calls that wait for one.
#[derive(Debug)]
pub(super) struct Pool {
    /// Where to connect.
    pub(super) address: SocketAddr,
    /// Connections that take calls, or will.
    pub(super) connections: Connections,
    /// How many of them are being established.
    pub(super) connecting: usize,
    pub(super) waiting: Waiting,
    /// It stands in the worker's list of endpoints that calls wait for.
    pub(super) listed: bool,
    /// It was said that calls wait here; said again only once none did.
    pub(super) wait_is_told: bool,
    /// Connections that failed in a row.
    pub(super) failures: u32,
    /// No connection is tried before.
    pub(super) retry_at: Option<Instant>,
    pub(super) last_error: String,
}

impl Pool {
    pub(super) fn new(address: SocketAddr) -> Self {
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
    pub(super) fn update(&mut self, now: Instant, cluster: Arc<Cluster>) -> Vec<Pool> {
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
    pub(super) fn pick(&mut self, now: Instant, call: &Call, max_waiting: usize) -> Option<Pick> {
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
    pub(super) fn why_none(&self, now: Instant, own: usize) -> ProxyError {
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
        let place = self.traffic.iter().position(|(of, _)| of.as_ref() == Some(&tls)).unwrap_or_else(|| {
            let series = metrics.traffic(&self.traffic_labels(tls.clone()));
            self.traffic.push((Some(tls), series));
            self.traffic.len() - 1
        });
        place as u32
    }

    /// From now on its port is named: calls that begin count under its number.
    pub(super) fn name_port(&mut self) {
        self.is_named = true;
        self.traffic.iter_mut().for_each(|(of, _)| *of = None);
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
    pub(super) fn is_idle(&self) -> bool {
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

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
