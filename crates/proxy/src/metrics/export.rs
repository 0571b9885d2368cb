//! The numbers as Prometheus reads them.
//!
//! The names and labels of requests and connections are Linkerd's, so its dashboards work; names that start
//! with `leno_` are our own. The text is OpenMetrics 1.0, where a counter `request` has samples `request_total`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use leno_model::mesh::ClusterKey;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::cluster::{ClusterTotals, ResponseKind};
use super::worker::CountByReason;
use super::{ConfigMetrics, Counter, ProcessMetrics, TcpMetrics, WorkerMetrics};

/// What to send as `content-type`, so that Prometheus takes the text for OpenMetrics.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of every series about traffic.
const OUTBOUND: [(&str, &str); 2] = [("direction", "outbound"), ("tls", "disabled")];

type Labels = Vec<(&'static str, String)>;
type TcpCounter = (&'static str, &'static str, fn(&TcpMetrics) -> &Counter);
type WorkerCounter = (&'static str, &'static str, fn(&WorkerMetrics) -> &Counter);

const TCP_COUNTERS: [TcpCounter; 4] = [
    ("tcp_open", "Connections opened", |tcp| &tcp.open_total),
    ("tcp_close", "Connections closed", |tcp| &tcp.close_total),
    ("tcp_read_bytes", "Bytes read from peers", |tcp| &tcp.read_bytes_total),
    ("tcp_write_bytes", "Bytes written to peers", |tcp| &tcp.write_bytes_total),
];

const WORKER_COUNTERS: [WorkerCounter; 4] = [
    ("leno_cancelled", "Calls that the client cancelled or left", |worker| &worker.cancelled_total),
    ("leno_deadline_exceeded", "Calls ended by the proxy at their deadline", |worker| &worker.deadline_exceeded_total),
    ("leno_resent", "Calls sent elsewhere because they were refused unprocessed", |worker| &worker.resent_total),
    ("leno_queue_full", "Calls refused because a queue was full", |worker| &worker.queue_full_total),
];

/// Everything that one scrape exports.
#[derive(Debug)]
pub(crate) struct Scrape {
    workers: Vec<Arc<WorkerMetrics>>,
    clusters: Vec<(Labels, ClusterTotals)>,
    config: ConfigMetrics,
    process: ProcessMetrics,
}

impl Scrape {
    /// Sums the workers' numbers.
    pub(crate) fn new(workers: &[Arc<WorkerMetrics>], config: ConfigMetrics, process: ProcessMetrics) -> Self {
        Self { workers: workers.to_vec(), clusters: sum_clusters(workers), config, process }
    }

    /// The text.
    pub(crate) fn into_text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("writing to a String cannot fail");
        text
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.encode_requests(&mut encoder)?;
        self.encode_tcp(&mut encoder)?;
        self.encode_workers(&mut encoder)?;
        encode_config(&self.config, &mut encoder)?;
        encode_process(&self.process, &mut encoder)?;
        // A gauge rather than OpenMetrics' info, which readers of the older Prometheus text refuse.
        gauge(&mut encoder, "leno_build_info", "Version of this proxy")?
            .encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?
            .encode_gauge(&1_u64)
    }
}

impl Scrape {
    fn encode_requests(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut requests = counter(encoder, "request", "Calls received")?;
        for (labels, totals) in &self.clusters {
            encode_count(requests.encode_family(labels)?, totals.requests)?;
        }
        let mut responses = counter(encoder, "response", "Calls answered")?;
        for (labels, totals) in &self.clusters {
            for (kind, count) in &totals.responses {
                encode_count(responses.encode_family(&(labels.clone(), response_labels(*kind)))?, *count)?;
            }
            if totals.other_responses > 0 {
                let others = (labels.clone(), [("status_code", "other")]);
                encode_count(responses.encode_family(&others)?, totals.other_responses)?;
            }
        }
        let help = "Milliseconds from a call's headers to its response's end";
        let mut latency = encoder.encode_descriptor("response_latency_ms", help, None, MetricType::Histogram)?;
        for (labels, totals) in &self.clusters {
            let (sum_ms, count, buckets) = (totals.latency.sum_ms(), totals.latency.count(), totals.latency.buckets());
            latency.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum_ms, count, &buckets, None)?;
        }
        let mut in_flight = gauge(encoder, "leno_requests_in_flight", "Calls not ended yet")?;
        for (labels, totals) in &self.clusters {
            in_flight.encode_family(labels)?.encode_gauge(&totals.in_flight)?;
        }
        Ok(())
    }

    fn encode_tcp(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let sum = |get: &dyn Fn(&WorkerMetrics) -> u64| self.workers.iter().map(|worker| get(worker)).sum::<u64>();
        for (name, help, get) in TCP_COUNTERS {
            let mut metric = counter(encoder, name, help)?;
            let (src, dst) = (sum(&|w| get(&w.downstream).get()), sum(&|w| get(&w.upstream).get()));
            encode_count(metric.encode_family(&tcp_labels("src"))?, src)?;
            encode_count(metric.encode_family(&tcp_labels("dst"))?, dst)?;
        }
        let mut open = gauge(encoder, "tcp_open_connections", "Connections open now")?;
        let src = sum(&|w| w.downstream.open_connections.get());
        let dst = sum(&|w| w.upstream.open_connections.get());
        open.encode_family(&tcp_labels("src"))?.encode_gauge(&src)?;
        open.encode_family(&tcp_labels("dst"))?.encode_gauge(&dst)
    }

    fn encode_workers(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        for (name, help, get) in WORKER_COUNTERS {
            encode_count(counter(encoder, name, help)?, self.workers.iter().map(|worker| get(worker).get()).sum())?;
        }
        let mut abuse = counter(encoder, "leno_abuse_closed", "Connections and calls ended for abuse, by kind")?;
        for (kind, count) in sum_reasons(&self.workers, |worker| &worker.abuse) {
            encode_count(abuse.encode_family(&[("kind", kind)])?, count)?;
        }
        let mut errors = counter(encoder, "leno_proxy_errors", "Errors answered by the proxy itself, by reason")?;
        for (why, count) in sum_reasons(&self.workers, |worker| &worker.proxy_errors) {
            encode_count(errors.encode_family(&[("why", why)])?, count)?;
        }
        Ok(())
    }
}

