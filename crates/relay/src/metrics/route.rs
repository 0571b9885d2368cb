//! Counts of requests and connections that matched a route, under the names and labels of Linkerd's outbound routes.
//!
//! The series count the requests to each backend, the outcomes of requests and of attempts, and the durations of
//! requests and of attempts. Linkerd's command `viz stat-outbound` queries these series.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use leno_model::mesh::ClusterKey;
use leno_model::route::{RouteKind, RouteName};
use leno_model::traffic::GrpcCodes;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;

use super::histogram::{Histogram, HistogramTotals};
use super::keyed::{CountByKey, Unkeyed};
use super::labels::Labels;
use super::series::Part;
use super::skipped::{self, Skipped, SkippedTotals, reason};
use super::text::{counter, encode_count, encode_seconds};
use super::{Class, Counter};
use crate::call::record::{is_failure, is_without_destination};

/// Maximum number of kinds of outcome that one series distinguishes.
const OUTCOMES: usize = 24;

/// Inclusive upper bounds of the buckets for the durations of requests, in milliseconds. They are Linkerd's.
const REQUEST_BOUNDS_MS: [u32; 4] = [50, 500, 1_000, 10_000];

/// Inclusive upper bounds of the buckets for the durations of responses, in milliseconds. They are Linkerd's.
const RESPONSE_BOUNDS_MS: [u32; 7] = [25, 50, 100, 250, 500, 1_000, 10_000];

/// Suffixes of the metrics' names, and the metrics' help texts. The first four belong to
/// [`RouteMetrics::retry_counts`] and have Linkerd's names. The others belong to [`RouteMetrics::hedge_counts`].
const RETRIES: [(&str, &str); 8] = [
    ("retry_requests", "Requests that a route sent again"),
    ("retry_successes", "Requests that a route sent again, and that then did not fail"),
    ("retry_limit_exceeded", "Requests that failed after they had used all their retries"),
    ("retry_overflow", "Requests that were not sent again because the retry budget was spent"),
    ("hedge_requests", "Further attempts at requests that were not answered in time"),
    ("hedge_successes", "Requests that a further attempt answered before the first one"),
    ("hedge_overflow", "Further attempts that were not made because the retry budget was spent"),
    ("hedge_loaded", "Further attempts that were not made because the Service was loaded"),
];

/// Label value that replaces all names once the limit on series is reached.
pub(super) const OTHER: &str = "other";

/// The labels of a series about routes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteLabels {
    /// The Service that the route is attached to, and its port.
    pub parent: ClusterKey,
    pub route: RouteName,
    /// The chosen backend; `None` for a request that was answered without a backend.
    pub backend: Option<ClusterKey>,
}

/// One worker's counts of requests with the same [`RouteLabels`].
#[derive(Debug, Default)]
pub struct RouteMetrics {
    /// Number of requests that matched the route and for which the backend was chosen. In a series without a backend:
    /// number of requests that matched the route and that the proxy answered itself.
    pub requests: Counter,
    /// Counts of the retries of the route's requests.
    pub retries: FurtherMetrics,
    /// Counts of the hedges of the route's requests. A hedge is a further attempt that begins because the first attempt
    /// was not answered in time.
    pub hedges: FurtherMetrics,
    outcomes: OutcomeCounts,
    /// Counts about further attempts. Empty until a rule's policy decides about a further attempt, so that most series
    /// need no memory for these counts.
    further: OnceLock<Box<FurtherAttempts>>,
    request_durations: Histogram<{ REQUEST_BOUNDS_MS.len() }>,
    response_durations: Histogram<{ RESPONSE_BOUNDS_MS.len() }>,
}

/// Counts of decisions about further attempts: the outcomes of attempts that were followed by a further attempt, and
/// the reasons why a further attempt was not made.
#[derive(Debug, Default)]
struct FurtherAttempts {
    /// The outcomes of attempts whose requests went on with another attempt.
    passed_over: OutcomeCounts,
    /// Counts of the reasons why there was no further attempt.
    skipped: Skipped,
}

