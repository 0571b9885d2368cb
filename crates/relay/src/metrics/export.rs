//! The relays' metrics in the form that Prometheus reads.
//!
//! The names and labels of requests and connections are Linkerd's, so that Linkerd's dashboards work; names that start
//! with `leno_` are our own. The text is OpenMetrics 1.0, in which a counter `request` has samples `request_total`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use leno_model::mesh::ClusterKey;
use prometheus_client::encoding::DescriptorEncoder;

use super::authorization::AuthorizationTotals;
use super::endpoints::EndpointScrape;
use super::exemplars::ExemplarLines;
use super::inbound::{self, Ports};
use super::keyed::CountByKey;
use super::labels::Labels;
use super::method::MethodScrape;
use super::route::RouteScrape;
use super::series::{Part, take_current, take_sums};
use super::tcp::TcpTotals;
use super::text::{counter, encode_count, encode_counters, encode_gauges, encode_histograms, gauge};
use super::traffic::{ResponseKind, TrafficTotals};
use super::worker::CountBySideAndReason;
use super::{
    AuthorizationLabels, AuthorizationMetrics, Class, ConnectionLabels, Counter, Direction, MethodLabels, RouteLabels,
    TcpMetrics, TrafficLabels, TrafficMetrics, WorkerMetrics,
};

type TcpCounter = (&'static str, &'static str, fn(&TcpTotals) -> u64);
type DecisionCounter = (&'static str, &'static str, fn(&AuthorizationTotals) -> u64);
type WorkerCounter = (&'static str, &'static str, fn(&WorkerMetrics) -> &Counter);
type ReasonCounter = (&'static str, &'static str, fn(&WorkerMetrics) -> &CountBySideAndReason);

const TCP_COUNTERS: [TcpCounter; 3] = [
    ("tcp_open", "Connections opened", |tcp| tcp.open_total),
    ("tcp_read_bytes", "Bytes read from peers", |tcp| tcp.read_bytes_total),
    ("tcp_write_bytes", "Bytes written to peers", |tcp| tcp.write_bytes_total),
];

const DECISION_COUNTERS: [DecisionCounter; 6] = [
    ("inbound_http_authz_allow", "Requests that policy let through", |totals| totals.http.let_through()),
    ("inbound_http_authz_deny", "Requests that policy turned away", |totals| totals.http.denied),
    ("inbound_tcp_authz_allow", "Connections that policy let through", |totals| totals.tcp.let_through()),
    ("inbound_tcp_authz_deny", "Connections that policy turned away", |totals| totals.tcp.denied),
    ("leno_http_audited", "Requests let through only because policy audits", |totals| totals.http.audited),
    ("leno_tcp_audited", "Connections let through only because policy audits", |totals| totals.tcp.audited),
];

const WORKER_COUNTERS: [WorkerCounter; 9] = [
    ("leno_cancelled", "Calls that the client cancelled or left", |worker| &worker.cancelled_total),
    ("leno_deadline_exceeded", "Calls and attempts ended by the proxy because their time was over", |worker| {
        &worker.deadline_exceeded_total
    }),
    ("leno_resent", "Calls sent elsewhere because they were refused unprocessed", |worker| &worker.resent_total),
    ("leno_queue_full", "Calls refused because a queue was full", |worker| &worker.queue_full_total),
    ("leno_waited", "Calls that had to wait for a connection or a stream", |worker| &worker.waited_total),
    ("leno_clients_full", "Clients that reached max_concurrent_streams", |worker| &worker.full_clients_total),
    ("leno_mirrored", "Copies of requests sent to mirrors", |worker| &worker.mirrored_total),
    ("leno_mirrors_dropped", "Copies of requests given up, or not sent", |worker| &worker.mirrors_dropped_total),
    ("leno_access_log_dropped", "Lines that the access log's writer had no room for, or could not write", |worker| {
        &worker.access_log_dropped_total
    }),
];

const REASON_COUNTERS: [ReasonCounter; 2] = [
    ("leno_proxy_errors", "Errors answered by the proxy itself, by reason", |worker| &worker.proxy_errors),
    ("leno_connections_failed", "Connections that failed or were turned away, by reason", |worker| {
        &worker.failed_connections
    }),
];

/// Connections that the proxy itself could not serve, under Linkerd's names. As in Linkerd, a rejection by a policy
/// counts as a decision (`inbound_tcp_authz_deny`), and not as an error.
const TCP_ERRORS: [(Direction, &str, &str); 2] = [
    (Direction::Inbound, "inbound_tcp_errors", "Connections of callers that failed or were turned away, by reason"),
    (Direction::Outbound, "outbound_tcp_errors", "Connections to endpoints that failed, by reason"),
];

/// The failure reasons of connections that a policy rejected or ended.
const DECIDED_BY_POLICY: [&str; 2] = ["denied", "withdrawn"];

