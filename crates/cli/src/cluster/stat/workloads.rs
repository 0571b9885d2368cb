//! `leno stat KIND[/NAME]`: shows calls to workloads (inbound), or calls that workloads make (outbound, `--to`). The
//! workloads' own proxies count the calls in both directions.

use std::error::Error;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::counts::{Counts, DENIED, Figures, ONLY_INBOUND, TRAFFIC, percent, rare, sums};
use super::peer::{Caller, Destination, View, destinations};
use super::{Measurement, span};
use crate::cluster::prometheus::{Metric, Wanted};
use crate::cluster::scrape::Sample;
use crate::cluster::source::{Measured, Source};
use crate::cluster::table::Table;

/// The metrics of calls to workloads.
const INBOUND: Wanted = Wanted {
    labels: &["direction"],
    only: ONLY_INBOUND,
    metrics: &[TRAFFIC.calls(), TRAFFIC.responses(), TRAFFIC.latency_bucket(), DENIED[0], DENIED[1], OPEN_CONNECTIONS],
};

/// The metrics of calls to workloads, by client.
const INBOUND_BY_CLIENT: Wanted = Wanted { labels: &["direction", "client_id"], ..INBOUND };

/// The metrics of calls that workloads make.
const OUTBOUND: Wanted = Wanted {
    labels: &["direction", "dst_namespace", "dst_service", "dst_port"],
    only: &[r#"direction="outbound""#],
    metrics: &[TRAFFIC.calls(), TRAFFIC.responses_with_statuses(), TRAFFIC.latency_bucket(), OPEN_CONNECTIONS],
};

const OPEN_CONNECTIONS: Metric = Metric::gauge("tcp_open_connections", &["peer"]);

/// Options of `leno stat` without a subcommand, which the options of `leno stat` embed.
#[derive(Args)]
#[group(skip)]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,
    /// Show calls that the workloads make, by destination: to one Service, as echo or echo.shop:50051, or to all if no
    /// value follows
    #[arg(long, value_name = "SERVICE", num_args = 0..=1, conflicts_with = "from")]
    to: Option<Option<Destination>>,
    /// Show only calls from clients with this service account, for example web or shop/web; - means clients without an identity
    #[arg(long, value_name = "SERVICE-ACCOUNT")]
    from: Option<Caller>,
    #[command(flatten)]
    measurement: Measurement,
}

/// A row of the table: the inbound calls of a group of Pods, or the group's outbound calls to one destination.
#[derive(Debug, Serialize)]
struct Row {
    namespace: String,
    name: String,
    /// The destination of outbound calls: a Service's port, or all addresses that belong to no Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// Number of all Pods; `None` if the number of Pods without a proxy is unknown.
    pods: Option<usize>,
    /// Number of Pods that have a proxy.
    meshed_pods: usize,
    #[serde(flatten)]
    traffic: Option<Traffic>,
}

/// The figures of a row.
#[derive(Debug, PartialEq, Serialize)]
struct Traffic {
    #[serde(flatten)]
    figures: Figures,
    /// Number of denied calls per second. In an inbound row, the calls and opaque connections that the workload's
    /// policies denied. In an outbound row, the responses with 401, 403, UNAUTHENTICATED or PERMISSION_DENIED, whether
    /// from a policy or from the application.
    denied_per_second: f64,
    /// Share of calls over mutual TLS, 0 to 1.
    tls_share: Option<f64>,
    tcp_connections: f64,
}

impl Options {
    pub(super) fn run(&self) -> Result<(), Box<dyn Error>> {
        let view = self.view();
        let rows = |measured: &Measured, window: Duration| rows(measured, &view, window);
        let wanted = match &view {
            View::Inbound(None) => &INBOUND,
            View::Inbound(Some(_)) => &INBOUND_BY_CLIENT,
            View::Outbound(_) => &OUTBOUND,
        };
        self.measurement.show(&self.source, wanted, rows, |rows, window| table(rows, &view, window))
    }

    fn view(&self) -> View {
        match (&self.to, &self.from) {
            (Some(only), _) => View::Outbound(only.clone()),
            (None, from) => View::Inbound(from.clone()),
        }
    }
}

