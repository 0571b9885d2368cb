//! Labels that tests use, and the exported text.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_model::mesh::ClusterKey;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::series::KEEP_UNHELD;
use super::{Direction, RelayScrape, TargetLabel, TlsLabel, TrafficLabels, WorkerMetrics};

/// Returns the name of a workload.
pub(super) fn workload(name: &str) -> String {
    format!("spiffe://example.org/ns/shop/sa/{name}")
}

/// Returns the label of mutual TLS with a workload.
pub(super) fn mutual(name: &str) -> TlsLabel {
    TlsLabel::Mutual(workload(name).parse().expect("it is a SPIFFE id"))
}

/// Returns the labels of a workload's calls to a port of our own application.
pub(super) fn inbound(port: u16, client: &str) -> TrafficLabels {
    TrafficLabels { direction: Direction::Inbound, target: TargetLabel::Port(port), server: None, tls: mutual(client) }
}

/// Returns the labels of our own application's calls to a cluster.
pub(super) fn outbound(port: u16) -> TrafficLabels {
    let key = ClusterKey { namespace: "default".into(), service: "echo".into(), port };
    TrafficLabels {
        direction: Direction::Outbound,
        target: TargetLabel::Service(key),
        server: None,
        tls: mutual("echo"),
    }
}

#[derive(Debug)]
struct Exported(RelayScrape);

impl Collector for Exported {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.encode(&mut encoder)
    }
}

/// Returns the text of a scrape of these workers.
pub(crate) fn scrape(workers: &[Arc<WorkerMetrics>]) -> String {
    scrape_at(workers, Instant::now())
}

/// Returns the text of a scrape after [`KEEP_UNHELD`], when the table has dropped the series to which no handle exists.
pub(super) fn late_scrape(workers: &[Arc<WorkerMetrics>]) -> String {
    let now = Instant::now();
    for after in [Duration::ZERO, Duration::ZERO, KEEP_UNHELD] {
        scrape_at(workers, now + after);
    }
    scrape_at(workers, now + KEEP_UNHELD)
}

fn scrape_at(workers: &[Arc<WorkerMetrics>], now: Instant) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exported(RelayScrape::new(workers, now))));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("writing to a String cannot fail");
    text
}

#[track_caller]
pub(super) fn assert_line(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no line {line} in\n{text}");
}
