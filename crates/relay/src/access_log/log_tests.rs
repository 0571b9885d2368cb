use super::{AccessLog, MAX_TURN_BYTES};
use crate::access_log::fixtures::connection;
use crate::access_log::{Format, Queries};
use crate::metrics::WorkerMetrics;

#[test]
fn a_log_that_is_off_writes_nothing() {
    let mut log = AccessLog::off();
    assert!(!log.is_on());
    log.write(&connection());
    assert!(log.lines().is_none());
}

#[test]
fn one_turn_of_the_loop_holds_a_bounded_number_of_bytes() {
    let metrics = WorkerMetrics::new();
    let mut log = AccessLog::on(Format::Json, Queries::Drop, metrics.clone());
    while metrics.access_log_dropped_total.get() == 0 {
        log.write(&connection());
        let held = log.lines().map_or(0, |lines| lines.text.len());
        assert!(held < MAX_TURN_BYTES + 10_000);
    }
}
