//! `leno stat`: what proxies measured at their applications, over a few seconds.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use clap::Args;
use leno_model::settings::parse_duration;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use super::connect::{ClusterError, Connect};
use super::metrics::{self, Pages};
use super::pods;
use super::progress::sign_of_life;
use super::scrape::Scrape;
use super::select::{Group, Scope, Selection};
use super::table::{Output, Table, show};

/// Longest window.
const WINDOW_MAX: Duration = Duration::from_secs(60 * 60);

const INBOUND: (&str, &str) = ("direction", "inbound");

/// Options of `leno stat`.
#[derive(Args)]
pub(crate) struct Options {
    /// deploy, sts, ds, jobs, pods or ns, or one of them as deploy/web
    #[arg(value_name = "KIND[/NAME]")]
    selection: Selection,
    /// The name of one
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    scope: Scope,
    /// For how long calls are counted: 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_window)]
    window: Duration,
    /// How the numbers are shown
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// One line: what the proxies of some Pods measured of calls to their applications.
#[derive(Debug, Serialize)]
struct Row {
    namespace: String,
    name: String,
    pods: usize,
    /// Those that have a proxy.
    meshed_pods: usize,
    #[serde(flatten)]
    traffic: Option<Figures>,
}

/// Numbers for people; none where there was nothing to measure.
#[derive(Debug, PartialEq, Serialize)]
struct Figures {
    calls_per_second: f64,
    /// Of the calls that were answered, 0 to 1.
    success_rate: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// The part of the calls that came over mutual TLS, 0 to 1.
    tls_share: Option<f64>,
    tcp_connections: f64,
}

/// What was counted, which adds up.
#[derive(Clone, Debug, Default, PartialEq)]
struct Traffic {
    calls: f64,
    secure_calls: f64,
    successes: f64,
    responses: f64,
    /// Responses that took at most so many microseconds.
    latencies: BTreeMap<u64, f64>,
    connections: f64,
}

impl Options {
    /// Measures and shows.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let selection = self.selection.with_name(self.name.as_ref())?;
        let rows = super::block_on(self.measure(&selection))??;
        show(self.output, &rows, |rows| table(rows, self.window).to_string())?;
        Ok(())
    }

    async fn measure(&self, selection: &Selection) -> Result<Vec<Row>, ClusterError> {
        let cluster = self.connect.cluster().await?;
        let groups = selection.groups(&cluster, &self.scope).await?;
        let progress = sign_of_life("counting calls");
        let start = Instant::now();
        let meshed = || groups.iter().flat_map(|group| &group.pods).filter(|pod| pods::is_meshed(pod));
        let before = metrics::pages(&cluster, meshed()).await;
        sleep_until(start + self.window).await;
        // Whoever was silent was told of, and is left out.
        let after = metrics::pages(&cluster, meshed().filter(|pod| before.contains_key(&metrics::key(pod)))).await;
        progress.finish_and_clear();
        Ok(groups.iter().map(|group| row(group, &before, &after, self.window)).collect())
    }
}

fn row(group: &Group, before: &Pages, after: &Pages, window: Duration) -> Row {
    let pages = group.pods.iter().filter_map(|pod| {
        let key = metrics::key(pod);
        Some((before.get(&key)?, after.get(&key)?))
    });
    let traffic = pages.map(|(before, after)| Traffic::between(before, after)).reduce(|sum, next| sum.plus(&next));
    Row {
        namespace: group.namespace.clone(),
        name: group.name.clone(),
        pods: group.pods.len(),
        meshed_pods: group.pods.iter().filter(|pod| pods::is_meshed(pod)).count(),
        traffic: traffic.map(|traffic| traffic.figures(window)),
    }
}

impl Traffic {
    /// What was counted between two pages of one proxy.
    fn between(before: &Scrape, after: &Scrape) -> Self {
        let grown = after.since(before);
        let mut latencies = BTreeMap::new();
        for bucket in grown.all("response_latency_ms_bucket", &[INBOUND]) {
            *latencies.entry(bound_us(bucket.label("le"))).or_default() += bucket.value;
        }
        Self {
            calls: grown.sum("request_total", &[INBOUND]),
            secure_calls: grown.sum("request_total", &[INBOUND, ("tls", "true")]),
            successes: grown.sum("response_total", &[INBOUND, ("classification", "success")]),
            responses: grown.sum("response_total", &[INBOUND]),
            latencies,
            connections: after.sum("tcp_open_connections", &[INBOUND, ("peer", "src")]),
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

    /// The latency that this part of the responses was within, as Prometheus' histogram_quantile: evenly spread within a
    /// bucket, and what is beyond the last bound counts as that.
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

/// The upper bound of a bucket in whole microseconds; the largest number for the one without a bound.
fn bound_us(milliseconds: &str) -> u64 {
    let bound = milliseconds.parse::<f64>().ok().filter(|bound| bound.is_finite());
    // A conversion from floating point saturates.
    bound.map_or(u64::MAX, |milliseconds| (milliseconds * 1_000.0) as u64)
}

fn table(rows: &[Row], window: Duration) -> String {
    let mut table =
        Table::new(&["NAMESPACE", "NAME", "MESHED", "#CALLS/S", "#SUCCESS", "#P50 MS", "#P99 MS", "#TLS", "#TCP"]);
    for row in rows {
        let number = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| format!("{number:.1}"));
        let percent =
            |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0));
        let figures = row.traffic.as_ref();
        table.row([
            row.namespace.clone(),
            row.name.clone(),
            format!("{}/{}", row.meshed_pods, row.pods),
            number(figures.map(|figures| figures.calls_per_second)),
            percent(figures.and_then(|figures| figures.success_rate)),
            number(figures.and_then(|figures| figures.p50_ms)),
            number(figures.and_then(|figures| figures.p99_ms)),
            percent(figures.and_then(|figures| figures.tls_share)),
            figures.map_or_else(|| "-".to_owned(), |figures| format!("{:.0}", figures.tcp_connections)),
        ]);
    }
    if rows.is_empty() {
        return "nothing runs here; -n NAME or -A looks elsewhere\n".to_owned();
    }
    format!("{table}\nover {} s, calls to these workloads as their proxies counted them\n", window.as_secs())
}

fn parse_window(text: &str) -> Result<Duration, String> {
    let window = parse_duration(text).filter(|window| (Duration::from_secs(1)..=WINDOW_MAX).contains(window));
    window.ok_or_else(|| "write a duration of 1s to 1h, as 10s".to_owned())
}

#[cfg(test)]
#[path = "stat_tests.rs"]
mod tests;
