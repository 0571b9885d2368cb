use std::sync::Arc;
use std::time::Instant;

use leno_relay::access_log::{AccessLog, Format, Queries};
use leno_relay::metrics::WorkerMetrics;

use super::Outlet;
use crate::access_log::fixtures::connection;

#[test]
fn a_log_that_is_off_hands_nothing_over() {
    let mut log = AccessLog::off();
    log.write(&connection());
    Outlet::default().hand_over(&mut log, Instant::now());
}

#[test]
fn lines_that_the_writer_has_no_room_for_are_dropped_and_counted() {
    let metrics = WorkerMetrics::new();
    // No writer thread empties this buffer.
    let outlet = Outlet::to(Arc::default());
    let mut log = AccessLog::on(Format::Json, Queries::Drop, metrics.clone());
    let mut written = 0;
    while metrics.access_log_dropped_total.get() == 0 {
        for _ in 0..100 {
            log.write(&connection());
        }
        written += 100;
        assert!(written < 1_000_000, "memory grows without bound");
        outlet.hand_over(&mut log, Instant::now());
    }
    assert_eq!(metrics.access_log_dropped_total.get(), 100);
}