/// Counts of further attempts.
#[derive(Debug, Default)]
pub struct FurtherMetrics {
    /// Number of further attempts.
    pub requests: Counter,
    /// Number of requests that were answered by a further attempt: by a retry without a failure, or by a hedge that was
    /// faster than the first attempt.
    pub successes: Counter,
}

/// The outcome of a request, or of an attempt at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Outcome {
    /// The `:status`; `None` without a response.
    http_status: Option<u16>,
    /// The `grpc-status`.
    grpc_status: Option<u8>,
    /// Reason for a missing or incomplete response, or `denied`; `None` for any other complete response of an endpoint.
    /// The text is never empty, because comparing two empty texts takes hundreds of cycles on CPUs with AVX-512. The C
    /// library's `memcmp` then loads from an address without memory.
    error: Option<&'static str>,
}

/// One worker's counts of outcomes.
#[derive(Debug, Default)]
struct OutcomeCounts {
    counts: CountByKey<Outcome, OUTCOMES>,
    /// The outcomes without a counter of their own, except for requests that the client cancelled or a policy denied.
    others: Unkeyed,
    /// Number of requests that the client cancelled and whose outcome has no counter of its own.
    other_cancelled: Counter,
    /// Number of requests that a policy denied and whose outcome has no counter of its own.
    other_denied: Counter,
}

/// Counts of requests with the same labels, summed over the workers.
#[derive(Debug, Default)]
struct RouteTotals {
    /// Number of requests that matched the route.
    requests: u64,
    /// Counts of retries and of hedges, in the order of [`RETRIES`].
    retries: [u64; RETRIES.len()],
    /// The outcomes of the requests.
    outcomes: Outcomes,
    /// The outcomes of attempts whose requests went on with another attempt.
    passed_over: Outcomes,
    skipped: SkippedTotals,
    request_durations: HistogramTotals<{ REQUEST_BOUNDS_MS.len() }>,
    response_durations: HistogramTotals<{ RESPONSE_BOUNDS_MS.len() }>,
}

/// Number of occurrences of each outcome.
#[derive(Debug, Default)]
struct Outcomes {
    counts: BTreeMap<Outcome, u64>,
    /// Counts of the outcomes without a counter of their own, by their class.
    others: BTreeMap<Class, u64>,
}

/// The counts of all series about routes, summed over the workers.
#[derive(Debug, Default)]
pub(super) struct RouteScrape {
    backends: BTreeMap<RouteLabels, RouteTotals>,
}

impl RouteMetrics {
    /// Counts the outcome of a request. `error` is the reason for a missing or incomplete response, or `denied` for the
    /// complete response of a proxy whose policy denied the request. It becomes a label. `took` is from the request's
    /// headers to the response's end.
    #[inline]
    pub fn ended(
        &self,
        http_status: Option<u16>,
        grpc_status: Option<u8>,
        error: Option<&'static str>,
        took: Duration,
    ) {
        self.outcomes.count(Outcome { http_status, grpc_status, error });
        self.request_durations.record(&REQUEST_BOUNDS_MS, took);
    }

    /// Counts the outcome of an attempt whose request goes on with another attempt. [`RouteMetrics::ended`] counts
    /// the outcome of the last attempt.
    pub fn passed_over(&self, http_status: Option<u16>, grpc_status: Option<u8>, error: Option<&'static str>) {
        self.further().passed_over.count(Outcome { http_status, grpc_status, error });
    }

    /// Counts a request that failed and got no retry, although its rule has retries. `reason` becomes a label.
    #[cold]
    pub fn retry_skipped(&self, reason: &'static str) {
        self.further().skipped.retries.count(reason);
    }

    /// Counts a hedge that a request did not get, although its rule hedges the request's method. `reason` becomes a
    /// label.
    #[cold]
    pub fn hedge_skipped(&self, reason: &'static str) {
        self.further().skipped.hedges.count(reason);
    }

