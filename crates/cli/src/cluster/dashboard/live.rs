//! Reads the current state of proxies while the page shows it: the endpoints in the balancers, and the open calls.

use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::{Duration, Instant, timeout};

use super::detail::is_at;
use super::mesh::{id, is_id};
use super::pages::clean;
use super::state::State;
use crate::cluster::source::{Growth, ProxyAt};
use crate::cluster::stat::streams::{Reading, streams};

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

/// Returns the endpoints of a Service in JSON. Each row has the state of one endpoint in the balancer of one proxy that
/// calls the Service.
pub(super) async fn endpoints(state: &State, wanted: &str) -> String {
    let callers = callers(state, wanted);
    let mut endpoints = Vec::new();
    for (proxy, _, page) in read(state, &callers, "/balancer").await {
        let Ok(Value::Object(mut page)) = serde_json::from_str(&page) else { continue };
        let Some(Value::Array(clusters)) = page.remove("clusters") else { continue };
        for cluster in clusters {
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
                endpoints.push(Value::Object(row));
            }
        }
    }
    let omitted = endpoints.len().saturating_sub(ENDPOINTS_MAX);
    endpoints.truncate(ENDPOINTS_MAX);
    clean(&json!({ "endpoints": endpoints, "omitted": omitted, "proxies": callers.len() }))
}

/// Returns the proxies that call a Service, and the Service's own proxies.
fn callers(state: &State, wanted: &str) -> Vec<ProxyAt> {
    let readings = state.readings.borrow();
    let callers = readings.proxies().filter(|(member, growth)| {
        let is_own = is_id(&member.proxy.namespace, &member.proxy.name, wanted);
        member.silent.is_none() && (is_own || calls_service(growth, wanted))
    });
    callers.map(|(member, _)| member.proxy.clone()).take(PROXIES_MAX).collect()
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
    streams: crate::cluster::stat::streams::Streams,
    /// Number of proxies that the dashboard asked, at most [`PROXIES_MAX`]. `proxies_omitted` is the number of the
    /// others.
    proxies: usize,
    proxies_omitted: usize,
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
    let proxies = all.get(..PROXIES_MAX).unwrap_or(&all);
    let now = read(state, proxies, "/calls?longer_than=500ms").await;
    let mut earlier = state.calls.borrow_mut();
    let (mut streams, _) = streams(earlier.comparable(&now), &now);
    earlier.keep(now);
    streams.omitted += streams.calls.len().saturating_sub(CALLS_MAX);
    streams.calls.truncate(CALLS_MAX);
    clean(&Calls { streams, proxies: proxies.len(), proxies_omitted: all.len() - proxies.len() })
}

/// Reads a page of each proxy. The result omits the proxies that do not answer in time.
pub(super) async fn read(state: &State, proxies: &[ProxyAt], path: &str) -> Vec<Reading> {
    let ask = |proxy: ProxyAt| async move {
        let page = timeout(ANSWER_MAX, state.proxies.page(&proxy, path)).await.ok()?.ok()?;
        Some((proxy, Instant::now(), page))
    };
    stream::iter(proxies.to_vec()).map(ask).buffered(AT_ONCE).filter_map(|read| async { read }).collect().await
}
