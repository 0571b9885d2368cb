//! `leno stat methods`: shows calls by method, as the proxies of the selected workloads count them: calls to the
//! workloads (in) and calls that the workloads make (out).

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::counts::{Counts, Figures, METHODS, number, percent, share, sums};
use super::objective::{Objective, objectives};
use super::peer::Destination;
use super::{Measurement, Names, side, span};
use crate::cluster::prometheus::{Metric, Wanted};
use crate::cluster::scrape::Sample;
use crate::cluster::source::{Measured, Source};
use crate::cluster::table::Table;

/// A call is slow if it takes longer than this, in milliseconds. The latency histogram has a bucket with this bound, so
/// the number of slow calls is exact.
pub(crate) const SLOW_MS: f64 = 200.0;

/// The metrics of methods.
const WANTED: Wanted = Wanted {
    labels: &[
        "direction",
        "target_port",
        "dst_namespace",
        "dst_service",
        "dst_port",
        "grpc_service",
        "grpc_method",
        "http_method",
        "route_namespace",
        "route_name",
    ],
    only: &[],
    metrics: &[
        METHODS.calls(),
        METHODS.responses(),
        METHODS.latency_bucket(),
        Metric::counter("leno_method_messages_total", &["side"]),
        Metric::counter("leno_method_time_left_seconds_bucket", &["at", "le"])
            .only(&[r#"at="ended""#, r#"le=~"0|0.0""#]),
        Metric::counter("leno_method_time_left_seconds_count", &["at"]).only(&[r#"at="ended""#]),
        Metric::counter("leno_method_objective_calls_total", &["objective"]),
        Metric::counter("leno_method_objective_misses_total", &["objective"]),
        Metric::setting("leno_method_objective_ratio", &["objective"]),
        Metric::setting("leno_method_objective_bound_seconds", &["objective"]),
    ],
};

/// Options of `leno stat methods`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// Show only calls that the workloads make to one Service, as echo or echo.shop:50051
    #[arg(long, value_name = "SERVICE")]
    to: Option<Destination>,
    /// Also show methods that received no call
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    measurement: Measurement,
}

/// A method that a workload serves or calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// `inbound` or `outbound`.
    pub(crate) direction: String,
    /// For inbound calls, the workload's port; for outbound calls, the destination.
    pub(crate) at: String,
    /// For gRPC calls, `package.Service/Method`; for other HTTP calls, the request method and the route.
    pub(crate) method: String,
}

/// A row of the table of methods.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) key: Key,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// The bounds of the bucket that contains the p99, in milliseconds. The last bucket has no upper bound.
    pub(crate) p99_between_ms: Option<(f64, Option<f64>)>,
    /// Share of the answered calls that took longer than [`SLOW_MS`], 0 to 1.
    pub(crate) slow_rate: Option<f64>,
    /// Number of gRPC messages in requests, per second.
    pub(crate) request_messages_per_second: f64,
    pub(crate) response_messages_per_second: f64,
    /// The share of calls that exceeded their deadline, among the calls that had one, 0 to 1.
    pub(crate) expired_rate: Option<f64>,
    /// The objective of the method, which applies to outbound calls only; `None` for inbound calls.
    pub(crate) objective: Option<Objective>,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        self.measurement.show(&self.source, &WANTED, |measured, window| self.rows(measured, window), table)
    }

    fn rows(&self, measured: &Measured, window: Duration) -> Vec<Row> {
        let mut rows = rows(measured, self.to.as_ref(), window);
        rows.retain(|row| self.all || !row.is_idle());
        rows
    }
}

impl Key {
    /// The direction as tables show it: `in` or `out`.
    pub(crate) fn side(&self) -> &'static str {
        side(&self.direction)
    }
}

