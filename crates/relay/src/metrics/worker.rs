//! The metrics of one worker thread.

use std::hash::Hash;
use std::sync::Arc;

use leno_model::mesh::ClusterKey;

use super::endpoints::EndpointMetrics;
use super::inbound::Ports;
use super::keyed::CountByKey;
use super::labels::{AuthorizationLabels, ConnectionLabels, Direction, PeerLabel, TrafficLabels};
use super::method::{MethodLabels, MethodMetrics};
use super::route::{OTHER, RouteLabels, RouteMetrics};
use super::series::SeriesTable;
use super::{AuthorizationMetrics, Counter, Gauge, TcpMetrics, TrafficMetrics};

/// Maximum number of series about outbound traffic, for each kind of series. The values of their labels are names from
/// the configuration.
const MAX_OUTBOUND_SERIES: usize = 10_000;

/// Maximum number of series about inbound traffic, for each kind of series. Each client with an identity has a series
/// for each port that it calls. The series of all kinds together take about 6 MiB of a scrape.
const MAX_INBOUND_SERIES: usize = 500;

/// Maximum number of methods of our own application with series of their own.
const MAX_INBOUND_METHODS: usize = 500;

/// Maximum number of methods of other workloads with series of their own. With all of them, the worker's series about
/// methods take less than 2 MiB of memory.
const MAX_OUTBOUND_METHODS: usize = 1_000;

/// Maximum number of kinds of abuse, and of reasons of errors and of failures, that the metrics distinguish.
const MAX_REASONS: usize = 96;

/// Counts by reason. The code has a fixed set of reasons.
pub(super) type CountByReason = CountByKey<&'static str, MAX_REASONS>;