    fn further(&self) -> &FurtherAttempts {
        self.further.get_or_init(Box::default)
    }

    /// Records the duration of a response: the time that an endpoint took after it had received the complete request.
    #[inline]
    pub fn responded(&self, took: Duration) {
        self.response_durations.record(&RESPONSE_BOUNDS_MS, took);
    }

    /// Returns the counts of retries: made, successful, not made because the request had used all its retries, and not
    /// made because the budget was spent.
    pub fn retry_counts(&self) -> [u64; 4] {
        let FurtherMetrics { requests, successes } = &self.retries;
        let skipped = |reason| self.further.get().map_or(0, |further| further.skipped.retries.get(reason));
        [requests.get(), successes.get(), skipped(reason::ATTEMPTS), skipped(reason::BUDGET)]
    }

    /// Returns the counts of hedges: made, successful, not made because the budget was spent, and not made because the
    /// Service was loaded.
    pub fn hedge_counts(&self) -> [u64; 4] {
        let FurtherMetrics { requests, successes } = &self.hedges;
        let skipped = |reason| self.further.get().map_or(0, |further| further.skipped.hedges.get(reason));
        [requests.get(), successes.get(), skipped(reason::BUDGET), skipped(reason::LOADED)]
    }

    /// Adds these counts to `totals`.
    fn add_to(&self, totals: &mut RouteTotals) {
        totals.requests += self.requests.get();
        for (total, count) in totals.retries.iter_mut().zip(self.retry_counts().into_iter().chain(self.hedge_counts()))
        {
            *total += count;
        }
        totals.outcomes.add(&self.outcomes);
        if let Some(FurtherAttempts { passed_over, skipped }) = self.further.get().map(|further| &**further) {
            totals.passed_over.add(passed_over);
            totals.skipped.add(skipped);
        }
        self.request_durations.add_to(&mut totals.request_durations);
        self.response_durations.add_to(&mut totals.response_durations);
    }
}

impl OutcomeCounts {
    #[inline]
    fn count(&self, outcome: Outcome) {
        if !self.counts.count(outcome) {
            self.count_other(outcome);
        }
    }

    /// Counts only the class (success, failure, cancelled or denied) of an outcome that has no counter of its own.
    #[cold]
    fn count_other(&self, outcome: Outcome) {
        match outcome.class() {
            Class::Cancelled => self.other_cancelled.add(1),
            Class::Denied => self.other_denied.add(1),
            class => self.others.count(class == Class::Failure),
        }
    }
}

impl Outcomes {
    fn add(&mut self, counted: &OutcomeCounts) {
        for (outcome, count) in counted.counts.counts() {
            *self.counts.entry(outcome).or_default() += count;
        }
        for (class, counter) in [
            (Class::Success, &counted.others.successes),
            (Class::Failure, &counted.others.failures),
            (Class::Cancelled, &counted.other_cancelled),
            (Class::Denied, &counted.other_denied),
        ] {
            let count = counter.get();
            if count > 0 {
                *self.others.entry(class).or_default() += count;
            }
        }
    }

    /// Adds these counts to `totals`, by the labels of the outcomes. The labels depend on the kind of route.
    fn add_to(&self, kind: RouteKind, totals: &mut BTreeMap<Labels, u64>) {
        for (outcome, count) in &self.counts {
            *totals.entry(outcome.labels(kind)).or_default() += count;
        }
        for (class, count) in &self.others {
            let labels =
                [("classification", class.label()), ("error", OTHER)].map(|(name, value)| (name, value.to_owned()));
            *totals.entry(labels.to_vec()).or_default() += count;
        }
    }
}

impl RouteLabels {
    /// Returns the labels of the series that counts all requests beyond the limit on series.
    pub(super) fn beyond_limit(&self) -> Self {
        let key = || ClusterKey { namespace: OTHER.into(), service: OTHER.into(), port: 0 };
        let route = RouteName { kind: self.route.kind, namespace: OTHER.into(), name: OTHER.into() };
        Self { parent: key(), route, backend: self.backend.as_ref().map(|_| key()) }
    }

