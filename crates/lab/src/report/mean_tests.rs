use super::*;

fn mean(values: &[f64]) -> Mean {
    Mean::of(values.iter().copied()).expect("values")
}

fn about(found: Option<f64>, wanted: f64) {
    assert!(found.is_some_and(|found| (found - wanted).abs() < 0.001 * wanted.abs()), "{found:?} instead of {wanted}");
}

#[test]
fn mean_and_interval_are_as_computed_by_hand() {
    // The mean is 5. The squared differences from the mean add up to 9+1+1+1+0+0+4+16 = 32. The standard deviation is
    // the root of 32 / 7: 2.138.
    let found = mean(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
    assert_eq!(found.value, 5.0);
    // Half of the interval's width is Student's quantile for 7 degrees of freedom, 2.365, times the standard error,
    // 2.138 / root of 8.
    about(found.plus_minus, 1.788);
}

#[test]
fn one_run_has_no_interval_and_no_run_has_no_mean() {
    assert_eq!((mean(&[3.0]).value, mean(&[3.0]).plus_minus), (3.0, None));
    assert_eq!(Mean::of(std::iter::empty()), None);
    assert_eq!(Mean::of([1.0, f64::INFINITY].into_iter()), None);
}

#[test]
fn a_gap_has_welchs_interval() {
    let (base, other) = (mean(&[10.0, 11.0, 9.0, 10.0]), mean(&[12.0, 14.0, 10.0, 12.0]));
    let gap = other.gap(&base).expect("the base is not 0");
    about(Some(gap.percent), 20.0);
    // The squared standard errors of the two means are 0.6667 / 4 and 2.6667 / 4; their sum is 0.8333. The degrees of
    // freedom are 0.8333^2 / (0.02778 / 3 + 0.44444 / 3) = 4.41, so Student's quantile is that of 4 degrees: 2.776.
    // Half of the interval is 2.776 * root of 0.8333 = 2.534, which is 25.34 % of the base mean, 10.
    about(gap.plus_minus, 25.34);
    assert!(gap.may_be_zero());
}

#[test]
fn a_gap_to_one_run_has_no_interval_and_a_gap_to_zero_is_none() {
    let gap = mean(&[1.0, 2.0, 3.0]).gap(&mean(&[1.0])).expect("the base is not 0");
    assert_eq!((gap.percent, gap.plus_minus, gap.may_be_zero()), (100.0, None, false));
    assert_eq!(mean(&[1.0]).gap(&mean(&[0.0])), None);
    assert_eq!(mean(&[0.0]).gap(&mean(&[0.0])), None);
}

#[test]
fn the_interval_of_a_gap_to_a_negative_base_is_positive() {
    let (base, other) = (mean(&[-10.0, -11.0, -9.0, -10.0]), mean(&[-5.0, -6.0, -4.0, -5.0]));
    let gap = other.gap(&base).expect("the base is not 0");
    about(Some(gap.percent), 50.0);
    assert!(gap.plus_minus.is_some_and(|half| half > 0.0) && !gap.may_be_zero(), "{gap:?}");
}

#[test]
fn one_run_differs_from_nothing() {
    let (low, high) = (mean(&[1.0, 1.1, 0.9]), mean(&[2.0, 2.1, 1.9]));
    assert!(low.differs_from(&high) && high.differs_from(&low) && !low.differs_from(&low));
    assert!(!mean(&[1.0]).differs_from(&high) && !high.differs_from(&mean(&[1.0])));
    // The first mean has no deviation: 0 in each repeat, as the fraction of failed calls often is.
    assert!(mean(&[0.0; 3]).differs_from(&mean(&[5.0, 5.1, 4.9])));
}

#[test]
fn repeats_without_any_deviation_have_an_interval_of_zero() {
    let same = mean(&[2.0; 5]);
    assert_eq!((same.plus_minus, same.gap(&same)), (Some(0.0), Some(Gap { percent: 0.0, plus_minus: Some(0.0) })));
}

#[test]
fn nine_or_ten_of_ten_intervals_have_the_true_mean() {
    let mut random = fastrand::Rng::with_seed(4);
    let has_zero = (0..2000).filter(|_| {
        // The sum of twelve uniform values is nearly normal.
        let normal: Vec<f64> = (0..5).map(|_| (0..12).map(|_| random.f64() - 0.5).sum()).collect();
        let mean = Mean::of(normal.into_iter()).expect("values");
        mean.value.abs() <= mean.plus_minus.expect("five repeats")
    });
    let share = has_zero.count() as f64 / 2000.0;
    assert!((0.93..0.97).contains(&share), "{share}");
}