/// Counts by direction and by reason. The code has a fixed set of reasons.
pub(super) type CountBySideAndReason = CountByKey<(Direction, &'static str), MAX_REASONS>;

/// All numbers of one worker. Only that worker writes them.
#[derive(Debug)]
pub struct WorkerMetrics {
    /// Number of calls that the client cancelled or abandoned.
    pub cancelled_total: Counter,
    /// Number of calls and attempts that the proxy ended because they exceeded their time limit.
    pub deadline_exceeded_total: Counter,
    /// Number of calls sent to another connection, because the first connection refused them or was closed before it
    /// answered them.
    pub resent_total: Counter,
    /// Number of calls refused because a queue was full.
    pub queue_full_total: Counter,
    /// Number of calls that had to wait for a connection to their endpoint, or for a free stream on one.
    pub waited_total: Counter,
    /// Number of calls that wait now. The relay updates it ten times a second.
    pub waiting_calls: Gauge,
    /// Number of clients that reached their limit of open streams, and so had to delay further calls.
    pub full_clients_total: Counter,
    /// Number of copies of requests sent to mirrors.
    pub mirrored_total: Counter,
    /// Number of copies of requests that were aborted or not sent, because a limit was reached or their endpoint had
    /// failed.
    pub mirrors_dropped_total: Counter,
    /// Number of lines that are missing in the access log, because its writer did not keep up or could not write them.
    pub access_log_dropped_total: Counter,
    /// Number of bytes that peers cause the worker to hold now, as its memory budget counts them.
    pub held_bytes: Gauge,
    pub(super) abuse: CountByReason,
    pub(super) audited: CountByReason,
    pub(super) proxy_errors: CountBySideAndReason,
    pub(super) failed_connections: CountBySideAndReason,
    pub(super) traffic: BySide<TrafficLabels, TrafficMetrics, Ports>,
    pub(super) connections: BySide<ConnectionLabels, TcpMetrics>,
    pub(super) authorizations: SeriesTable<AuthorizationLabels, AuthorizationMetrics>,
    pub(super) methods: BySide<MethodLabels, MethodMetrics>,
    pub(super) routes: SeriesTable<RouteLabels, RouteMetrics>,
    pub(super) retry_budgets: SeriesTable<ClusterKey, Gauge>,
    pub(super) endpoints: SeriesTable<ClusterKey, EndpointMetrics>,
}

impl WorkerMetrics {
    /// Creates the metrics of a new worker.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            cancelled_total: Counter::default(),
            deadline_exceeded_total: Counter::default(),
            resent_total: Counter::default(),
            queue_full_total: Counter::default(),
            waited_total: Counter::default(),
            waiting_calls: Gauge::default(),
            full_clients_total: Counter::default(),
            mirrored_total: Counter::default(),
            mirrors_dropped_total: Counter::default(),
            access_log_dropped_total: Counter::default(),
            held_bytes: Gauge::default(),
            abuse: CountByKey::default(),
            audited: CountByKey::default(),
            proxy_errors: CountByKey::default(),
            failed_connections: CountByKey::default(),
            traffic: BySide {
                inbound: SeriesTable::with_rest(MAX_INBOUND_SERIES, Ports::add_ended),
                outbound: SeriesTable::with_rest(MAX_OUTBOUND_SERIES, Ports::add_ended),
            },
            connections: BySide::new(),
            authorizations: SeriesTable::new(MAX_INBOUND_SERIES),
            methods: BySide::with_limits(MAX_INBOUND_METHODS, MAX_OUTBOUND_METHODS),
            routes: SeriesTable::new(MAX_OUTBOUND_SERIES),
            retry_budgets: SeriesTable::new(MAX_OUTBOUND_SERIES),
            endpoints: SeriesTable::new(MAX_OUTBOUND_SERIES),
        })
    }

    /// Returns the metrics of calls with these labels. Fetch the handle when the identity of a connection's peer is
    /// known, or when a cluster gets its first call. Keep it: the table drops a series after a while if no handle to it
    /// exists.
    pub fn traffic(&self, labels: &TrafficLabels) -> Arc<TrafficMetrics> {
        self.traffic.of(labels.direction).get(labels, TrafficLabels::beyond_limit)
    }

    /// Returns the metrics of connections with these labels. The caller keeps the handle, as for
    /// [`WorkerMetrics::traffic`].
    pub fn connections(&self, labels: &ConnectionLabels) -> Arc<TcpMetrics> {
        self.connections.of(labels.traffic.direction).get(labels, ConnectionLabels::beyond_limit)
    }

    /// Returns the number of open connections with this kind of peer.
    pub fn open_connections(&self, direction: Direction, peer: PeerLabel) -> u64 {
        let connections = self.connections.of(direction);
        connections.sum(|labels, tcp| if labels.peer == peer { tcp.open_connections.get() } else { 0 })
    }

    /// Returns the number of connections opened so far with this kind of peer. Does not include connections of series
    /// that have ended.
    pub fn opened_connections(&self, direction: Direction, peer: PeerLabel) -> u64 {
        let connections = self.connections.of(direction);
        connections.sum(|labels, tcp| if labels.peer == peer { tcp.open_total.get() } else { 0 })
    }

    /// Returns the metrics of policy decisions with these labels. The caller keeps the handle, as for
    /// [`WorkerMetrics::traffic`].
    pub fn authorizations(&self, labels: &AuthorizationLabels) -> Arc<AuthorizationMetrics> {
        self.authorizations.get(labels, AuthorizationLabels::beyond_limit)
    }

    /// Returns the metrics of calls of a method. The caller keeps the handle, as for [`WorkerMetrics::traffic`].
    pub fn method(&self, labels: &MethodLabels) -> Arc<MethodMetrics> {
        self.methods.of(labels.of.direction).get(labels, MethodLabels::beyond_limit)
    }

    /// Returns the number of calls that the metrics of methods count as begun and not ended, over all methods.
    pub fn calls_in_methods(&self) -> i64 {
        let sum = |table: &SeriesTable<MethodLabels, MethodMetrics>| {
            // In two's complement, the wrapping sum of all series is right, although the number of a single series may
            // be negative.
            table.sum(|_, series| series.in_flight().cast_unsigned()).cast_signed()
        };
        sum(&self.methods.inbound) + sum(&self.methods.outbound)
    }

    /// Returns the metrics of requests that matched a route. The caller keeps the handle, as for
    /// [`WorkerMetrics::traffic`].
    pub fn route(&self, labels: &RouteLabels) -> Arc<RouteMetrics> {
        self.routes.get(labels, RouteLabels::beyond_limit)
    }

    /// Returns the gauge of the retries that are left in the retry budget of a Service's port. The caller keeps the
    /// handle, as for [`WorkerMetrics::traffic`].
    pub fn retry_budget(&self, cluster: &ClusterKey) -> Arc<Gauge> {
        self.retry_budgets.get(cluster, other_service)
    }

    /// Returns the metrics of the endpoints of a Service's port. The caller keeps the handle, as for
    /// [`WorkerMetrics::traffic`].
    pub fn endpoints(&self, cluster: &ClusterKey) -> Arc<EndpointMetrics> {
        self.endpoints.get(cluster, other_service)
    }

    /// Counts a connection or a call that the proxy ended for abuse. `kind` names the attack and becomes a label.
    pub fn count_abuse(&self, kind: &'static str) {
        self.abuse.count(kind);
    }

    /// Counts a call to which the proxy would have applied a policy setting, if the setting were not in mode Audit.
    /// `would` names the action that the proxy would have taken, and becomes a label.
    pub fn count_audited(&self, would: &'static str) {
        self.audited.count(would);
    }

    /// Returns how often [`WorkerMetrics::count_audited`] counted `would`.
    pub fn audited_count(&self, would: &str) -> u64 {
        self.audited.counts().filter(|(counted, _)| *counted == would).map(|(_, count)| count).sum()
    }

    /// Returns how often [`WorkerMetrics::count_abuse`] counted `kind`.
    pub fn abuse_count(&self, kind: &str) -> u64 {
        self.abuse.counts().filter(|(counted, _)| *counted == kind).map(|(_, count)| count).sum()
    }

    /// Counts an error response of the proxy itself. `why` is the value of `leno-proxy-error`, and becomes a label.
    pub fn count_proxy_error(&self, direction: Direction, why: &'static str) {
        self.proxy_errors.count((direction, why));
    }

    /// Counts a connection that failed, or that the proxy rejected or ended. `why` becomes a label.
    pub fn count_failed_connection(&self, direction: Direction, why: &'static str) {
        self.failed_connections.count((direction, why));
    }

    /// Returns the number of failed connections of one kind.
    pub fn failed_connection_count(&self, direction: Direction, why: &'static str) -> u64 {
        self.failed_connections.get((direction, why))
    }
}

