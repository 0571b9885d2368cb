use super::*;

fn histogram_of(us: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000, 3).expect("good bounds");
    us.into_iter().for_each(|us| histogram.saturating_record(us));
    histogram
}

#[test]
fn a_curve_ascends_to_the_longest_call_in_at_most_a_hundred_points() {
    let points = curve(&histogram_of(1..=1_000_000));
    assert!((60..=100).contains(&points.len()), "{}", points.len());
    assert!(points.is_sorted_by(|a, b| a.quantile < b.quantile && a.ms <= b.ms), "{points:?}");
    let at =
        |quantile: f64| points.iter().find(|point| point.quantile >= quantile - 1e-9).map_or(0.0, |point| point.ms);
    assert!((at(0.9) / 900.0 - 1.0).abs() < 0.002, "{points:?}");
    assert!((at(0.999) / 999.0 - 1.0).abs() < 0.002, "{points:?}");
    assert!((at(1.0) / 1000.0 - 1.0).abs() < 0.002, "{points:?}");
}

#[test]
fn mean_deviation_and_shortest_call_are_as_computed_by_hand() {
    // The mean is 5. The squared differences from the mean add up to 9+1+1+1+0+0+4+16 = 32. The variance is 32 / 8 = 4,
    // so the standard deviation is 2.
    let found = Latency::of(&histogram_of([2, 4, 4, 4, 5, 5, 7, 9]));
    assert_eq!((found.min_ms, found.mean_ms, found.std_dev_ms), (0.002, 0.005, 0.002));
    assert_eq!(Latency::of(&histogram_of([])), Latency::default());
}

#[test]
fn a_curve_of_few_calls_says_no_more_than_they_do() {
    assert_eq!(curve(&histogram_of([])), []);
    let of_ten = curve(&histogram_of(1..=10));
    assert!(of_ten.iter().all(|point| point.quantile <= 0.9 || point.quantile == 1.0), "{of_ten:?}");
}
