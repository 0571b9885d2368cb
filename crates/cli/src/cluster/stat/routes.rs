//! `leno stat routes`: shows the calls that workloads make, by route and by the route's backend.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::counts::{number, percent, share, sums};
use super::{Measurement, Names, span};
use crate::cluster::prometheus::{Metric, Wanted};
use crate::cluster::scrape::Sample;
use crate::cluster::source::{Measured, Source};
use crate::cluster::table::Table;

/// The kinds of routes, as the names of metrics spell them.
const KINDS: [&str; 2] = ["http", "grpc"];

/// The gRPC statuses with which a call has failed. The metric `response_total` classifies the same statuses as
/// failures.
const GRPC_FAILURES: [&str; 6] =
    ["UNKNOWN", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"];

/// The metrics of routes.
const WANTED: Wanted = Wanted {
    labels: &["parent_namespace", "parent_name", "parent_port", "route_kind", "route_namespace", "route_name"],
    only: &[],
    metrics: &[
        Metric::counter(UNSENT, &[]),
        Metric::counter("outbound_http_route_backend_requests_total", BACKEND),
        Metric::counter("outbound_http_route_request_statuses_total", OUTCOME),
        Metric::counter("outbound_http_route_retry_requests_total", &[]),
        Metric::counter("outbound_http_route_hedge_requests_total", &[]),
        Metric::counter("outbound_grpc_route_backend_requests_total", BACKEND),
        Metric::counter("outbound_grpc_route_request_statuses_total", OUTCOME),
        Metric::counter("outbound_grpc_route_retry_requests_total", &[]),
        Metric::counter("outbound_grpc_route_hedge_requests_total", &[]),
    ],
};

const OUTCOME: &[&str] = &["error", "http_status", "grpc_status", "classification"];

/// Name of the metric that counts the requests that the proxy answered itself, for example with a redirect.
const UNSENT: &str = "leno_route_unsent_requests_total";

const BACKEND: &[&str] = &["backend_namespace", "backend_name", "backend_port"];

/// Options of `leno stat routes`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    measurement: Measurement,
}

/// A route that the calls of a workload matched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Key {
    namespace: String,
    name: String,
    /// The Service to which the route is attached, in the form `web.shop:80`.
    pub(crate) service: String,
    /// Kind and name of the route, in the form `HTTPRoute canary.shop`.
    route: String,
}

/// A row of the table of routes.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) key: Key,
    /// Number of calls per second to each backend.
    backends: BTreeMap<String, f64>,
    calls_per_second: f64,
    success_rate: Option<f64>,
    retries_per_second: f64,
    hedges_per_second: f64,
}

/// Counts of one route.
#[derive(Debug, Default)]
struct Counts {
    backends: BTreeMap<String, f64>,
    /// Calls that were sent to no backend.
    unsent: f64,
    ended: f64,
    failed: f64,
    retries: f64,
    hedges: f64,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        self.measurement.show(&self.source, &WANTED, rows, table)
    }
}

pub(crate) fn rows(measured: &Measured, window: Duration) -> Vec<Row> {
    let grown = || measured.proxies.iter().map(|proxy| &proxy.grown);
    let key = |sample: &Sample| key(measured, sample);
    let mut routes = BTreeMap::<Key, Counts>::new();
    for (key, count) in sums(UNSENT, grown(), |sample| Some(key(sample))) {
        routes.entry(key).or_default().unsent += count;
    }
    for kind in KINDS {
        let name = |what: &str| format!("outbound_{kind}_route_{what}_total");
        let backend = |sample: &Sample| Some((key(sample), service(sample, "backend")));
        for ((key, backend), count) in sums(&name("backend_requests"), grown(), backend) {
            *routes.entry(key).or_default().backends.entry(backend).or_default() += count;
        }
        let outcome = |sample: &Sample| outcome(sample).map(|failed| (key(sample), failed));
        for ((key, failed), count) in sums(&name("request_statuses"), grown(), outcome) {
            let counts = routes.entry(key).or_default();
            counts.ended += count;
            counts.failed += if failed { count } else { 0.0 };
        }
        let by_key = |what: &str| sums(&name(what), grown(), |sample| Some(key(sample)));
        for (key, count) in by_key("retry_requests") {
            routes.entry(key).or_default().retries += count;
        }
        for (key, count) in by_key("hedge_requests") {
            routes.entry(key).or_default().hedges += count;
        }
    }
    let seconds = window.as_secs_f64();
    let row = |(key, counts): (Key, Counts)| Row {
        key,
        calls_per_second: (counts.backends.values().sum::<f64>() + counts.unsent) / seconds,
        backends: counts.backends.into_iter().map(|(backend, calls)| (backend, calls / seconds)).collect(),
        success_rate: share(counts.ended - counts.failed, counts.ended),
        retries_per_second: counts.retries / seconds,
        hedges_per_second: counts.hedges / seconds,
    };
    let mut rows: Vec<Row> = routes.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.calls_per_second.total_cmp(&a.calls_per_second));
    rows
}

