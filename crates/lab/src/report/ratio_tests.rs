use super::super::example::{pairs, recorded, run};
use super::super::figures;
use super::super::group::Results;
use super::*;
use crate::experiment::record::TargetKind;

#[test]
fn ratios_are_taken_within_each_repeat() {
    // In each repeat, the p99 of the second run is 10 % higher than that of the first, but the repeats differ by a
    // factor of 4. The ratio of the medians would be 1.10 too, but its interval would be 0.5 to 2.
    let recorded =
        recorded(pairs(&[(10.0, 11.0), (20.0, 22.0), (40.0, 44.0), (10.0, 11.0), (30.0, 33.0), (15.0, 16.5)]));
    let results = Results::new(&recorded);
    let found = ratio(&results.groups[1], &results.groups[0], figures::p99_ms).expect("a ratio");
    let (least, most) = found.interval.expect("six pairs");
    assert!((found.value - 1.1).abs() < 1e-9 && (most - least).abs() < 1e-9, "{found:?}");
}

#[test]
fn runs_without_a_partner_are_compared_by_their_medians_and_unsure() {
    let later = |repeat, p99_ms| Run { p99_ms, ..run(TargetKind::Leno, 50, repeat) };
    let recorded = recorded(vec![run(TargetKind::Leno, 0, 1), later(2, 30.0), later(3, 50.0)]);
    let results = Results::new(&recorded);
    let found = ratio(&results.groups[1], &results.groups[0], figures::p99_ms).expect("a ratio");
    assert_eq!(found, Estimate { value: 2.0, interval: None, repeats: 0 });
}

#[test]
fn nothing_is_divided_by_zero() {
    let recorded = recorded(pairs(&[(0.0, 11.0)]));
    let results = Results::new(&recorded);
    assert_eq!(ratio(&results.groups[1], &results.groups[0], figures::p99_ms), None);
}