/// Returns the rows of a group of Pods: one row for inbound calls, or one row for each destination of outbound calls.
fn rows(measured: &Measured, view: &View, window: Duration) -> Vec<Row> {
    let row = |to: Option<String>, traffic: Option<Traffic>| Row {
        namespace: measured.namespace.clone(),
        name: measured.name.clone(),
        to,
        pods: measured.pods,
        meshed_pods: measured.meshed_pods,
        traffic,
    };
    let traffic = |counts: &dyn Fn(&Sample) -> bool| {
        (!measured.proxies.is_empty()).then(|| Traffic::of(measured, window, view, counts))
    };
    match view {
        View::Inbound(caller) => {
            let of_caller =
                |sample: &Sample| caller.as_ref().is_none_or(|caller| caller.made(sample, &measured.namespace));
            vec![row(None, traffic(&|sample| view.has(sample) && of_caller(sample)))]
        }
        View::Outbound(only) => {
            let is_wanted = |to: &Destination| only.as_ref().is_none_or(|only| only.covers(to, &measured.namespace));
            let found = destinations(measured.proxies.iter().map(|proxy| &proxy.grown)).into_iter().filter(is_wanted);
            let of_destination = |to: Destination| {
                row(Some(to.to_string()), traffic(&|sample| view.has(sample) && Destination::of(sample) == to))
            };
            found.map(of_destination).collect()
        }
    }
}

impl Traffic {
    /// Computes the figures from the series for which `counts` returns true.
    fn of(measured: &Measured, window: Duration, view: &View, counts: impl Fn(&Sample) -> bool) -> Self {
        // Count only the proxy's connections with peers, not its connections with the local application.
        let is_far = |sample: &Sample| {
            let far = if sample.label("direction") == "inbound" { "src" } else { "dst" };
            sample.label("peer") == far && counts(sample)
        };
        let now = measured.proxies.iter().map(|proxy| &proxy.now);
        let connections = sums("tcp_open_connections", now, |sample| is_far(sample).then_some(()));
        let counts = Counts::of(TRAFFIC, measured.proxies.iter(), counts);
        Self {
            figures: counts.figures(window),
            denied_per_second: if view.is_outbound() { counts.refused } else { counts.denied } / window.as_secs_f64(),
            tls_share: counts.tls_share(),
            tcp_connections: connections.values().sum::<f64>() + 0.0,
        }
    }
}

fn table(rows: &[Row], view: &View, window: Duration) -> String {
    let names: &[&str] = if view.is_outbound() { &["NAMESPACE", "NAME", "TO"] } else { &["NAMESPACE", "NAME"] };
    let mut table = Table::new(&[names, &["MESHED"], &Figures::HEADS, &["#DENIED/S", "#TLS", "#TCP"]].concat());
    for row in rows {
        let mut cells = vec![row.namespace.clone(), row.name.clone()];
        cells.extend(row.to.clone());
        let pods = row.pods.map_or_else(|| "-".to_owned(), |pods| pods.to_string());
        cells.push(format!("{}/{pods}", row.meshed_pods));
        match &row.traffic {
            Some(traffic) => {
                cells.extend(traffic.figures.cells());
                cells.push(rare(Some(traffic.denied_per_second)));
                cells.extend([percent(traffic.tls_share), format!("{:.0}", traffic.tcp_connections)]);
            }
            None => cells.extend(std::iter::repeat_n("-".to_owned(), Figures::HEADS.len() + 3)),
        }
        table.row(cells);
    }
    if rows.is_empty() {
        return match view {
            View::Inbound(_) => "nothing runs here; -n NAME or -A looks elsewhere\n".to_owned(),
            View::Outbound(_) => {
                "no proxy here has sent a call to such a destination since it started; -n NAME or -A looks elsewhere\n"
                    .to_owned()
            }
        };
    }
    format!("{table}\nover {}, {}\n", span(window), view.caption())
}

#[cfg(test)]
#[path = "workloads_tests.rs"]
mod tests;
