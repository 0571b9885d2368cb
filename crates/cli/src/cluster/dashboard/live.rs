//! Reads the current state of proxies while the page shows it: the endpoints in the balancers, and the open calls.

use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::{Duration, timeout};

use super::detail::is_at;
use super::mesh::{id, is_id};
use super::pages::clean;
use super::state::State;
use crate::cluster::clock::BootInstant;
use crate::cluster::printable::cut;
use crate::cluster::source::{Growth, ProxyAt};
use crate::cluster::stat::streams::{Reading, Streams, streams};

/// Maximum number of proxies that are read for one view.
const PROXIES_MAX: usize = 32;
/// Maximum number of proxies that are read at the same time.
const AT_ONCE: usize = 8;
/// Maximum time for a proxy to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Maximum number of endpoints in one answer.
const ENDPOINTS_MAX: usize = 1_000;
/// Maximum number of calls in one answer.
const CALLS_MAX: usize = 1_000;

/// The proxies that the dashboard read for an answer, and the proxies whose data the answer lacks.
#[derive(Debug, Serialize)]
struct Asked {
    /// Number of proxies that the dashboard asked, at most [`PROXIES_MAX`].
    proxies: usize,
    /// Number of further proxies, which the dashboard did not ask.
    proxies_omitted: usize,
    /// Number of asked proxies that gave no usable answer in time.
    proxies_silent: usize,
}

#[derive(Serialize)]
struct Endpoints {
    endpoints: Vec<Value>,
    /// Number of endpoints that are left out because of [`ENDPOINTS_MAX`].
    omitted: usize,
    /// Number of workers that did not answer their proxies in time. The list does not contain the endpoints of these
    /// workers.
    silent_workers: usize,
    #[serde(flatten)]
    asked: Asked,
}

/// Returns the endpoints of a Service in JSON. Each row has the state of one endpoint in the balancer of one proxy that
/// calls the Service.
pub(super) async fn endpoints(state: &State, wanted: &str) -> String {
    let (pages, asked) = read_some(state, callers(state, wanted), "/balancer").await;
    clean(&Endpoints::of(&pages, asked, wanted))
}

impl Endpoints {
    /// Collects the endpoints of a Service from `/balancer` pages.
    fn of(pages: &[Reading], asked: Asked, wanted: &str) -> Self {
        let mut all = Self { endpoints: Vec::new(), omitted: 0, silent_workers: 0, asked };
        for (proxy, _, page) in pages {
            match serde_json::from_str(page) {
                Ok(Value::Object(page)) => all.add(proxy, &page, wanted),
                _ => all.asked.proxies_silent += 1,
            }
        }
        all.omitted = cut(&mut all.endpoints, ENDPOINTS_MAX);
        all
    }

    fn add(&mut self, proxy: &ProxyAt, page: &Map<String, Value>, wanted: &str) {
        let list = |field: &str| page.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        self.silent_workers += list("silent_workers").len();
        for cluster in list("clusters") {
            let text = |field: &str| cluster.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            if !is_at(&text("cluster"), wanted) {
                continue;
            }
            let by = id(&proxy.namespace, &proxy.name);
            for endpoint in cluster.get("endpoints").and_then(Value::as_array).into_iter().flatten() {
                let Value::Object(endpoint) = endpoint else { continue };
                let mut row = Map::new();
                row.insert("seen_by".into(), by.clone().into());
                row.insert("proxy".into(), proxy.instance().into());
                row.insert("worker".into(), cluster.get("worker").cloned().unwrap_or_default());
                row.insert("cluster".into(), text("cluster").into());
                row.insert("policy".into(), cluster.get("policy").cloned().unwrap_or_default());
                row.extend(endpoint.clone());
                self.endpoints.push(Value::Object(row));
            }
        }
    }
}

/// Returns the proxies that call a Service, and the Service's own proxies.
fn callers(state: &State, wanted: &str) -> Vec<ProxyAt> {
    let readings = state.readings.borrow();
    let callers = readings.proxies().filter(|(member, growth)| {
        let is_own = is_id(&member.proxy.namespace, &member.proxy.name, wanted);
        member.silent.is_none() && (is_own || calls_service(growth, wanted))
    });
    callers.map(|(member, _)| member.proxy.clone()).collect()
}

/// Whether a proxy has sent calls to a Service.
pub(super) fn calls_service(proxy: &Growth, wanted: &str) -> bool {
    proxy.now.all("request_total", &[]).any(|sample| {
        sample.label("direction") == "outbound"
            && is_id(sample.label("dst_namespace"), sample.label("dst_service"), wanted)
    })
}

#[derive(Serialize)]
struct Calls {
    #[serde(flatten)]
    streams: Streams,
    #[serde(flatten)]
    asked: Asked,
}

/// Returns the open calls of one workload or of all workloads, in JSON.
pub(super) async fn calls(state: &State, of: Option<&str>) -> String {
    let all: Vec<ProxyAt> = {
        let readings = state.readings.borrow();
        let answers = readings.members().filter(|member| member.silent.is_none());
        let wanted =
            answers.filter(|member| of.is_none_or(|of| is_id(&member.proxy.namespace, &member.proxy.name, of)));
        wanted.map(|member| member.proxy.clone()).collect()
    };
    let (now, mut asked) = read_some(state, all, "/calls?longer_than=500ms").await;
    let mut earlier = state.calls.borrow_mut();
    let (mut streams, unreadable) = streams(earlier.comparable(&now), &now);
    earlier.keep(now);
    asked.proxies_silent += unreadable.len();
    streams.omitted += cut(&mut streams.calls, CALLS_MAX);
    clean(&Calls { streams, asked })
}

/// Reads a page of each proxy, but of at most [`PROXIES_MAX`] proxies.
async fn read_some(state: &State, mut proxies: Vec<ProxyAt>, path: &str) -> (Vec<Reading>, Asked) {
    let proxies_omitted = cut(&mut proxies, PROXIES_MAX);
    let pages = read(state, &proxies, path).await;
    let asked = Asked { proxies: proxies.len(), proxies_omitted, proxies_silent: proxies.len() - pages.len() };
    (pages, asked)
}

/// Reads a page of each proxy. The result omits the proxies that do not answer in time.
pub(super) async fn read(state: &State, proxies: &[ProxyAt], path: &str) -> Vec<Reading> {
    let ask = |proxy: ProxyAt| async move {
        let page = timeout(ANSWER_MAX, state.proxies.page(&proxy, path)).await.ok()?.ok()?;
        Some((proxy, BootInstant::now(), page))
    };
    stream::iter(proxies.to_vec()).map(ask).buffered(AT_ONCE).filter_map(|read| async { read }).collect().await
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
