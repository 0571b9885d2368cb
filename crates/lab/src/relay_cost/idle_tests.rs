use super::*;

#[test]
fn mb_and_kb_are_powers_of_a_thousand() {
    let cost = IdleCost {
        target: TargetKind::Leno,
        connections: 1_000,
        before_kib: 15_625,
        connected_kib: 31_250,
        after_kib: 15_625,
    };
    // 15,625 KiB are 16 MB.
    let wanted =
        "leno     idle 16.0 MB, with 1000 connections 32.0 MB (16.00 KB each), 10 s after they left 16.0 MB (+0 %)";
    assert_eq!(cost.to_string(), wanted);
}