fn key(measured: &Measured, sample: &Sample) -> Key {
    let (kind, name) = (sample.label("route_kind"), sample.label("route_name"));
    Key {
        namespace: measured.namespace.clone(),
        name: measured.name.clone(),
        service: service(sample, "parent"),
        route: match kind {
            // The calls matched no route, because the Service has none; only a policy applies to them.
            "Service" => "-".to_owned(),
            kind => format!("{kind} {name}.{}", sample.label("route_namespace")),
        },
    }
}

/// Reads a Service from the labels whose names begin with `prefix`, in the form `web.shop:80`.
fn service(sample: &Sample, prefix: &str) -> String {
    let label = |name: &str| sample.label(&format!("{prefix}_{name}")).to_owned();
    format!("{}.{}:{}", label("name"), label("namespace"), label("port"))
}

/// Whether an outcome is a failure; `None` for a call that its client cancelled or that a policy denied.
fn outcome(sample: &Sample) -> Option<bool> {
    let (error, http, grpc) = (sample.label("error"), sample.label("http_status"), sample.label("grpc_status"));
    // A proxy has a limited number of series for different outcomes. It counts further outcomes in series that have the
    // label `classification` instead of statuses.
    match (error, sample.label("classification")) {
        ("cancelled" | "denied", _) | (_, "cancelled" | "denied") => return None,
        (_, "success") => return Some(false),
        // The Service of the call has been removed. An application's UNIMPLEMENTED or 404 is no failure.
        ("reset" | "no-route", _) => return Some(true),
        _ => {}
    }
    let is_http_failure = http.is_empty() || http.starts_with('5') || http == "429";
    Some(if grpc.is_empty() { is_http_failure } else { GRPC_FAILURES.contains(&grpc) })
}

fn table(rows: &[Row], window: Duration) -> String {
    if rows.is_empty() {
        return "no call of these workloads has matched a route since their proxies started; -n NAME or -A looks elsewhere\n"
            .to_owned();
    }
    let names = Names::of(rows.iter().map(|row| &*row.key.namespace));
    let figures = ["SERVICE", "ROUTE", "#CALLS/S", "#SUCCESS", "#RETRIES/S", "#HEDGES/S", "BACKENDS"];
    let mut table = Table::new(&[names.heads(), &figures].concat());
    for row in rows {
        let backends = row
            .backends
            .iter()
            .map(|(backend, calls)| format!("{backend} {}", percent(share(*calls, row.calls_per_second))));
        let mut cells = names.cells(&row.key.namespace, &row.key.name);
        cells.extend([row.key.service.clone(), row.key.route.clone()]);
        cells.extend([number(Some(row.calls_per_second)), percent(row.success_rate)]);
        cells.extend([number(Some(row.retries_per_second)), number(Some(row.hedges_per_second))]);
        cells.push(backends.collect::<Vec<_>>().join(", "));
        table.row(cells);
    }
    format!("{table}\nover {}, counted by the proxies of the calling workloads\n", span(window))
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
