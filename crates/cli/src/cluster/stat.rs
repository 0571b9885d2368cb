//! `leno stat`: the calls that proxies counted within a few seconds, as servers (inbound) or as clients (outbound,
//! `--to`).

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use leno_model::settings::parse_duration;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use super::connect::{ClusterError, Connect};
use super::metrics::{self, Pages};
use super::peer::{Caller, Destination, View, destinations};
use super::pods;
use super::progress::sign_of_life_or_line;
use super::scrape::{Sample, Scrape};
use super::select::{Group, Scope, Selection};
use super::table::{Output, Table, show};

/// Longest measurement: 1 h.
const WINDOW_MAX: Duration = Duration::from_secs(60 * 60);

/// Options of `leno stat`.
#[derive(Args)]
pub(crate) struct Options {
    /// deploy, sts, ds, jobs, pods or ns, or one object as deploy/web
    #[arg(value_name = "KIND[/NAME]")]
    selection: Selection,
    /// Name of one object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    scope: Scope,
    /// Show calls that the workloads make, by destination: to one Service, as echo or echo.shop:50051, or to all if no
    /// value follows
    #[arg(long, value_name = "SERVICE", num_args = 0..=1, conflicts_with = "from")]
    to: Option<Option<Destination>>,
    /// Show only calls from clients with this service account, as web or shop/web; - means clients without an identity
    #[arg(long, value_name = "SERVICE-ACCOUNT")]
    from: Option<Caller>,
    /// How long to count calls: 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_window)]
    window: Duration,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// One row: the inbound calls that the proxies of some Pods counted, or their outbound calls to one destination.
#[derive(Debug, Serialize)]
struct Row {
    namespace: String,
    name: String,
    /// The destination of outbound calls: a Service's port, or the addresses of no Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    pods: usize,
    /// Pods that have a proxy.
    meshed_pods: usize,
    #[serde(flatten)]
    traffic: Option<Figures>,
}

/// Figures derived from [`Traffic`]. A figure is `None` if there was nothing to measure.
#[derive(Debug, PartialEq, Serialize)]
struct Figures {
    calls_per_second: f64,
    /// Share of answered calls that succeeded, 0 to 1.
    success_rate: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// Share of calls over mutual TLS, 0 to 1.
    tls_share: Option<f64>,
    tcp_connections: f64,
}

/// Raw counts, which can be added up.
#[derive(Clone, Debug, Default, PartialEq)]
struct Traffic {
    calls: f64,
    secure_calls: f64,
    successes: f64,
    responses: f64,
    /// For each bound in microseconds: the number of responses that took at most this time.
    latencies: BTreeMap<u64, f64>,
    connections: f64,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let selection = self.selection.with_name(self.name.as_ref())?;
        let rows = super::block_on(self.measure(&selection))??;
        show(self.output, &rows, |rows| table(rows, &self.view(), self.window))?;
        Ok(())
    }

    fn view(&self) -> View {
        match (&self.to, &self.from) {
            (Some(only), _) => View::Outbound(only.clone()),
            (None, from) => View::Inbound(from.clone()),
        }
    }

    async fn measure(&self, selection: &Selection) -> Result<Vec<Row>, ClusterError> {
        let cluster = self.connect.cluster().await?;
        let groups = selection.groups(&cluster, &self.scope).await?;
        let meshed = || groups.iter().flat_map(|group| &group.pods).filter(|pod| pods::is_meshed(pod));
        let waiting = format!("counting the calls of {} proxies for {} s", meshed().count(), self.window.as_secs());
        let progress = sign_of_life_or_line(&waiting);
        let start = Instant::now();
        let (running, starting): (Vec<&Pod>, Vec<&Pod>) = meshed().partition(|pod| pods::has_proxy_started(pod));
        let mut before = metrics::pages(&cluster, running.iter().copied()).await;
        sleep_until(start + self.window).await;
        // Skip proxies that did not answer the first query; they were reported after that query.
        let answered = running.into_iter().filter(|pod| before.contains_key(&metrics::key(pod)));
        let mut after = metrics::pages(&cluster, answered).await;
        let started = metrics::pages_of_started(&cluster, &starting).await;
        // A proxy that has started meanwhile has counted from zero, so compare with an empty page.
        before.extend(started.keys().map(|key| (key.clone(), Scrape::default())));
        after.extend(started);
        progress.finish_and_clear();
        let view = self.view();
        Ok(groups.iter().flat_map(|group| rows(group, &view, &before, &after, self.window)).collect())
    }
}

/// The rows of a group: one row for inbound calls, or one row for each destination.
fn rows(group: &Group, view: &View, before: &Pages, after: &Pages, window: Duration) -> Vec<Row> {
    let of_group = group.pods.iter().filter_map(|pod| {
        let key = metrics::key(pod);
        Some((before.get(&key)?, after.get(&key)?))
    });
    let grown: Vec<(Scrape, &Scrape)> = of_group.map(|(before, after)| (after.since(before), after)).collect();
    let row = |to: Option<String>, traffic: Option<Traffic>| Row {
        namespace: group.namespace.clone(),
        name: group.name.clone(),
        to,
        pods: group.pods.len(),
        meshed_pods: group.pods.iter().filter(|pod| pods::is_meshed(pod)).count(),
        traffic: traffic.map(|traffic| traffic.figures(window)),
    };
    let sum = |counts: &dyn Fn(&Sample) -> bool| {
        let traffic = grown.iter().map(|(grown, now)| Traffic::of(grown, now, counts));
        traffic.reduce(|sum, next| sum.plus(&next))
    };
    match view {
        View::Inbound(caller) => {
            vec![row(
                None,
                sum(&|sample| {
                    view.has(sample) && caller.as_ref().is_none_or(|caller| caller.made(sample, &group.namespace))
                }),
            )]
        }
        View::Outbound(only) => {
            let is_wanted = |to: &Destination| only.as_ref().is_none_or(|only| only.covers(to, &group.namespace));
            let found = destinations(grown.iter().map(|(grown, _)| grown)).into_iter().filter(is_wanted);
            let of_destination = |to: Destination| {
                row(Some(to.to_string()), sum(&|sample| view.has(sample) && Destination::of(sample) == to))
            };
            found.map(of_destination).collect()
        }
    }
}

