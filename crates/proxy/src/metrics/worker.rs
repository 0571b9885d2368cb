//! What one worker thread counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leno_model::mesh::ClusterKey;

use super::keyed::CountByKey;
use super::{ClusterMetrics, Counter, Gauge};

/// Most clusters that have numbers of their own; calls to others count as unknown.
const MAX_CLUSTERS: usize = 10_000;

/// Most kinds of abuse, and most reasons of the proxy's own errors, that are told apart.
const MAX_REASONS: usize = 48;

/// Counts by a reason that the code names.
pub(super) type CountByReason = CountByKey<&'static str, MAX_REASONS>;

/// Connections of one side.
#[derive(Debug, Default)]
pub struct TcpMetrics {
    /// Connections opened so far.
    pub open_total: Counter,
    /// Connections open now.
    pub open_connections: Gauge,
    /// Connections closed so far.
    pub close_total: Counter,
    /// Bytes read from the peers.
    pub read_bytes_total: Counter,
    /// Bytes written to the peers.
    pub write_bytes_total: Counter,
}

impl TcpMetrics {
    /// Counts a connection that opened.
    pub fn opened(&self) {
        self.open_total.add(1);
        self.open_connections.inc();
    }

    /// Counts a connection that closed.
    pub fn closed(&self) {
        self.close_total.add(1);
        self.open_connections.dec();
    }
}

/// All numbers of one worker. Only that worker writes them.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    /// Connections from clients.
    pub downstream: TcpMetrics,
    /// Connections to endpoints.
    pub upstream: TcpMetrics,
    /// Calls that the client cancelled or left.
    pub cancelled_total: Counter,
    /// Calls that the proxy ended because their deadline passed.
    pub deadline_exceeded_total: Counter,
    /// Calls sent to another connection, because the first refused them or went away before taking them.
    pub resent_total: Counter,
    /// Calls refused because a queue was full.
    pub queue_full_total: Counter,
    pub(super) abuse: CountByReason,
    pub(super) proxy_errors: CountByReason,
    unknown: Arc<ClusterMetrics>,
    /// Locked when a cluster is first seen and when somebody scrapes, never for a call.
    clusters: Mutex<HashMap<ClusterKey, Arc<ClusterMetrics>>>,
}

impl WorkerMetrics {
    /// Numbers for a worker that starts.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The numbers of one cluster. Keep them for as long as the cluster exists: once nobody holds them they
    /// are exported one last time and forgotten.
    pub fn cluster(&self, key: &ClusterKey) -> Arc<ClusterMetrics> {
        let mut clusters = self.lock_clusters();
        if let Some(cluster) = clusters.get(key) {
            return cluster.clone();
        }
        if clusters.len() >= MAX_CLUSTERS {
            clusters.retain(|_, cluster| is_held(cluster));
        }
        if clusters.len() >= MAX_CLUSTERS {
            return self.unknown();
        }
        clusters.entry(key.clone()).or_default().clone()
    }

    /// The numbers of the calls that belong to no cluster.
    pub fn unknown(&self) -> Arc<ClusterMetrics> {
        self.unknown.clone()
    }

    /// Counts a connection or a call ended for abuse. `kind` names the attack and becomes a label.
    pub fn count_abuse(&self, kind: &'static str) {
        self.abuse.count(kind);
    }

    /// How often [`WorkerMetrics::count_abuse`] counted `kind`.
    pub fn abuse_count(&self, kind: &str) -> u64 {
        self.abuse.counts().filter(|(counted, _)| *counted == kind).map(|(_, count)| count).sum()
    }

    /// Counts an error that the proxy itself answered. `why` is what `leno-proxy-error` says and becomes a label.
    pub fn count_proxy_error(&self, why: &'static str) {
        self.proxy_errors.count(why);
    }

    /// Every cluster's numbers, for an export; those that nobody holds any more are forgotten after it.
    pub(super) fn take_clusters(&self) -> Vec<(ClusterKey, Arc<ClusterMetrics>)> {
        let mut clusters = self.lock_clusters();
        let (held, left): (HashMap<_, _>, HashMap<_, _>) = clusters.drain().partition(|(_, cluster)| is_held(cluster));
        *clusters = held;
        clusters.iter().map(|(key, cluster)| (key.clone(), cluster.clone())).chain(left).collect()
    }

    fn lock_clusters(&self) -> MutexGuard<'_, HashMap<ClusterKey, Arc<ClusterMetrics>>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_held(cluster: &Arc<ClusterMetrics>) -> bool {
    Arc::strong_count(cluster) > 1
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
