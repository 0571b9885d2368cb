//! Calls of callers, under the names and labels of Linkerd's inbound routes. The numbers are sums of
//! [`TrafficMetrics`](super::TrafficMetrics) over the callers, so they cost a call nothing.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::NoTlsReason;
use super::histogram::{BOUNDS, BOUNDS_MS, HistogramTotals};
use super::labels::Labels;
use super::route::OTHER;
use super::text::{counter, encode_count, encode_seconds};
use super::traffic::TrafficTotals;

/// Calls to one port of our own application.
#[derive(Debug, Default)]
struct PortTotals {
    requests: u64,
    /// Answers by `:status`; `None` for the answers that the series of a caller do not distinguish.
    statuses: BTreeMap<Option<u16>, u64>,
    durations: HistogramTotals<BOUNDS>,
}

/// Writes the calls in `traffic` that are inbound. Like Linkerd without a `Server`, this counts gRPC among HTTP.
pub(super) fn encode(traffic: &[(Labels, TrafficTotals)], encoder: &mut DescriptorEncoder) -> fmt::Result {
    let mut ports = BTreeMap::<Labels, PortTotals>::new();
    for (labels, totals) in traffic {
        let Some(labels) = port_labels(labels) else { continue };
        let port = ports.entry(labels).or_default();
        port.requests += totals.requests;
        port.durations.add(&totals.latency);
        for (kind, count) in &totals.responses {
            *port.statuses.entry(Some(kind.http_status)).or_default() += count;
        }
        if totals.other_responses > 0 {
            *port.statuses.entry(None).or_default() += totals.other_responses;
        }
    }
    let mut requests = counter(encoder, "inbound_http_requests", "Calls of callers that began, by port")?;
    for (labels, port) in &ports {
        encode_count(requests.encode_family(labels)?, port.requests)?;
    }
    let mut statuses = counter(encoder, "inbound_http_statuses", "Calls of callers that were answered, by port")?;
    for (labels, port) in &ports {
        for (status, count) in &port.statuses {
            let status = status.map_or_else(|| OTHER.to_owned(), |status| status.to_string());
            encode_count(statuses.encode_family(&(labels.clone(), [("status", status)]))?, *count)?;
        }
    }
    let (name, help) =
        ("inbound_http_request_duration_seconds", "Seconds from a call's headers to its response's end, by port");
    let mut durations = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    ports
        .iter()
        .try_for_each(|(labels, port)| encode_seconds(durations.encode_family(labels)?, &port.durations, &BOUNDS_MS))
}

/// Returns the labels of calls to a port of our own application; `None` for other calls. Leno has no inbound routes, so
/// the calls get the labels that Linkerd gives to its default routes.
fn port_labels(labels: &Labels) -> Option<Labels> {
    let value = |of: &str| labels.iter().find(|(name, _)| *name == of).map(|(_, value)| value);
    let is_probe = value("no_tls_reason").is_some_and(|reason| reason == NoTlsReason::Probe.label());
    Some(vec![
        ("parent_kind", "default".to_owned()),
        ("parent_port", value("target_port")?.clone()),
        ("route_kind", "default".to_owned()),
        ("route_name", if is_probe { "probe" } else { "default" }.to_owned()),
    ])
}

#[cfg(test)]
#[path = "inbound_tests.rs"]
mod tests;
