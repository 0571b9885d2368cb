//! Reads the proxies' metrics that Prometheus has recorded. `leno stat` uses them for windows that are too long to wait
//! for. Prometheus computes growth and sums; the tables read the results as they read the metrics pages of proxies.

mod answer;
mod query;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use leno_model::settings::format_duration;

use self::answer::Answer;
use self::query::Groups;
use self::server::{Server, Url};
use super::connect::ClusterError;
use super::installer::Installer;
use super::printable::line;
use super::progress::sign_of_life_or_line;
use super::scrape::Scrape;
use super::select::{Choice, Kind};
use super::source::{Growth, Measured};

pub(crate) use self::query::{Metric, Wanted};

/// Maximum number of queries that Prometheus answers at the same time.
const QUERIES_MAX: usize = 4;
/// Maximum number of Prometheus' warnings that the command prints.
const WARNINGS_MAX: usize = 3;

/// Options that name a Prometheus.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Ask the Prometheus at this URL instead of the proxies, for a window of 1m to 30d
    ///
    /// As `http://127.0.0.1:9090` or `https://example.org/prometheus`. The command asks for `increase()` of the metrics of
    /// the job leno-proxy, whose labels namespace, workload and pod select and name the rows. It needs no access to the
    /// cluster. Three things differ: the kind before a name, as deploy, selects nothing; without -n, all namespaces
    /// count; the number of Pods without a proxy is unknown. A series that begins within the window, as after the start
    /// of a Pod, loses the calls that it had counted before Prometheus first read it.
    #[arg(long, value_name = "URL", conflicts_with_all = ["admin", "context"])]
    prometheus: Option<Url>,
    /// File with a bearer token for --prometheus
    ///
    /// Never sent over http to another machine: use https, or an http address of this machine.
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    prometheus_token_file: Option<PathBuf>,
}

/// The recorded metrics of a group of proxies: their growth within the window, and their latest values.
#[derive(Default)]
struct Group {
    meshed_pods: usize,
    grown: Scrape,
    now: Scrape,
}

impl Options {
    /// Whether the user chose Prometheus instead of the proxies.
    pub(crate) fn is_given(&self) -> bool {
        self.prometheus.is_some()
    }

    /// Asks Prometheus how much the wanted metrics of the chosen workloads grew within the last `window`.
    ///
    /// # Errors
    /// If Prometheus does not answer all queries, or has no series of the chosen workloads.
    pub(crate) async fn measure(
        &self,
        choice: &Choice,
        wanted: &Wanted,
        window: Duration,
    ) -> Result<Vec<Measured>, ClusterError> {
        let Some(url) = &self.prometheus else {
            return Err(ClusterError::new("no Prometheus is named", "give its URL with --prometheus"));
        };
        let selection = choice.or_all(Kind::Workloads)?;
        if matches!(selection.kind, Kind::Makers(_)) && selection.name.is_none() {
            eprintln!("leno: Prometheus does not know the kinds of workloads: workloads of all kinds follow");
        }
        let groups = Groups::of(&selection, choice.scope.namespace());
        let server = Server::new(url.clone(), self.prometheus_token_file.as_deref())?;
        let progress = sign_of_life_or_line(&format!("asking {url} about the last {}", format_duration(window)));
        let measured = measure(&server, &groups, wanted, window).await;
        progress.finish_and_clear();
        measured
    }
}

async fn measure(
    server: &Server,
    groups: &Groups,
    wanted: &Wanted,
    window: Duration,
) -> Result<Vec<Measured>, ClusterError> {
    let pods = server.ask(&groups.count()).await?;
    let ask = |metric: &'static Metric| async move {
        Ok::<_, ClusterError>((metric, server.ask(&groups.query(wanted, metric, window)).await?))
    };
    let answers: Vec<(&Metric, Answer)> =
        stream::iter(wanted.metrics).map(ask).buffered(QUERIES_MAX).try_collect().await?;
    warn(std::iter::once(&pods).chain(answers.iter().map(|(_, answer)| answer)));

    let mut found = BTreeMap::<(String, String), Group>::new();
    for series in pods.series {
        let key = groups.key(&series.labels);
        // This cast cannot overflow: a cast from floating point saturates.
        found.entry(key).or_default().meshed_pods += series.value as usize;
    }
    for (metric, answer) in answers {
        for series in answer.series {
            let group = found.entry(groups.key(&series.labels)).or_default();
            let page = if metric.is_counter() { &mut group.grown } else { &mut group.now };
            page.add(metric.name(), &series.labels, series.value);
        }
    }
    if found.is_empty() {
        return Err(nothing(server, groups).await);
    }
    let measured = found.into_iter().map(|((namespace, name), group)| Measured {
        namespace,
        name,
        pods: None,
        meshed_pods: group.meshed_pods,
        proxies: vec![Growth { grown: group.grown, now: group.now }],
    });
    Ok(measured.collect())
}

/// Explains why Prometheus has no series of the chosen workloads.
async fn nothing(server: &Server, groups: &Groups) -> ClusterError {
    let url = server.url();
    match server.ask(&Groups::any()).await {
        Err(error) => error,
        Ok(any) if any.series.is_empty() => ClusterError::new(
            format!("Prometheus at {url} reads no target of the job leno-proxy with the labels namespace and workload"),
            format!(
                "with the Prometheus Operator: {}; without it, the scrape_configs of docs/monitoring/prometheus.yml; the page \
                 Targets of Prometheus shows the result",
                Installer::set_with_either("monitoring.enabled=true")
            ),
        ),
        Ok(_) => ClusterError::new(
            format!("Prometheus at {url} knows no {groups}"),
            "check the name and the namespace, or leave them out to see all workloads",
        ),
    }
}

/// Prints each warning of Prometheus once. A warning means that a figure may be too small.
fn warn<'a>(answers: impl Iterator<Item = &'a Answer>) {
    let warnings: BTreeSet<&String> = answers.flat_map(|answer| &answer.warnings).collect();
    for warning in warnings.iter().take(WARNINGS_MAX) {
        eprintln!("leno: the figures may be incomplete: Prometheus warns: {}", line(warning));
    }
    if warnings.len() > WARNINGS_MAX {
        eprintln!("leno: Prometheus has {} more warnings", warnings.len() - WARNINGS_MAX);
    }
}

#[cfg(test)]
#[path = "prometheus_tests.rs"]
pub(crate) mod tests;
