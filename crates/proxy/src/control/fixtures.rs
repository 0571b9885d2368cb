//! The state of a proxy, for tests.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::SystemTime;

use leno_admin::logging::LogLevels;
use leno_config::Configuration;
use leno_relay::limits::Limits;

use super::shared::{Phase, Shared};
use super::tap::OpenTaps;
use crate::metrics::ConfigMetrics;

/// The state of a serving proxy without worker threads.
pub(super) fn shared(configuration: Configuration, log: LogLevels) -> Shared {
    Shared {
        phase: Cell::new(Phase::Serving),
        is_called: true,
        configuration: RefCell::new(configuration),
        config_metrics: Cell::new(ConfigMetrics::default()),
        log,
        limits: Arc::new(Limits::default()),
        workers: Vec::new(),
        worker_metrics: Vec::new(),
        identity_metrics: None,
        taps: OpenTaps::default(),
        traces: None,
        allows_tap_headers: false,
        started: SystemTime::now(),
        restarts: 0,
    }
}
