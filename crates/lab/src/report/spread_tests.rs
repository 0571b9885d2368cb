use super::*;

fn spread(values: &[f64]) -> Spread {
    Spread::of(values.iter().copied()).expect("values")
}

fn about(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 0.01 * wanted.abs(), "{found} instead of {wanted}");
}

#[test]
fn median_extremes_and_deviation_are_as_computed_by_hand() {
    // The mean is 5. The squared differences from the mean add up to 9+1+1+1+0+0+4+16 = 32. 32 / 7 = 4.571 is the
    // variance, and its root is 2.138.
    let found = spread(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
    assert_eq!((found.count, found.median, found.min, found.max), (8, 4.5, 2.0, 9.0));
    about(found.sd.expect("of eight values"), 2.138);
}

#[test]
fn the_interval_of_ten_goes_from_the_second_to_the_ninth() {
    // The probability that at most one of ten values lies below the median is 11 / 1024 = 1.07 %. For at most two
    // values, it is 56 / 1024 = 5.5 %. Only the first is below 2.5 %, so the interval begins at the second smallest
    // value.
    let ten: Vec<f64> = (1..=10).map(f64::from).collect();
    assert_eq!(spread(&ten).interval, Some((2.0, 9.0)));
}

#[test]
fn the_ranks_are_those_of_the_binomial_distribution() {
    let known = [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8), (100, 40)];
    for (count, wanted) in known {
        assert_eq!(rank(count), Some(wanted), "{count} repeats");
    }
    assert!(rank(5000).is_some_and(|rank| (2400..2500).contains(&rank)));
}

#[test]
fn five_repeats_are_too_few_for_an_interval() {
    for count in 1..LEAST_REPEATS {
        let found = spread(&vec![1.0; count]);
        assert_eq!((found.interval, found.estimate().plus_minus()), (None, None));
    }
    assert!(spread(&[1.0; LEAST_REPEATS]).interval.is_some());
}

#[test]
fn one_value_has_no_deviation_and_none_have_no_spread() {
    assert_eq!(spread(&[3.0]).sd, None);
    assert_eq!(Spread::of(std::iter::empty()), None);
    assert_eq!(Spread::of([f64::NAN].into_iter()), None);
}

#[test]
fn what_never_happened_counts_as_later_than_all_else() {
    let found = spread(&[1.0, f64::INFINITY, f64::INFINITY]);
    assert_eq!((found.median, found.sd), (f64::INFINITY, None));
    assert_eq!(spread(&[1.0, f64::INFINITY, 2.0]).median, 2.0);
}

#[test]
fn a_deviations_interval_is_that_of_chi_square() {
    // For ten repeats, the interval spans 0.688 to 1.826 times the standard deviation.
    let ten = [9.0, 9.2, 9.4, 9.6, 9.8, 10.2, 10.4, 10.6, 10.8, 11.0];
    let relative = spread(&ten).relative_sd().expect("a deviation");
    about(relative.value, 0.06992);
    let (least, most) = relative.interval.expect("ten repeats");
    about(least / relative.value, 0.688);
    about(most / relative.value, 1.826);
}
