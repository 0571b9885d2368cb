//! What is counted about our own certificate.
//!
//! The names are those that Linkerd's proxy exports now, so that alerts on an expiring certificate work.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Numbers about our own certificate, kept by the control thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IdentityMetrics {
    /// When the certificate in use expires.
    pub(crate) expiration_since_1970: Duration,
    /// When the certificate in use was issued.
    pub(crate) last_refresh_since_1970: Duration,
    /// Certificates that were issued, the first one included.
    pub(crate) good_refreshes: u64,
    /// Times that no certificate was issued.
    pub(crate) bad_refreshes: u64,
}

impl IdentityMetrics {
    /// These numbers after a certificate was issued.
    pub(crate) fn after_refresh(mut self, now: SystemTime, not_after: SystemTime) -> Self {
        self.good_refreshes += 1;
        self.last_refresh_since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.expiration_since_1970 = not_after.duration_since(UNIX_EPOCH).unwrap_or_default();
        self
    }

    /// These numbers after none was issued.
    pub(crate) fn after_failure(mut self) -> Self {
        self.bad_refreshes += 1;
        self
    }

    /// Writes them; a proxy without an identity has none.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let name = "control_identity_cert_refreshes";
        let help = "Times that a certificate was asked for";
        let mut refreshes = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (result, count) in [("ok", self.good_refreshes), ("error", self.bad_refreshes)] {
            refreshes.encode_family(&[("result", result)])?.encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
        }
        for (name, help, time) in [
            (
                "control_identity_cert_expiration_timestamp_seconds",
                "When the certificate in use expires",
                self.expiration_since_1970,
            ),
            (
                "control_identity_cert_refresh_timestamp_seconds",
                "When the certificate in use was issued",
                self.last_refresh_since_1970,
            ),
        ] {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&time.as_secs_f64())?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
