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

#[test]
fn a_failing_endpoint_rate_follows_the_next_outcomes() {
    let start = Instant::now();
    let mut rate = after(1_000, 1_000, |_| false);
    rate.weigh_next();
    assert!(rate.outcomes(start).number > 200.0, "{rate:?}");
    let now = start + Duration::from_secs(1);
    (0..5).for_each(|_| rate.observe(now, true));
    assert!((0.5..0.6).contains(&rate.mean), "{rate:?}");
    assert!(rate.outcomes(now).number < 20.0, "{rate:?}");
}

fn outcomes(number: f64, failures: f64) -> Outcomes {
    Outcomes::with_rate(number, failures / number)
}

#[test]
fn outcomes_become_fewer_with_time() {
    let start = Instant::now();
    let mut rate = FailureRate::of_outcomes(start, 0.5, 100);
    assert!((rate.outcomes(start).number - 100.0).abs() < 1e-9);
    assert!(rate.outcomes(start + Duration::from_secs(10)).number < 20.0);
    assert!((rate.outcomes(start + Duration::from_secs(3600)).rate() - 0.5).abs() < 1e-9);
    assert!(!rate.has_just_failed);
    rate.observe(start, true);
    assert!(rate.has_just_failed);
}

#[test]
fn the_contrast_is_that_of_a_likelihood_ratio() {
    // ln of (1/2)^2 (1/2)^2 for the first set, 1 for the second, and (1/4)^2 (3/4)^6 for both together.
    let expected = 4.0 * 0.5_f64.ln() - (2.0 * 0.25_f64.ln() + 6.0 * 0.75_f64.ln());
    let contrast = outcomes(4.0, 2.0).contrast(&outcomes(4.0, 0.0));
    assert!((contrast - expected).abs() < 1e-9, "{contrast}, {expected}");
}

#[test]
fn equal_rates_have_no_contrast() {
    for rate in [0.0, 0.01, 0.5, 1.0] {
        for number in [0.01, 1.0, 255.0] {
            let contrast = Outcomes::with_rate(number, rate).contrast(&Outcomes::with_rate(1000.0, rate));
            assert!((0.0..1e-6).contains(&contrast), "{rate}, {number}: {contrast}");
        }
    }
    assert_eq!(Outcomes::default().contrast(&Outcomes::default()), 0.0);
}

#[test]
fn the_contrast_grows_with_the_number_of_outcomes_and_with_the_difference() {
    let others = outcomes(100.0, 1.0);
    let of = |number, failures| outcomes(number, failures).contrast(&others);
    assert!(of(10.0, 5.0) < of(20.0, 10.0));
    assert!(of(10.0, 5.0) < of(10.0, 6.0));
    assert!(of(10.0, 10.0) > 20.0);
}

#[test]
fn a_part_can_be_taken_out_again() {
    let (one, other) = (outcomes(7.3, 2.2), outcomes(250.0, 0.1));
    let both = one.plus(&other);
    let left = both.without(&one).expect("the other");
    assert!((left.number - other.number).abs() < 1e-9 && (left.rate() - other.rate()).abs() < 1e-9, "{left:?}");
    assert_eq!(both.without(&both), None);
    assert_eq!(both.without(&outcomes(257.2999, 2.3)), None);
    assert_eq!(Outcomes::default().rate(), 0.0);
    assert_eq!(Outcomes::default().at_least(20.0), Outcomes::with_rate(20.0, 0.0));
}
