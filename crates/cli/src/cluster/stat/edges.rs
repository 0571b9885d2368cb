//! `leno stat edges`: shows the calls of each caller to each workload, as the proxies of the called workloads count
//! them.

use std::error::Error;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::counts::{Counts, DENIED, Figures, ONLY_INBOUND, TRAFFIC, rare};
use super::peer::{View, caller_name, is_mutual_tls, is_unsent};
use super::{Measurement, span};
use crate::cluster::prometheus::Wanted;
use crate::cluster::source::{Measured, Source};
use crate::cluster::table::Table;

/// The metrics that count calls to workloads, by client and by transport (mutual TLS or not).
const WANTED: Wanted = Wanted {
    labels: &["direction", "client_id", "no_tls_reason", "tls"],
    only: ONLY_INBOUND,
    metrics: &[TRAFFIC.calls(), TRAFFIC.responses(), TRAFFIC.latency_bucket(), DENIED[0], DENIED[1]],
};

/// Options of `leno stat edges`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    measurement: Measurement,
}

/// Calls of one caller to one workload.
#[derive(Debug, Serialize)]
struct Row {
    /// `namespace/service account`, or the reason why the caller has no identity.
    client: String,
    namespace: String,
    name: String,
    /// Whether the calls come over mutual TLS.
    mutual_tls: bool,
    #[serde(flatten)]
    figures: Figures,
    /// Calls and opaque connections that policies denied, per second.
    denied_per_second: f64,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        self.measurement.show(&self.source, &WANTED, rows, table)
    }
}

/// Returns a row for each caller of a group of Pods, the row with the most calls first. A caller that calls with and
/// without mutual TLS has two rows. Leaves out calls that were never sent: their series name neither the caller nor the
/// transport.
fn rows(measured: &Measured, window: Duration) -> Vec<Row> {
    let view = View::Inbound(None);
    let counts = Counts::by(TRAFFIC, measured.proxies.iter(), |sample| {
        (view.has(sample) && !is_unsent(sample)).then(|| (caller_name(sample), is_mutual_tls(sample)))
    });
    let row = |((client, mutual_tls), counts): ((String, bool), Counts)| Row {
        client,
        namespace: measured.namespace.clone(),
        name: measured.name.clone(),
        mutual_tls,
        figures: counts.figures(window),
        denied_per_second: counts.denied / window.as_secs_f64(),
    };
    // Keep rows with denials but no calls: a denied opaque connection is counted as a denial, but not as a call.
    let is_busy = |row: &Row| row.figures.calls_per_second > 0.0 || row.denied_per_second > 0.0;
    let mut rows: Vec<Row> = counts.into_iter().map(row).filter(is_busy).collect();
    rows.sort_by(|a, b| b.figures.calls_per_second.total_cmp(&a.figures.calls_per_second));
    rows
}

fn table(rows: &[Row], window: Duration) -> String {
    if rows.is_empty() {
        return format!(
            "no workload here was called within {}; --window counts longer, -n NAME or -A looks elsewhere\n",
            span(window)
        );
    }
    let mut table =
        Table::new(&[&["CLIENT", "", "NAMESPACE", "NAME", "MTLS"], &Figures::HEADS[..], &["#DENIED/S"]].concat());
    for row in rows {
        let mtls = if row.mutual_tls { "yes" } else { "no" };
        let names = [&row.client, "->", &row.namespace, &row.name, mtls].map(str::to_owned);
        table.row(names.into_iter().chain(row.figures.cells()).chain([rare(Some(row.denied_per_second))]));
    }
    let denials = match rows.iter().any(|row| row.denied_per_second > 0.0) {
        true => "; leno authz shows which policies apply, and leno explain which line denied a call",
        false => "",
    };
    format!("{table}\nover {}, counted by the proxies of the called workloads{denials}\n", span(window))
}

#[cfg(test)]
#[path = "edges_tests.rs"]
mod tests;
