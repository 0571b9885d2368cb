use std::time::Duration;

use super::*;
use crate::backends::ServiceTime;
use crate::cpus::Cpus;
use crate::experiment::record::{CallPolicy, Condition, Protocol, Scenario};
use crate::load::Traffic;
use crate::targets::Programs;

const TARGETS: [TargetKind; 3] = [TargetKind::Direct, TargetKind::Leno, TargetKind::Haproxy];

fn settings(seed: u64) -> Settings {
    let case =
        |skew_ms| Case { skew_ms, connections: 1, concurrency: 200, rate_per_s: None, condition: Condition::default() };
    Settings {
        scenario: Scenario::SlowPod,
        protocol: Protocol::Grpc,
        traffic: Traffic::default(),
        backends: 5,
        targets: TARGETS.to_vec(),
        cases: vec![case(0), case(50)],
        repeat: 60,
        warm_up: Duration::ZERO,
        measured: Duration::from_secs(1),
        service_time: ServiceTime::default(),
        out: "out".into(),
        seed,
        cpus: Cpus::default(),
        programs: Programs::default(),
        max_p99_ms: None,
        graph: None,
    }
}

#[test]
fn every_target_meets_every_case_once_in_every_repeat() {
    let turns = turns(&settings(1), &TARGETS, 5);
    assert_eq!(turns.len(), 60 * 2 * 3);
    for (number, group) in turns.chunks(3).enumerate() {
        let (repeat, skew_ms) = (number as u32 / 2 + 1, if number % 2 == 0 { 0 } else { 50 });
        assert!(group.iter().all(|turn| turn.repeat == repeat && turn.case.skew_ms == skew_ms), "{group:?}");
        assert!(TARGETS.iter().all(|&target| group.iter().any(|turn| turn.target == target)), "{group:?}");
        assert!(group.iter().all(|turn| turn.troubled == group[0].troubled), "{group:?}");
    }
}

#[test]
fn no_target_always_comes_at_the_same_place_and_every_backend_is_in_trouble_at_times() {
    let turns = turns(&settings(2), &TARGETS, 5);
    for place in 0..3 {
        for target in TARGETS {
            let times = turns.chunks(3).filter(|group| group[place].target == target).count();
            assert!((20..=60).contains(&times), "{target} came {times} times at place {place} of 120");
        }
    }
    for backend in 0..5 {
        assert!(turns.iter().any(|turn| turn.troubled == backend), "backend {backend} never was");
    }
}

#[test]
fn the_same_seed_gives_the_same_order() {
    assert_eq!(turns(&settings(3), &TARGETS, 5), turns(&settings(3), &TARGETS, 5));
    assert_ne!(turns(&settings(3), &TARGETS, 5), turns(&settings(4), &TARGETS, 5));
}

#[test]
fn a_target_has_no_turn_under_a_condition_that_it_cannot_act_on() {
    let retry = Condition { policy: CallPolicy::Retry, ..Condition::default() };
    let usual = settings(5);
    let cases = usual.cases.iter().map(|&case| Case { condition: retry, ..case }).collect();
    let turns = turns(&Settings { cases, ..usual }, &TARGETS, 5);
    assert_eq!(turns.len(), 60 * 2);
    assert!(turns.iter().all(|turn| turn.target == TargetKind::Leno), "only Leno can retry");
}