    /// Returns the labels of the sum over all backends of the route.
    pub(super) fn of_route(&self) -> Self {
        Self { backend: None, ..self.clone() }
    }

    /// Returns the labels of a Service's port.
    pub(super) fn service_labels(key: &ClusterKey) -> Labels {
        let mut labels = Labels::new();
        push_service(&mut labels, BACKEND, key);
        labels
    }

    /// Returns the labels of requests that matched the route.
    fn route_labels(&self) -> Labels {
        let mut labels = Labels::new();
        push_service(&mut labels, PARENT, &self.parent);
        let is_route = self.route.kind != RouteKind::Service;
        labels.push(("route_group", if is_route { "gateway.networking.k8s.io" } else { "core" }.to_owned()));
        labels.push(("route_kind", self.route.kind.name().to_owned()));
        labels.push(("route_namespace", self.route.namespace.to_string()));
        labels.push(("route_name", self.route.name.to_string()));
        labels
    }

    /// Returns the labels of requests to the backend; `None` without a backend.
    fn backend_labels(&self) -> Option<Labels> {
        let mut labels = self.route_labels();
        push_service(&mut labels, BACKEND, self.backend.as_ref()?);
        Some(labels)
    }
}

impl RouteScrape {
    /// Sums the workers' counts.
    pub(super) fn new(parts: Vec<Part<RouteLabels, RouteMetrics>>) -> Self {
        let mut backends = BTreeMap::<RouteLabels, RouteTotals>::new();
        for Part { labels, metrics, .. } in parts {
            metrics.add_to(backends.entry(labels).or_default());
        }
        Self { backends }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Requests that a route sent to a backend";
        self.encode_requests(counter(encoder, "outbound_http_route_backend_requests", help)?, RouteKind::Http)?;
        self.encode_requests(counter(encoder, "outbound_grpc_route_backend_requests", help)?, RouteKind::Grpc)?;
        self.encode_unsent(encoder)?;
        let help = "Requests that met a route and have ended";
        self.encode_statuses(counter(encoder, "outbound_http_route_request_statuses", help)?, RouteKind::Http)?;
        self.encode_statuses(counter(encoder, "outbound_grpc_route_request_statuses", help)?, RouteKind::Grpc)?;
        let help = "Attempts at requests that a route sent to a backend, by what became of them";
        let name = "outbound_http_route_backend_response_statuses";
        self.encode_attempts(counter(encoder, name, help)?, RouteKind::Http)?;
        let name = "outbound_grpc_route_backend_response_statuses";
        self.encode_attempts(counter(encoder, name, help)?, RouteKind::Grpc)?;
        self.encode_durations(encoder)?;
        for (number, (name, help)) in RETRIES.iter().enumerate() {
            for kind in [RouteKind::Http, RouteKind::Grpc] {
                let of = if kind == RouteKind::Http { "http" } else { "grpc" };
                let name = format!("outbound_{of}_route_{name}");
                let metric = counter(encoder, &name, help)?;
                self.encode_retries(metric, kind, number)?;
            }
        }
        self.encode_skipped(encoder)?;
        let help = "Connections that a route sent to a backend";
        self.encode_requests(counter(encoder, "outbound_tls_route_open", help)?, RouteKind::Tls)?;
        self.encode_requests(counter(encoder, "outbound_tcp_route_open", help)?, RouteKind::Tcp)?;
        let help = "Connections that met a route and have ended";
        self.encode_statuses(counter(encoder, "outbound_tls_route_close", help)?, RouteKind::Tls)?;
        self.encode_statuses(counter(encoder, "outbound_tcp_route_close", help)?, RouteKind::Tcp)
    }

    /// Returns the counts of all routes of one kind. The rule of a Service without routes counts as an HTTPRoute, like
    /// Linkerd's default routes.
    fn of_kind(&self, kind: RouteKind) -> impl Iterator<Item = (&RouteLabels, &RouteTotals)> {
        let named = move |of: RouteKind| if of == RouteKind::Service { RouteKind::Http } else { of };
        self.backends.iter().filter(move |(labels, _)| named(labels.route.kind) == kind)
    }

