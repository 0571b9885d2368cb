use std::sync::Arc;
use std::time::Instant;

use super::{AccessLog, MAX_TURN_BYTES};
use crate::access_log::fixtures::connection;
use crate::access_log::writer::Pending;
use crate::access_log::{Format, Queries};
use crate::metrics::WorkerMetrics;

/// A log without a writer thread.
fn stuck_log() -> (AccessLog, Arc<WorkerMetrics>) {
    let metrics = WorkerMetrics::new();
    let pending = Arc::new(Pending::default());
    (AccessLog::on(Format::Json, Queries::Drop, pending, metrics.clone()), metrics)
}

#[test]
fn a_log_that_is_off_writes_nothing() {
    let mut log = AccessLog::off();
    assert!(!log.is_on());
    log.write(&connection());
    log.hand_over(Instant::now());
}

#[test]
fn lines_that_the_writer_has_no_room_for_are_dropped_and_counted() {
    let (mut log, metrics) = stuck_log();
    let mut written = 0;
    while metrics.access_log_dropped_total.get() == 0 {
        for _ in 0..100 {
            log.write(&connection());
        }
        written += 100;
        assert!(written < 1_000_000, "memory grows without bound");
        log.hand_over(Instant::now());
    }
    assert_eq!(metrics.access_log_dropped_total.get(), 100);
}

#[test]
fn one_turn_of_the_loop_holds_a_bounded_number_of_bytes() {
    let (mut log, metrics) = stuck_log();
    while metrics.access_log_dropped_total.get() == 0 {
        log.write(&connection());
        let held = log.0.as_ref().map_or(0, |lines| lines.text.len());
        assert!(held < MAX_TURN_BYTES + 10_000);
    }
}
