use super::*;
use crate::experiment::record::{Scenario, TargetKind};
use crate::report::example;

#[test]
fn repeats_share_a_label_and_not_a_file() {
    let [first, second] = [1, 2].map(|repeat| example::run(TargetKind::Leno, 50, repeat));
    assert_eq!(label(&first), label(&second));
    let expected = "slow-pod leno, skew 50 ms, 1 connection, 200 calls in flight, closed loop";
    assert_eq!(label(&first), expected);
    assert_eq!(file_stem(&first), "slow-pod-leno-skew50ms-c1-n200-ratemax-r0001");
    assert_eq!(file_stem(&second), "slow-pod-leno-skew50ms-c1-n200-ratemax-r0002");
}

#[test]
fn every_case_has_its_own_file() {
    let base = example::run(TargetKind::Leno, 50, 1);
    let others = [
        Run { scenario: Scenario::Connections, ..base.clone() },
        Run { target: TargetKind::Envoy, ..base.clone() },
        Run { skew_ms: 0, ..base.clone() },
        Run { connections: 2, ..base.clone() },
        Run { concurrency: 100, ..base.clone() },
        Run { rate_per_s: Some(500), ..base.clone() },
    ];
    let names: std::collections::BTreeSet<String> = others.iter().chain([&base]).map(file_stem).collect();
    assert_eq!(names.len(), 7, "{names:?}");
}

#[test]
fn the_longest_name_fits_into_fortios_identifier() {
    let longest = Run {
        scenario: Scenario::Connections,
        target: TargetKind::HaproxyMesh,
        skew_ms: 10_000,
        connections: 20_000,
        concurrency: 100_000,
        rate_per_s: Some(1_000_000),
        ..example::run(TargetKind::Leno, 0, 1000)
    };
    let name = file_stem(&longest);
    assert!(name.len() <= 96 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{name}");
}