    fn encode_requests(&self, mut metric: MetricEncoder, kind: RouteKind) -> fmt::Result {
        for (labels, totals) in self.of_kind(kind) {
            if let Some(labels) = labels.backend_labels() {
                encode_count(metric.encode_family(&labels)?, totals.requests)?;
            }
        }
        Ok(())
    }

    /// Writes the counts of requests that were sent to no backend.
    fn encode_unsent(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Requests that matched a route and that the proxy answered itself, such as redirects";
        let mut metric = counter(encoder, "leno_route_unsent_requests", help)?;
        for kind in [RouteKind::Http, RouteKind::Grpc] {
            let unsent = self.of_kind(kind).filter(|(labels, _)| labels.backend.is_none());
            for (labels, totals) in unsent.filter(|(_, totals)| totals.requests > 0) {
                encode_count(metric.encode_family(&labels.route_labels())?, totals.requests)?;
            }
        }
        Ok(())
    }

    fn encode_retries(&self, mut metric: MetricEncoder, kind: RouteKind, number: usize) -> fmt::Result {
        let mut routes = BTreeMap::<Labels, u64>::new();
        for (labels, totals) in self.of_kind(kind) {
            let count = totals.retries.get(number).copied().unwrap_or(0);
            if totals.retries.iter().any(|count| *count > 0) {
                *routes.entry(labels.route_labels()).or_default() += count;
            }
        }
        for (route, count) in routes {
            encode_count(metric.encode_family(&route)?, count)?;
        }
        Ok(())
    }

    fn encode_skipped(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut routes = BTreeMap::<Labels, SkippedTotals>::new();
        for (labels, totals) in &self.backends {
            if !totals.skipped.is_empty() {
                routes.entry(labels.route_labels()).or_default().merge(&totals.skipped);
            }
        }
        skipped::encode(encoder, &routes)
    }

    fn encode_statuses(&self, metric: MetricEncoder, kind: RouteKind) -> fmt::Result {
        let mut routes = BTreeMap::<Labels, BTreeMap<Labels, u64>>::new();
        for (labels, totals) in self.of_kind(kind) {
            totals.outcomes.add_to(labels.route.kind, routes.entry(labels.route_labels()).or_default());
        }
        encode_outcomes(metric, routes)
    }

    fn encode_attempts(&self, metric: MetricEncoder, kind: RouteKind) -> fmt::Result {
        let mut backends = BTreeMap::<Labels, BTreeMap<Labels, u64>>::new();
        for (labels, totals) in self.of_kind(kind) {
            let Some(backend) = labels.backend_labels() else { continue };
            let attempts = backends.entry(backend).or_default();
            totals.outcomes.add_to(labels.route.kind, attempts);
            totals.passed_over.add_to(labels.route.kind, attempts);
        }
        encode_outcomes(metric, backends)
    }

    fn encode_durations(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let kinds = [(RouteKind::Http, "http"), (RouteKind::Grpc, "grpc")];
        for (kind, of) in kinds {
            let name = format!("outbound_{of}_route_request_duration_seconds");
            let help = "Seconds from a request's headers to its response's end";
            let mut routes = BTreeMap::<Labels, HistogramTotals<_>>::new();
            for (labels, totals) in self.of_kind(kind) {
                routes.entry(labels.route_labels()).or_default().add(&totals.request_durations);
            }
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Histogram)?;
            for (labels, durations) in routes.iter().filter(|(_, durations)| durations.count() > 0) {
                encode_seconds(metric.encode_family(labels)?, durations, &REQUEST_BOUNDS_MS)?;
            }
        }
        for (kind, of) in kinds {
            let name = format!("outbound_{of}_route_backend_response_duration_seconds");
            let help = "Seconds from the end of a request, as sent to a backend, to its response's end";
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Histogram)?;
            for (labels, totals) in self.of_kind(kind) {
                let durations = &totals.response_durations;
                if let Some(labels) = labels.backend_labels().filter(|_| durations.count() > 0) {
                    encode_seconds(metric.encode_family(&labels)?, durations, &RESPONSE_BOUNDS_MS)?;
                }
            }
        }
        Ok(())
    }
}

