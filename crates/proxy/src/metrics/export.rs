//! The metrics of the whole proxy in the form that Prometheus reads: metrics of the relays, of the configuration, of
//! our certificate and of the process.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use leno_admin::Exposition;
use leno_identity::upkeep::IdentityMetrics;
use leno_relay::metrics::{RelayScrape, WorkerMetrics, gauge};
use leno_relay::trace::Outbox;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::{ConfigMetrics, ProcessMetrics};

/// Everything that one scrape exports.
#[derive(Debug)]
pub(crate) struct Scrape {
    relays: RelayScrape,
    config: ConfigMetrics,
    /// `None` without an identity.
    identity: Option<IdentityMetrics>,
    process: ProcessMetrics,
    /// `None` if calls are not traced.
    traces: Option<Arc<Outbox>>,
}

impl Scrape {
    /// Sums the workers' metrics.
    pub(crate) fn new(
        workers: &[Arc<WorkerMetrics>],
        config: ConfigMetrics,
        identity: Option<IdentityMetrics>,
        process: ProcessMetrics,
        now: Instant,
    ) -> Self {
        Self { relays: RelayScrape::new(workers, now), config, identity, process, traces: None }
    }

    /// Adds the metrics of traces.
    pub(crate) fn with_traces(self, traces: Option<Arc<Outbox>>) -> Self {
        Self { traces, ..self }
    }

    /// Returns the metrics as text in the format `exposition`. Only OpenMetrics has exemplars; the older Prometheus
    /// text has none.
    pub(crate) fn into_text(self, exposition: Exposition) -> String {
        let exemplars = self.relays.exemplars();
        let text = exposition.of_open_metrics(self.into_open_metrics());
        if exposition == Exposition::OpenMetrics { exemplars.add_to(text) } else { text }
    }

    /// Returns the metrics as OpenMetrics text, without exemplars; the text ends with `# EOF`.
    fn into_open_metrics(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("writing to a String cannot fail");
        text
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.relays.encode(&mut encoder)?;
        self.config.encode(&mut encoder)?;
        if let Some(identity) = &self.identity {
            super::identity::encode(identity, &mut encoder)?;
        }
        self.process.encode(&mut encoder)?;
        if let Some(traces) = &self.traces {
            super::traces::encode(traces, &mut encoder)?;
        }
        // Use a gauge, because readers of the older Prometheus text reject OpenMetrics' info type.
        gauge(&mut encoder, "leno_build_info", "Version of this proxy")?
            .encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?
            .encode_gauge(&1_u64)
    }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
