//! Reads the proxies periodically, and turns the readings into snapshots for the page.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep};

use super::configuration::Configurations;
use super::mesh::{Id, Mesh, ServiceRow};
use super::pages::clean;
use super::problems::{Facts, Problem, problems};
use super::state::State;
use crate::cluster::reader::{self, News};
use crate::cluster::readings::{Member, Readings, SECOND};
use crate::cluster::source::Source;
use crate::cluster::stat::methods;

/// Name prefixes of the metrics that the page needs. Other metrics are not parsed: that would take most of the time.
const PREFIXES: [&str; 13] = [
    "request_total",
    "response_total",
    "response_latency_ms_bucket",
    "leno_method_",
    "outbound_http_route_",
    "outbound_grpc_route_",
    "leno_route_unsent_",
    "inbound_http_authz_",
    "inbound_tcp_authz_",
    "control_identity_cert_",
    "leno_trust_anchor_expiration",
    "leno_con",
    "leno_build_info",
];
/// Interval at which the dashboard reads `/config` of the proxies that report a problem with their configuration.
const CONFIGURATION_EVERY: Duration = Duration::from_secs(15);
/// Maximum time for which [`collect_for`] waits for slow proxies after the end of its window.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(20);
/// Number of methods in the overview's list of the methods with the highest p99.
const SLOWEST: usize = 8;
/// Number of points of a small chart, which covers the last 10 minutes.
const SPARK_POINTS: usize = 60;
/// After each snapshot, the task sleeps for at least this factor times the duration of the snapshot, so that a large
/// mesh does not keep a processor busy.
const SHARE: u32 = 4;

/// The figures that the overview shows.
#[derive(Serialize)]
struct Snapshot<'a> {
    version: u64,
    every_s: f64,
    proxies: usize,
    counted: usize,
    silent: usize,
    omitted: usize,
    services: Vec<ServiceRow>,
    problems: &'a [Problem],
    slowest: Vec<&'a methods::Row>,
    rates: BTreeMap<&'a Id, Vec<Option<f64>>>,
}

/// The result of [`collect_for`].
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    /// Number of proxies that were read at least twice.
    pub(crate) proxies: usize,
    /// Number of proxies that were too slow to be read twice, but may still answer.
    pub(crate) unread: usize,
    pub(crate) problems: Vec<Problem>,
}

/// Collects readings for `window`, and returns the problems that they show. If necessary, continues after the window,
/// but for at most about [`LAST_ANSWERS_MAX`], until:
///
/// - each proxy has been read twice, or has failed to answer
/// - each proxy that reports problems with its configuration has been asked for these problems
pub(super) async fn collect_for(source: &Source, state: &State, window: Duration) -> Found {
    let unread = || {
        let is_unread = |member: &&Member| !member.is_counted && member.silent.is_none();
        state.readings.borrow().members().filter(is_unread).count()
    };
    let missing = || state.configuration.borrow().missing(&state.readings.borrow());
    let is_any_missing = || !missing().is_empty();
    let enough = async {
        sleep(window).await;
        while (unread() > 0 || is_any_missing()) && state.elapsed() < window + LAST_ANSWERS_MAX {
            sleep(state.every).await;
        }
    };
    tokio::select! {
        never = collect(source, state) => match never {},
        () = enough => {}
    }
    let missing = missing();
    state.configuration.borrow_mut().unasked.extend(missing);
    snapshot(state);
    Found {
        proxies: state.readings.borrow().members().filter(|member| member.is_counted).count(),
        unread: unread(),
        problems: state.problems.take(),
    }
}

/// Collects readings and snapshots, and never returns.
pub(super) async fn collect(source: &Source, state: &State) -> Infallible {
    let (sender, news) = unbounded_channel();
    state.readings.borrow_mut().take(News::Proxies(state.proxies.iter().cloned().collect()));
    tokio::select! {
        never = reader::read(source, &state.proxies, state.every, &PREFIXES, &sender) => never,
        never = snapshots(state, news) => never,
        never = configurations(state) => never,
    }
}

async fn snapshots(state: &State, mut news: UnboundedReceiver<News>) -> Infallible {
    loop {
        let began = Instant::now();
        while let Ok(news) = news.try_recv() {
            state.readings.borrow_mut().take(news);
        }
        snapshot(state);
        // Make the first snapshots more often. Figures need two readings of a proxy, and the page must show them soon.
        let pause = if state.snapshot.borrow().0 < 10 { state.every / 4 } else { state.every };
        sleep(pause.max(began.elapsed() * SHARE)).await;
    }
}

fn snapshot(state: &State) {
    let readings = state.readings.borrow();
    let mesh = Mesh::of(&readings);
    state.history.borrow_mut().add(&mesh, state.elapsed());
    state.denials.borrow_mut().take(&readings, state.elapsed());
    let denials = state.denials.borrow().rows(state.elapsed(), |_| true);
    let methods = methods_of(&readings);
    let configuration = state.configuration.borrow();
    let facts = Facts {
        readings: &readings,
        mesh: &mesh,
        methods: &methods,
        denials: &denials,
        configuration: &configuration,
        options: state.options.as_deref(),
        period: state.period,
        now: SystemTime::now(),
    };
    *state.problems.borrow_mut() = problems(&facts);
    let mut slowest: Vec<&methods::Row> = methods.iter().filter(|row| row.figures.p99_ms.is_some()).collect();
    slowest.sort_by(|a, b| b.figures.p99_ms.partial_cmp(&a.figures.p99_ms).unwrap_or(std::cmp::Ordering::Equal));
    slowest.truncate(SLOWEST);
    let (history, problems) = (state.history.borrow(), state.problems.borrow());
    let version = state.snapshot.borrow().0 + 1;
    let snapshot = Snapshot {
        version,
        every_s: state.every.as_secs_f64(),
        proxies: readings.members().count(),
        counted: readings.members().filter(|member| member.is_counted).count(),
        silent: readings.members().filter(|member| member.silent.is_some()).count(),
        omitted: mesh.omitted,
        services: mesh.services(),
        problems: &problems,
        slowest,
        rates: history.rates(SPARK_POINTS),
    };
    let bytes = clean(&snapshot).into();
    drop((history, problems));
    *state.snapshot.borrow_mut() = (version, bytes);
    *state.mesh.borrow_mut() = mesh;
}

/// Returns the rows of the methods that received a call.
fn methods_of(readings: &Readings) -> Vec<methods::Row> {
    let rows = readings.measured().flat_map(|measured| methods::rows(measured, None, SECOND));
    rows.filter(|row| row.figures.calls_per_second > 0.0 || row.figures.success_rate.is_some()).collect()
}

/// Periodically reads the problems that proxies have with their configuration; never returns.
async fn configurations(state: &State) -> Infallible {
    loop {
        let read = Configurations::read(state).await;
        state.configuration.replace(read);
        let latest = Instant::now() + CONFIGURATION_EVERY;
        loop {
            sleep(state.every).await;
            // A proxy's metrics show only after the first readings that it has problems. Ask for them soon, not after
            // [`CONFIGURATION_EVERY`].
            let is_any_missing = !state.configuration.borrow().missing(&state.readings.borrow()).is_empty();
            if is_any_missing || Instant::now() >= latest {
                break;
            }
        }
    }
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