impl Traffic {
    /// The counts of one proxy for the series that `counts` selects. Counters come from `grown`. The number of open
    /// connections comes from the second page, `now`.
    fn of(grown: &Scrape, now: &Scrape, counts: impl Fn(&Sample) -> bool) -> Self {
        let sum = |scrape: &Scrape, name: &str, label: Option<(&str, &str)>| {
            let labels = label.as_slice();
            // `Iterator::sum` of no floats is -0.0, which prints with its sign.
            scrape.all(name, labels).filter(|sample| counts(sample)).fold(0.0, |sum, sample| sum + sample.value)
        };
        let mut latencies = BTreeMap::new();
        for bucket in grown.all("response_latency_ms_bucket", &[]).filter(|bucket| counts(bucket)) {
            *latencies.entry(bound_us(bucket.label("le"))).or_default() += bucket.value;
        }
        // Count only connections on the peer's side, not connections to the local application.
        let peer = now.all("tcp_open_connections", &[]).filter(|sample| {
            let far = if sample.label("direction") == "inbound" { "src" } else { "dst" };
            sample.label("peer") == far && counts(sample)
        });
        Self {
            calls: sum(grown, "request_total", None),
            secure_calls: sum(grown, "request_total", Some(("tls", "true"))),
            successes: sum(grown, "response_total", Some(("classification", "success"))),
            responses: sum(grown, "response_total", None),
            latencies,
            connections: peer.fold(0.0, |sum, sample| sum + sample.value),
        }
    }

    fn plus(mut self, other: &Self) -> Self {
        for (bound, count) in &other.latencies {
            *self.latencies.entry(*bound).or_default() += count;
        }
        Self {
            calls: self.calls + other.calls,
            secure_calls: self.secure_calls + other.secure_calls,
            successes: self.successes + other.successes,
            responses: self.responses + other.responses,
            latencies: self.latencies,
            connections: self.connections + other.connections,
        }
    }

    fn figures(&self, window: Duration) -> Figures {
        let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        Figures {
            calls_per_second: self.calls / window.as_secs_f64(),
            success_rate: share(self.successes, self.responses),
            p50_ms: self.quantile_ms(0.5),
            p99_ms: self.quantile_ms(0.99),
            tls_share: share(self.secure_calls, self.calls),
            tcp_connections: self.connections,
        }
    }

    /// Estimates a latency quantile as Prometheus' histogram_quantile does: linear within a bucket. A quantile above
    /// the last finite bound is reported as that bound.
    fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        let total = self.latencies.get(&u64::MAX).copied().filter(|total| *total > 0.0)?;
        let rank = quantile * total;
        let (mut low_us, mut below) = (0_u64, 0.0);
        for (&bound_us, &within) in &self.latencies {
            if within >= rank {
                let high_us = if bound_us == u64::MAX { low_us } else { bound_us };
                let part = if within > below { (rank - below) / (within - below) } else { 1.0 };
                return Some((low_us as f64 + (high_us - low_us) as f64 * part) / 1_000.0);
            }
            (low_us, below) = (bound_us, within);
        }
        None
    }
}

/// Upper bound of a bucket in microseconds; `u64::MAX` for the bucket without a bound.
fn bound_us(milliseconds: &str) -> u64 {
    let bound = milliseconds.parse::<f64>().ok().filter(|bound| bound.is_finite());
    // A cast from floating point saturates, so a large bound becomes `u64::MAX` at most.
    bound.map_or(u64::MAX, |milliseconds| (milliseconds * 1_000.0) as u64)
}

fn table(rows: &[Row], view: &View, window: Duration) -> String {
    let figures = ["MESHED", "#CALLS/S", "#SUCCESS", "#P50 MS", "#P99 MS", "#TLS", "#TCP"];
    let names: &[&str] = if view.is_outbound() { &["NAMESPACE", "NAME", "TO"] } else { &["NAMESPACE", "NAME"] };
    let mut table = Table::new(&[names, &figures].concat());
    for row in rows {
        let number = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| format!("{number:.1}"));
        let percent =
            |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0));
        let figures = row.traffic.as_ref();
        let mut cells = vec![row.namespace.clone(), row.name.clone()];
        cells.extend(row.to.clone());
        cells.extend([
            format!("{}/{}", row.meshed_pods, row.pods),
            number(figures.map(|figures| figures.calls_per_second)),
            percent(figures.and_then(|figures| figures.success_rate)),
            number(figures.and_then(|figures| figures.p50_ms)),
            number(figures.and_then(|figures| figures.p99_ms)),
            percent(figures.and_then(|figures| figures.tls_share)),
            figures.map_or_else(|| "-".to_owned(), |figures| format!("{:.0}", figures.tcp_connections)),
        ]);
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
    format!("{table}\nover {} s, {}\n", window.as_secs(), view.caption())
}

fn parse_window(text: &str) -> Result<Duration, String> {
    let window = parse_duration(text).filter(|window| (Duration::from_secs(1)..=WINDOW_MAX).contains(window));
    window.ok_or_else(|| "write a duration of 1s to 1h, as 10s".to_owned())
}

#[cfg(test)]
#[path = "stat_tests.rs"]
mod tests;