/// Returns the labels of the series that counts all Services beyond the limit on series.
fn other_service(_: &ClusterKey) -> ClusterKey {
    ClusterKey { namespace: OTHER.into(), service: OTHER.into(), port: 0 }
}

/// Two tables of series, for inbound and for outbound traffic. So outside clients cannot use up the series of our own
/// application's outbound traffic.
#[derive(Debug)]
pub(super) struct BySide<L, M, R = ()> {
    inbound: SeriesTable<L, M, R>,
    outbound: SeriesTable<L, M, R>,
}

impl<L: Clone + Eq + Hash, M: Default> BySide<L, M> {
    fn new() -> Self {
        Self::with_limits(MAX_INBOUND_SERIES, MAX_OUTBOUND_SERIES)
    }

    fn with_limits(inbound: usize, outbound: usize) -> Self {
        Self { inbound: SeriesTable::new(inbound), outbound: SeriesTable::new(outbound) }
    }
}

impl<L, M, R> BySide<L, M, R> {
    fn of(&self, direction: Direction) -> &SeriesTable<L, M, R> {
        match direction {
            Direction::Inbound => &self.inbound,
            Direction::Outbound => &self.outbound,
        }
    }

    /// Returns the tables of both directions.
    pub(super) fn both(&self) -> [&SeriesTable<L, M, R>; 2] {
        [&self.inbound, &self.outbound]
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
