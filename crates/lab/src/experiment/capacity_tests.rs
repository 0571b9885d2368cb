use std::collections::BTreeMap;

use super::*;
use crate::experiment::record::TargetKind;
use crate::load::{FailureClass, Latency};
use crate::report::example;

fn snapshot(ms: u64, calls: u64, failed: u64) -> Snapshot {
    Snapshot {
        measured: Duration::from_millis(ms),
        total: Latency { calls, ..Latency::default() },
        classes: BTreeMap::from([(FailureClass::Connection, failed)]),
        ..Snapshot::default()
    }
}

#[test]
fn fewer_than_one_call_in_a_thousand_may_fail() {
    let conditions = Conditions { p99_ms: None };
    assert!(conditions.are_met(9_991, 9, 1e6));
    assert!(!conditions.are_met(9_990, 10, 1.0));
    assert!(!conditions.are_met(0, 0, 0.0), "nothing was answered");
    assert!(!conditions.are_met(0, 5, 0.0));
}

#[test]
fn a_limit_of_the_p99_is_part_of_the_conditions() {
    let conditions = Conditions { p99_ms: Some(10.0) };
    assert!(conditions.are_met(1000, 0, 10.0));
    assert!(!conditions.are_met(1000, 0, 10.1));
}

#[test]
fn a_target_with_a_growing_backlog_does_not_keep_up_although_no_call_has_failed() {
    let middle = snapshot(1500, 1500, 0);
    assert!(keeps_up(&middle, &snapshot(2950, 2940, 0), 1000, false));
    assert!(keeps_up(&middle, &snapshot(2950, 2000, 940), 1000, false), "failed calls have ended");
    assert!(!keeps_up(&middle, &snapshot(2950, 2850, 0), 1000, false));
    assert!(keeps_up(&middle, &snapshot(2950, 2850, 0), 1000, true), "random arrivals");
}

#[test]
fn each_confirmation_is_five_percent_lower_and_never_zero() {
    assert_eq!([0, 1, 2].map(|failed| rate_to_confirm(10_000, failed)), [10_000, 9_500, 9_025]);
    assert_eq!(rate_to_confirm(0, 0), 1);
}

#[test]
fn if_the_search_found_no_rate_no_run_confirms_one() {
    let run = example::run(TargetKind::Leno, 0, 1);
    let conditions = Conditions { p99_ms: None };
    assert!(is_confirmed(10, &run, conditions));
    assert!(!is_confirmed(0, &run, conditions));
    assert_eq!([confirmations_max(0), confirmations_max(10)], [1, CONFIRMATIONS_MAX]);
}
