//! What is counted about configuration.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::DescriptorEncoder;

use super::text::{counter, encode_count, gauge};

/// Numbers about the configuration directory, kept by the control thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConfigMetrics {
    /// Times that changed files were taken in without a problem.
    pub(crate) good_reloads: u64,
    /// Times that changed files had a problem.
    pub(crate) bad_reloads: u64,
    /// Problems in the files as they are now.
    pub(crate) problems: usize,
    /// When files were last taken in without a problem; 1970 when they never were.
    pub(crate) last_success_since_1970: Duration,
}

impl ConfigMetrics {
    /// These numbers after files were read that had this many problems.
    pub(crate) fn after_read(mut self, problems: usize, now: SystemTime) -> Self {
        self.problems = problems;
        if problems > 0 {
            self.bad_reloads += 1;
        } else {
            self.good_reloads += 1;
            self.last_success_since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        }
        self
    }

    /// Writes these numbers.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut reloads = counter(encoder, "leno_config_reloads", "Times that changed configuration files were read")?;
        encode_count(reloads.encode_family(&[("result", "success")])?, self.good_reloads)?;
        encode_count(reloads.encode_family(&[("result", "failure")])?, self.bad_reloads)?;
        gauge(encoder, "leno_config_problems", "Problems in the configuration files as they are now")?
            .encode_gauge(&self.problems)?;
        let help = "When configuration files were last read without a problem";
        gauge(encoder, "leno_config_last_success_timestamp_seconds", help)?
            .encode_gauge(&self.last_success_since_1970.as_secs_f64())
    }
}
