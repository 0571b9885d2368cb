//! Calls to our own application, under the names and labels of Linkerd's inbound routes. The numbers are sums of
//! [`TrafficMetrics`] over the callers, so a call needs no additional counting. The series of a caller end some time
//! after the caller's last connection. The sums still include the calls of that caller, because Prometheus would take a
//! smaller sum for a reset.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::histogram::{BOUNDS, BOUNDS_MS, HistogramTotals};
use super::labels::Labels;
use super::route::OTHER;
use super::text::{counter, encode_count, encode_seconds};
use super::traffic::TrafficTotals;
use super::{NoTlsReason, TrafficLabels, TrafficMetrics};

/// Calls to each port of our own application. There are few entries, because the metrics name only a few ports.
#[derive(Debug, Clone, Default)]
pub(super) struct Ports(BTreeMap<Labels, PortTotals>);

/// Calls to one port of our own application.
#[derive(Debug, Clone, Default)]
struct PortTotals {
    requests: u64,
    /// Number of responses by `:status`. The key `None` stands for responses whose status is not known, because a
    /// caller's series had no free counter for them.
    statuses: BTreeMap<Option<u16>, u64>,
    durations: HistogramTotals<BOUNDS>,
}

impl Ports {
    /// Adds the calls of a series that ends. Ignores a series of outbound calls.
    pub(super) fn add_ended(&mut self, labels: &TrafficLabels, metrics: &TrafficMetrics) {
        let mut totals = TrafficTotals::default();
        metrics.add_to(&mut totals);
        self.add(&labels.labels(), &totals);
    }

    fn add(&mut self, labels: &Labels, totals: &TrafficTotals) {
        let Some(labels) = port_labels(labels) else { return };
        let port = self.0.entry(labels).or_default();
        port.requests += totals.requests;
        port.durations.add(&totals.latency);
        for (kind, count) in &totals.responses {
            *port.statuses.entry(Some(kind.http_status)).or_default() += count;
        }
        let others = totals.other_successes + totals.other_failures + totals.other_denied;
        if others > 0 {
            *port.statuses.entry(None).or_default() += others;
        }
    }

    fn merge(&mut self, other: &Self) {
        for (labels, totals) in &other.0 {
            let port = self.0.entry(labels.clone()).or_default();
            port.requests += totals.requests;
            port.durations.add(&totals.durations);
            for (status, count) in &totals.statuses {
                *port.statuses.entry(*status).or_default() += count;
            }
        }
    }
}

/// Writes the number of inbound calls: the inbound calls in `traffic`, plus the calls of callers whose series have
/// `ended`. gRPC calls count as HTTP requests, as in Linkerd for ports without a `Server`.
pub(super) fn encode(
    traffic: &[(Labels, TrafficTotals)],
    ended: &[Ports],
    encoder: &mut DescriptorEncoder,
) -> fmt::Result {
    let mut ports = Ports::default();
    traffic.iter().for_each(|(labels, totals)| ports.add(labels, totals));
    ended.iter().for_each(|ended| ports.merge(ended));
    let Ports(ports) = ports;
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