impl Row {
    /// The column headers of the figures that [`Figures::HEADS`] does not contain.
    const HEADS: [&'static str; 2] = ["#MSG/S", "#EXPIRED"];

    /// Whether the method was idle in the window: no call began, no call ended, and no message was sent.
    pub(crate) fn is_idle(&self) -> bool {
        let figures = &self.figures;
        figures.calls_per_second == 0.0 && figures.success_rate.is_none() && self.messages_per_second().is_none()
    }

    /// Number of messages in requests and responses, per second; `None` if there was no message.
    pub(crate) fn messages_per_second(&self) -> Option<f64> {
        let messages = self.request_messages_per_second + self.response_messages_per_second;
        (messages > 0.0).then_some(messages)
    }

    /// The cells of the columns [`Figures::HEADS`] and [`Row::HEADS`].
    pub(crate) fn cells(&self) -> [String; 6] {
        let [calls, success, p50, p99] = self.figures.cells();
        [calls, success, p50, p99, number(self.messages_per_second()), percent(self.expired_rate)]
    }

    /// The cells of the columns [`Objective::HEADS`].
    fn objective_cells(&self) -> [String; 2] {
        let text = self.objective.as_ref().map_or_else(|| "-".to_owned(), Objective::text);
        [text, number(self.burn_rate())]
    }

    /// The burn rate of the method's objective; `None` if the method has no objective or no burn rate.
    pub(crate) fn burn_rate(&self) -> Option<f64> {
        self.objective.as_ref().and_then(Objective::burn_rate)
    }
}

/// Returns the rows of a group of Pods: first the methods that the Pods serve, then the methods that the Pods call.
/// Within each direction, the method with the most calls comes first.
pub(crate) fn rows(measured: &Measured, to: Option<&Destination>, window: Duration) -> Vec<Row> {
    let key = |sample: &Sample| key(measured, to, sample);
    let counts = Counts::by(METHODS, measured.proxies.iter(), key);
    let grown = || measured.proxies.iter().map(|proxy| &proxy.grown);
    let messages = |side: &str| {
        sums("leno_method_messages_total", grown(), |sample| {
            (sample.label("side") == side).then(|| key(sample)).flatten()
        })
    };
    let (requests, responses) = (messages("request"), messages("response"));
    let ended = |name: &str, is_wanted: fn(&Sample) -> bool| {
        sums(name, grown(), |sample| {
            let is_it = sample.label("at") == "ended" && is_wanted(sample);
            is_it.then(|| key(sample)).flatten()
        })
    };
    // Compare numbers: a proxy writes the bound as `0.0`, and some storages of Prometheus' data as `0`.
    let expired = ended("leno_method_time_left_seconds_bucket", |sample| sample.label("le").parse::<f64>() == Ok(0.0));
    let with_deadline = ended("leno_method_time_left_seconds_count", |_| true);
    let mut objectives = objectives(&measured.proxies, key);
    let of = |sums: &BTreeMap<Key, f64>, key: &Key| sums.get(key).copied().unwrap_or(0.0);
    let row = |(key, counts): (Key, Counts)| Row {
        objective: objectives.remove(&key),
        figures: counts.figures(window),
        p99_between_ms: counts.quantile_bounds_ms(0.99),
        slow_rate: counts.share_above(SLOW_MS),
        request_messages_per_second: of(&requests, &key) / window.as_secs_f64(),
        response_messages_per_second: of(&responses, &key) / window.as_secs_f64(),
        expired_rate: share(of(&expired, &key), of(&with_deadline, &key)),
        key,
    };
    let mut rows: Vec<Row> = counts.into_iter().map(row).collect();
    let rate = |row: &Row| row.figures.calls_per_second;
    rows.sort_by(|a, b| a.key.direction.cmp(&b.key.direction).then(rate(b).total_cmp(&rate(a))));
    rows
}

/// Returns the key of the row to which a series belongs; `None` if `to` excludes the series.
fn key(measured: &Measured, to: Option<&Destination>, sample: &Sample) -> Option<Key> {
    let direction = sample.label("direction");
    let at = match direction {
        "outbound" => {
            let destination = Destination::of(sample);
            if to.is_some_and(|to| !to.covers(&destination, &measured.namespace)) {
                return None;
            }
            destination.to_string()
        }
        _ if to.is_some() => return None,
        _ => format!(":{}", sample.label("target_port")),
    };
    let (service, http_method, route) =
        (sample.label("grpc_service"), sample.label("http_method"), sample.label("route_name"));
    let method = match (service, http_method, route) {
        ("", "", _) => "other".to_owned(),
        ("", method, "") => method.to_owned(),
        ("", method, route) => format!("{method} {route}.{}", sample.label("route_namespace")),
        (service, ..) => format!("{service}/{}", sample.label("grpc_method")),
    };
    Some(Key {
        namespace: measured.namespace.clone(),
        name: measured.name.clone(),
        direction: direction.to_owned(),
        at,
        method,
    })
}

fn table(rows: &[Row], window: Duration) -> String {
    if rows.is_empty() {
        return format!(
            "no call began or ended within {}; --window counts longer, --all shows methods without calls, -n NAME or -A \
             looks elsewhere\n",
            span(window)
        );
    }
    let names = Names::of(rows.iter().map(|row| &*row.key.namespace));
    let has_objectives = rows.iter().any(|row| row.objective.is_some());
    let more: &[&str] = if has_objectives { &Objective::HEADS } else { &[] };
    let mut table = Table::new(&[names.heads(), &["", "AT", "METHOD"], &Figures::HEADS, &Row::HEADS, more].concat());
    for row in rows {
        let Key { namespace, name, at, method, .. } = &row.key;
        let mut cells = names.cells(namespace, name);
        cells.extend([row.key.side().to_owned(), at.clone(), method.clone()]);
        cells.extend(row.cells());
        if has_objectives {
            cells.extend(row.objective_cells());
        }
        table.row(cells);
    }
    let burn = if has_objectives { "; BURN: misses, as a multiple of those that the objective allows" } else { "" };
    format!(
        "{table}\nover {}; in: calls to the workload, out: calls that it makes; EXPIRED: share of the calls with a \
         deadline that missed it{burn}\n",
        span(window)
    )
}

#[cfg(test)]
#[path = "methods_tests.rs"]
mod tests;