/// The metrics of all workers' relays in one scrape.
#[derive(Debug)]
pub struct RelayScrape {
    workers: Vec<Arc<WorkerMetrics>>,
    traffic: Vec<(Labels, TrafficTotals)>,
    /// The inbound calls counted in series that have ended. `traffic` no longer contains these calls.
    ended_callers: Vec<Ports>,
    connections: Vec<(Labels, TcpTotals)>,
    authorizations: Vec<(Labels, AuthorizationTotals)>,
    methods: MethodScrape,
    routes: RouteScrape,
    retry_budgets: BTreeMap<ClusterKey, u64>,
    endpoints: EndpointScrape,
}

impl RelayScrape {
    /// Sums the workers' metrics.
    pub fn new(workers: &[Arc<WorkerMetrics>], now: Instant) -> Self {
        let of_all = workers.iter();
        let traffic = of_all.clone().flat_map(|worker| worker.traffic.both());
        let (traffic, ended_callers) = take_sums(traffic, TrafficLabels::clone, now);
        let connections = of_all.clone().flat_map(|worker| worker.connections.both());
        let (connections, _) = take_sums(connections, ConnectionLabels::clone, now);
        let authorizations = of_all.clone().map(|worker| &worker.authorizations);
        let (authorizations, _) = take_sums(authorizations, AuthorizationLabels::clone, now);
        let methods = of_all.clone().flat_map(|worker| worker.methods.both());
        let (methods, _) = take_sums(methods, MethodLabels::clone, now);
        let routes = of_all.clone().map(|worker| &worker.routes);
        let (routes, _) = take_sums(routes, RouteLabels::of_route, now);
        let mut budgets = BTreeMap::<ClusterKey, u64>::new();
        for (cluster, left) in take_current(of_all.clone().map(|worker| &worker.retry_budgets), now) {
            *budgets.entry(cluster).or_default() += left.get();
        }
        Self {
            workers: workers.to_vec(),
            traffic: sum(traffic, TrafficLabels::labels, TrafficMetrics::add_to),
            ended_callers,
            connections: sum(connections, ConnectionLabels::labels, TcpMetrics::add_to),
            authorizations: sum(authorizations, AuthorizationLabels::labels, AuthorizationMetrics::add_to),
            methods: MethodScrape::new(methods),
            routes: RouteScrape::new(routes),
            retry_budgets: budgets,
            endpoints: EndpointScrape::new(take_current(of_all.map(|worker| &worker.endpoints), now)),
        }
    }

    /// Returns the exemplars for the histograms of call durations by method, to be added to the text of
    /// [`RelayScrape::encode`].
    pub fn exemplars(&self) -> ExemplarLines {
        self.methods.exemplars()
    }