/// Writes the counts of outcomes for each set of labels.
fn encode_outcomes(mut metric: MetricEncoder, counts: BTreeMap<Labels, BTreeMap<Labels, u64>>) -> fmt::Result {
    for (labels, outcomes) in counts {
        for (outcome, count) in outcomes {
            encode_count(metric.encode_family(&(labels.clone(), outcome))?, count)?;
        }
    }
    Ok(())
}

impl Outcome {
    /// Returns the class of the outcome: a success, a failure, or neither because the client cancelled or a policy denied
    /// the request.
    fn class(self) -> Class {
        let is_failed = match (self.error, self.http_status, self.grpc_status) {
            (Some("cancelled"), ..) => return Class::Cancelled,
            (Some("denied"), ..) => return Class::Denied,
            (Some("reset"), ..) => true,
            (Some(error), ..) if is_without_destination(error) => true,
            (_, _, Some(status)) => is_failure(200, Some(status)),
            (_, Some(status), None) => is_failure(status, None),
            (error, None, None) => error.is_some(),
        };
        if is_failed { Class::Failure } else { Class::Success }
    }

    /// Returns the outcome's labels. All outcomes have `error`. The other labels depend on the kind of route:
    /// - HTTPRoute: `http_status`, and `grpc_status` if the outcome has a gRPC status
    /// - GRPCRoute: `grpc_status`
    /// - Service: `http_status` and `grpc_status`
    /// - TLSRoute and TCPRoute: no other labels
    fn labels(self, kind: RouteKind) -> Labels {
        let http = || ("http_status", self.http_status.map(|status| status.to_string()).unwrap_or_default());
        let grpc = || ("grpc_status", self.grpc_status.map(grpc_status_name).unwrap_or_default());
        let mut labels = match kind {
            // Unlike Linkerd, add `grpc_status` to the series of HTTPRoutes. Without it, failed gRPC calls look like
            // successes, because their HTTP status is 200.
            RouteKind::Http if self.grpc_status.is_some() => vec![http(), grpc()],
            RouteKind::Http => vec![http()],
            RouteKind::Grpc => vec![grpc()],
            RouteKind::Service => vec![http(), grpc()],
            RouteKind::Tls | RouteKind::Tcp => Vec::new(),
        };
        labels.push(("error", self.error.map_or("", error_label).to_owned()));
        labels
    }
}

/// Returns the label of an error. Time-outs of routes get the names that they have in Linkerd, because Linkerd's
/// command `viz stat-outbound` counts them by these names.
fn error_label(error: &'static str) -> &'static str {
    match error {
        "request-timeout" => "REQUEST_TIMEOUT",
        "backend-timeout" => "RESPONSE_HEADERS_TIMEOUT",
        other => other,
    }
}

/// Label names for a Service's group, kind, namespace, name, port and section.
type ServiceLabels = [&'static str; 6];

const PARENT: ServiceLabels =
    ["parent_group", "parent_kind", "parent_namespace", "parent_name", "parent_port", "parent_section_name"];
const BACKEND: ServiceLabels =
    ["backend_group", "backend_kind", "backend_namespace", "backend_name", "backend_port", "backend_section_name"];

fn push_service(labels: &mut Labels, names: ServiceLabels, key: &ClusterKey) {
    let values = ["core", "Service", &key.namespace, &key.service, &key.port.to_string(), ""].map(str::to_owned);
    labels.extend(names.into_iter().zip(values));
}

/// Returns the name of a gRPC status code.
fn grpc_status_name(status: u8) -> String {
    GrpcCodes::name(status).map_or_else(|| status.to_string(), str::to_owned)
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