fn encode_config(config: &ConfigMetrics, encoder: &mut DescriptorEncoder) -> fmt::Result {
    let mut reloads = counter(encoder, "leno_config_reloads", "Times that changed configuration files were read")?;
    encode_count(reloads.encode_family(&[("result", "success")])?, config.good_reloads)?;
    encode_count(reloads.encode_family(&[("result", "failure")])?, config.bad_reloads)?;
    gauge(encoder, "leno_config_problems", "Problems in the configuration files as they are now")?
        .encode_gauge(&config.problems)?;
    let help = "When configuration files were last read without a problem";
    gauge(encoder, "leno_config_last_success_timestamp_seconds", help)?
        .encode_gauge(&config.last_success_since_1970.as_secs_f64())
}

fn encode_process(process: &ProcessMetrics, encoder: &mut DescriptorEncoder) -> fmt::Result {
    if let Some(seconds) = process.cpu_seconds {
        counter(encoder, "process_cpu_seconds", "Processor time used, user and system")?
            .encode_counter::<NoLabelSet, f64, f64>(&seconds, None)?;
    }
    let gauges = [
        ("process_resident_memory_bytes", "Memory in RAM", process.resident_bytes),
        ("process_virtual_memory_bytes", "Address space", process.virtual_bytes),
        ("process_open_fds", "Open files and sockets", process.open_fds),
        ("process_max_fds", "Most files and sockets that may be open", process.max_fds),
        ("process_threads", "Threads", process.threads),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            gauge(encoder, name, help)?.encode_gauge(&value)?;
        }
    }
    gauge(encoder, "process_start_time_seconds", "When the process started")?
        .encode_gauge(&process.started_since_1970.as_secs_f64())
}

fn counter<'a>(encoder: &'a mut DescriptorEncoder, name: &'a str, help: &str) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}

fn gauge<'a>(encoder: &'a mut DescriptorEncoder, name: &'a str, help: &str) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)
}

fn encode_count(mut metric: MetricEncoder, count: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, u64, f64>(&count, None)
}

/// Every cluster's numbers, and first those of calls that belong to none.
fn sum_clusters(workers: &[Arc<WorkerMetrics>]) -> Vec<(Labels, ClusterTotals)> {
    let mut unknown = ClusterTotals::default();
    let mut known = BTreeMap::<ClusterKey, ClusterTotals>::new();
    for worker in workers {
        worker.unknown().add_to(&mut unknown);
        for (key, cluster) in worker.take_clusters() {
            cluster.add_to(known.entry(key).or_default());
        }
    }
    let unknown = (outbound_labels(), unknown);
    [unknown].into_iter().chain(known.into_iter().map(|(key, totals)| (cluster_labels(&key), totals))).collect()
}

/// Every reason's count; those beyond the tables' size count as `other`.
fn sum_reasons(
    workers: &[Arc<WorkerMetrics>],
    reasons: fn(&WorkerMetrics) -> &CountByReason,
) -> BTreeMap<&'static str, u64> {
    let mut totals = BTreeMap::new();
    for table in workers.iter().map(|worker| reasons(worker)) {
        let others = Some(("other", table.others())).filter(|(_, count)| *count > 0);
        for (reason, count) in table.counts().chain(others) {
            *totals.entry(reason).or_default() += count;
        }
    }
    totals
}

fn outbound_labels() -> Labels {
    OUTBOUND.map(|(name, value)| (name, value.to_owned())).to_vec()
}

fn cluster_labels(key: &ClusterKey) -> Labels {
    let ClusterKey { namespace, service, port } = key;
    let mut labels = outbound_labels();
    labels.push(("authority", format!("{service}.{namespace}.svc.cluster.local:{port}")));
    labels.push(("dst_namespace", namespace.to_string()));
    labels.push(("dst_service", service.to_string()));
    labels.push(("dst_port", port.to_string()));
    labels
}

fn response_labels(kind: ResponseKind) -> Labels {
    let classification = if kind.failed { "failure" } else { "success" };
    let grpc_status = kind.grpc_status.map(|status| status.to_string()).unwrap_or_default();
    vec![
        ("classification", classification.to_owned()),
        ("status_code", kind.http_status.to_string()),
        ("grpc_status", grpc_status),
    ]
}

fn tcp_labels(peer: &'static str) -> [(&'static str, &'static str); 3] {
    [OUTBOUND[0], OUTBOUND[1], ("peer", peer)]
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
