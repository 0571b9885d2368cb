//! Metrics of the configuration.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::DescriptorEncoder;

use leno_relay::metrics::{counter, encode_count, gauge};

/// Metrics of the configuration, kept by the control thread. With a control plane instead of a directory, each answer
/// of the control plane is counted as a reload without a problem.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConfigMetrics {
    /// Number of reloads of changed files that found no problem.
    pub(crate) good_reloads: u64,
    /// Number of reloads of changed files that found a problem.
    pub(crate) bad_reloads: u64,
    /// Problems in the current files.
    pub(crate) problems: usize,
    /// Time of the last reload without a problem; 1970 if there was none.
    pub(crate) last_success_since_1970: Duration,
    /// Whether a stream to the control plane is open. `None` if the configuration comes from a directory.
    pub(crate) is_connected: Option<bool>,
    /// Number of names that the control plane refuses because of a limit.
    pub(crate) refused_names: usize,
}

impl ConfigMetrics {
    /// Returns the metrics after one more reload, which found this number of problems.
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

    /// Returns the metrics with a new value of `is_connected`, after a stream to the control plane has begun or ended.
    pub(crate) fn with_connection(mut self, is_connected: bool) -> Self {
        self.is_connected = Some(is_connected);
        self
    }

    /// Returns the metrics with a new value of `refused_names`.
    pub(crate) fn with_refused_names(mut self, refused_names: usize) -> Self {
        self.refused_names = refused_names;
        self
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut reloads = counter(encoder, "leno_config_reloads", "Times that changed configuration files were read")?;
        encode_count(reloads.encode_family(&[("result", "success")])?, self.good_reloads)?;
        encode_count(reloads.encode_family(&[("result", "failure")])?, self.bad_reloads)?;
        gauge(encoder, "leno_config_problems", "Problems in the configuration files as they are now")?
            .encode_gauge(&self.problems)?;
        if let Some(is_connected) = self.is_connected {
            let help = "Whether this proxy is connected to a control plane";
            gauge(encoder, "leno_control_plane_connected", help)?.encode_gauge(&u64::from(is_connected))?;
            let help = "Names that the control plane refuses because of a limit, and sends no updates of; see the log";
            gauge(encoder, "leno_control_plane_refused_names", help)?.encode_gauge(&self.refused_names)?;
        }
        let help = "When configuration files were last read without a problem";
        gauge(encoder, "leno_config_last_success_timestamp_seconds", help)?
            .encode_gauge(&self.last_success_since_1970.as_secs_f64())
    }
}
