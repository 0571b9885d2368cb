//! Metrics of our own certificate.
//!
//! The metrics have the same names as in Linkerd's proxy, so that existing alerts on an expiring certificate also work
//! here.

use std::fmt;

use leno_identity::upkeep::IdentityMetrics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The metrics of a program that has an identity and relays no calls.
#[derive(Debug)]
struct OnlyIdentity(IdentityMetrics);

impl Collector for OnlyIdentity {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(&self.0, &mut encoder)
    }
}

/// The identity metrics as OpenMetrics text.
pub(crate) fn identity_text(metrics: IdentityMetrics) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(OnlyIdentity(metrics)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("writing to a String cannot fail");
    text
}

/// Writes the metrics of our own certificate; a proxy without an identity has none.
pub(super) fn encode(metrics: &IdentityMetrics, encoder: &mut DescriptorEncoder) -> fmt::Result {
    let name = "control_identity_cert_refreshes";
    let help = "Times that a certificate was asked for";
    let mut refreshes = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (result, count) in [("ok", metrics.good_refreshes), ("error", metrics.bad_refreshes)] {
        refreshes.encode_family(&[("result", result)])?.encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
    }
    for (name, help, time) in [
        (
            "control_identity_cert_expiration_timestamp_seconds",
            "When the certificate in use expires",
            metrics.expiration_since_1970,
        ),
        (
            "control_identity_cert_refresh_timestamp_seconds",
            "When the certificate in use was issued",
            metrics.last_refresh_since_1970,
        ),
    ] {
        encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&time.as_secs_f64())?;
    }
    if let Some(time) = metrics.anchors_expiration_since_1970 {
        let (name, help) = ("leno_trust_anchor_expiration_timestamp_seconds", "When the last trust anchor expires");
        encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&time.as_secs_f64())?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