    /// Writes the metrics.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        self.encode_requests(encoder)?;
        inbound::encode(&self.traffic, &self.ended_callers, encoder)?;
        self.methods.encode(encoder)?;
        self.routes.encode(encoder)?;
        self.encode_retry_budgets(encoder)?;
        self.endpoints.encode(encoder)?;
        self.encode_connections(encoder)?;
        self.encode_workers(encoder)?;
        let held_bytes: u64 = self.workers.iter().map(|worker| worker.held_bytes.get()).sum();
        gauge(encoder, "leno_held_bytes", "Memory that peers make the workers hold")?.encode_gauge(&held_bytes)?;
        let faults = counter(encoder, "leno_faults", "Faults of the proxy itself, which its log names")?;
        encode_count(faults, crate::certain::faults())
    }

    fn encode_requests(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        encode_counters(encoder, "request", "Calls that began", &self.traffic, |totals| totals.requests)?;
        let mut responses = counter(encoder, "response", "Calls answered")?;
        for (labels, totals) in &self.traffic {
            for (kind, count) in &totals.responses {
                encode_count(responses.encode_family(&(labels.clone(), response_labels(*kind)))?, *count)?;
            }
            for (class, count) in [
                (Class::Success, totals.other_successes),
                (Class::Failure, totals.other_failures),
                (Class::Denied, totals.other_denied),
            ] {
                if count > 0 {
                    let others = (labels.clone(), [("classification", class.label()), ("status_code", "other")]);
                    encode_count(responses.encode_family(&others)?, count)?;
                }
            }
        }
        let help = "Milliseconds from a call's headers to its response's end";
        encode_histograms(encoder, "response_latency_ms", help, &self.traffic, |totals| &totals.latency)?;
        encode_gauges(encoder, "leno_requests_in_flight", "Calls not ended yet", &self.traffic, |totals| {
            totals.in_flight
        })
    }

    fn encode_retry_budgets(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Retries and hedges that the calls to a Service have left now";
        let mut metric = gauge(encoder, "leno_retry_budget_left", help)?;
        self.retry_budgets.iter().try_for_each(|(cluster, left)| {
            metric.encode_family(&RouteLabels::service_labels(cluster))?.encode_gauge(left)
        })
    }

    fn encode_connections(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        for (name, help, get) in TCP_COUNTERS {
            encode_counters(encoder, name, help, &self.connections, get)?;
        }
        let mut closed = counter(encoder, "tcp_close", "Connections closed, by the error that ended them")?;
        for (labels, totals) in &self.connections {
            for (errno, count) in totals.closed_by_errno() {
                // Prometheus treats an empty label like a missing label, so an empty label would only make the text
                // longer.
                let errno = Some(("errno", errno)).filter(|_| !errno.is_empty());
                encode_count(closed.encode_family(&(labels.clone(), Vec::from_iter(errno)))?, count)?;
            }
        }
        let (name, help) = ("tcp_open_connections", "Connections open now");
        encode_gauges(encoder, name, help, &self.connections, |totals| totals.open_connections)?;
        let (name, help) = ("tcp_connection_duration_ms", "Milliseconds that closed connections were open");
        encode_histograms(encoder, name, help, &self.connections, |totals| &totals.durations)?;
        for (name, help, get) in DECISION_COUNTERS {
            encode_counters(encoder, name, help, &self.authorizations, get)?;
        }
        Ok(())
    }

    fn encode_workers(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        for (name, help, get) in WORKER_COUNTERS {
            encode_count(counter(encoder, name, help)?, self.workers.iter().map(|worker| get(worker).get()).sum())?;
        }
        let waiting: u64 = self.workers.iter().map(|worker| worker.waiting_calls.get()).sum();
        gauge(encoder, "leno_waiting_calls", "Calls that wait for a connection or a stream now")?
            .encode_gauge(&waiting)?;
        let help = "Calls on which a policy in the mode Audit would have acted, by what the proxy would have done";
        let mut audited = counter(encoder, "leno_audited", help)?;
        let (would, others) = sum_by_key(self.workers.iter().map(|worker| &worker.audited));
        for (would, count) in would.into_iter().chain(others.map(|count| ("other", count))) {
            encode_count(audited.encode_family(&[("would", would)])?, count)?;
        }
        let mut abuse = counter(encoder, "leno_abuse_closed", "Connections and calls ended for abuse, by kind")?;
        let (kinds, others) = sum_by_key(self.workers.iter().map(|worker| &worker.abuse));
        for (kind, count) in kinds.into_iter().chain(others.map(|count| ("other", count))) {
            encode_count(abuse.encode_family(&[("kind", kind)])?, count)?;
        }
        for (name, help, get) in REASON_COUNTERS {
            let mut metric = counter(encoder, name, help)?;
            let (reasons, others) = sum_by_key(self.workers.iter().map(|worker| get(worker)));
            let reasons = reasons.into_iter().map(|((direction, why), count)| (direction.label(), why, count));
            for (direction, why, count) in reasons.chain(others.map(|count| ("other", "other", count))) {
                encode_count(metric.encode_family(&[("direction", direction), ("why", why)])?, count)?;
            }
        }
        self.encode_tcp_errors(encoder)
    }

    fn encode_tcp_errors(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let (reasons, _) = sum_by_key(self.workers.iter().map(|worker| &worker.failed_connections));
        for (direction, name, help) in TCP_ERRORS {
            let mut metric = counter(encoder, name, help)?;
            let own = reasons.iter().filter(|((of, why), _)| *of == direction && !DECIDED_BY_POLICY.contains(why));
            for ((_, why), count) in own {
                encode_count(metric.encode_family(&[("error", *why)])?, *count)?;
            }
        }
        Ok(())
    }
}

/// Sums the workers' series with equal labels, and sorts them.
fn sum<L: Ord, M, T: Default>(
    parts: Vec<Part<L, M>>,
    name: impl Fn(&L) -> Labels,
    add: impl Fn(&M, &mut T),
) -> Vec<(Labels, T)> {
    let mut totals = BTreeMap::<L, T>::new();
    for Part { labels, metrics, .. } in parts {
        add(&metrics, totals.entry(labels).or_default());
    }
    totals.into_iter().map(|(labels, totals)| (name(&labels), totals)).collect()
}

/// Returns the count of each key, summed over the tables. Also returns the count of all keys without a counter of their
/// own; `None` if this count is 0.
fn sum_by_key<'a, K: Copy + Ord + 'a, const N: usize>(
    tables: impl Iterator<Item = &'a CountByKey<K, N>>,
) -> (BTreeMap<K, u64>, Option<u64>) {
    let (mut totals, mut others) = (BTreeMap::new(), 0);
    for table in tables {
        for (key, count) in table.counts() {
            *totals.entry(key).or_default() += count;
        }
        others += table.others();
    }
    (totals, Some(others).filter(|count| *count > 0))
}

fn response_labels(kind: ResponseKind) -> Labels {
    let grpc_status = kind.grpc_status.map(|status| status.to_string()).unwrap_or_default();
    vec![
        ("classification", kind.class.label().to_owned()),
        ("status_code", kind.http_status.to_string()),
        ("grpc_status", grpc_status),
    ]
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
