use std::time::Duration;

use super::*;

/// Returns the rate after `outcomes` outcomes, at a rate of `per_s` outcomes per second.
fn after(outcomes: u32, per_s: u32, has_failed: impl Fn(u32) -> bool) -> FailureRate {
    let start = Instant::now();
    let mut rate = FailureRate::new(start);
    for number in 1..=outcomes {
        rate.observe(start + Duration::from_secs(1) * number / per_s, has_failed(number));
    }
    rate
}

#[test]
fn the_first_outcomes_have_equal_weights() {
    let rate = after(9, 1_000_000, |number| number <= 4);
    assert!((rate.mean - 0.4).abs() < 0.001, "{rate:?}");
    assert!((rate.variance - 0.1).abs() < 0.001, "{rate:?}");
}

#[test]
fn the_variance_is_that_of_the_weights() {
    for per_s in [1, 10, 100, 1_000] {
        let rate = after(2_000, per_s, |_| false);
        // The limit of the recursion in `observe` for constant weights.
        let limit = rate.weight / (2.0 - rate.weight);
        assert!((rate.variance / limit - 1.0).abs() < 0.01, "{per_s}/s: {rate:?}");
    }
}

#[test]
fn rare_outcomes_have_more_weight() {
    let (rare, frequent) = (after(200, 1, |_| false), after(200, 1_000, |_| false));
    assert!((0.05..0.1).contains(&rare.weight), "{rare:?}");
    assert_eq!(frequent.weight, WEIGHT_MIN);
}

#[test]
fn fourteen_failures_raise_the_rate_to_a_tenth() {
    let after_failures = |failures: u32| after(1_000 + failures, 1_000, |number| number > 1_000).mean;
    assert!(after_failures(13) < 0.1 && after_failures(14) > 0.1);
}
