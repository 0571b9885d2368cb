use super::*;

const MS: Duration = Duration::from_millis(1);

/// A pace without a warm-up.
fn pace(start: Instant, length: Duration, rate_per_s: u32) -> Pace {
    Pace::new((start, start, start + length), rate_per_s, &Traffic::default(), 0)
}

fn take_all(pace: &mut Pace, now: Instant) -> Vec<Instant> {
    std::iter::from_fn(|| pace.take(now)).collect()
}

/// The times of all calls of a load, in seconds from its start. The load has 1,000 calls per second for 10 s. The
/// first 4 s are warm-up.
fn seconds(traffic: Traffic, seed: u64) -> Vec<f64> {
    let start = Instant::now();
    let end = start + 10_000 * MS;
    let mut pace = Pace::new((start, start + 4000 * MS, end), 1000, &traffic, seed);
    take_all(&mut pace, end).into_iter().map(|due| (due - start).as_secs_f64()).collect()
}

/// The number of calls in each second of the load.
fn by_second(seconds: &[f64]) -> Vec<usize> {
    (0..10).map(|second| seconds.iter().filter(|&&at| at as usize == second).count()).collect()
}

#[test]
fn calls_are_evenly_spaced_and_none_is_lost_however_late_they_are_taken() {
    let start = Instant::now();
    let mut pace = pace(start, 100 * MS, 1000);
    let taken = [0, 1, 5, 6, 50, 51, 200].map(|ms| take_all(&mut pace, start + ms * MS));
    let even: Vec<Instant> = (0..100).map(|number| start + number * MS).collect();
    assert_eq!(taken.concat(), even);
    assert_eq!(pace.next_due(), None);
}

#[test]
fn nothing_is_due_twice_and_the_next_call_is_told() {
    let start = Instant::now();
    let mut pace = pace(start, 10 * MS, 1000);
    assert_eq!(take_all(&mut pace, start + 3 * MS).len(), 4);
    assert_eq!(take_all(&mut pace, start + 3 * MS), [] as [Instant; 0]);
    assert_eq!(pace.next_due(), Some(start + 4 * MS));
}

#[test]
fn a_rate_that_does_not_divide_a_second_keeps_its_average() {
    let start = Instant::now();
    let hour = Duration::from_secs(3600);
    let mut pace = pace(start, hour, 7);
    let taken = take_all(&mut pace, start + hour);
    assert_eq!(taken.len(), 7 * 3600);
    assert_eq!(taken[7 * 1800], start + hour / 2);
}

#[test]
fn a_warm_up_at_half_the_rate_has_half_the_calls_and_the_measured_time_begins_with_a_call() {
    let seconds = seconds(Traffic { warm_up_rate: WarmUpRate::Half, ..Traffic::default() }, 0);
    assert_eq!(by_second(&seconds), [500, 500, 500, 500, 1000, 1000, 1000, 1000, 1000, 1000]);
    assert!(seconds.contains(&4.0));
}

#[test]
fn a_ramp_rises_linearly_to_the_rate() {
    let counts = by_second(&seconds(Traffic { warm_up_rate: WarmUpRate::Ramp, ..Traffic::default() }, 0));
    // From 0 to 1,000 calls per second in 4 s: 125, 375, 625 and 875 calls.
    for (count, wanted) in counts.iter().zip([125, 375, 625, 875, 1000, 1000]) {
        assert!(count.abs_diff(wanted) <= 1, "{counts:?}");
    }
}

#[test]
fn poisson_arrivals_have_the_rate_and_the_spread_of_their_distribution_in_every_part() {
    let traffic = Traffic { arrivals: Arrivals::Poisson, warm_up_rate: WarmUpRate::Half, ..Traffic::default() };
    let seconds = seconds(traffic, 7);
    for (second, count) in by_second(&seconds).into_iter().enumerate() {
        let mean: f64 = if second < 4 { 500.0 } else { 1000.0 };
        // The standard deviation of a Poisson distribution is the root of its mean. The test allows five standard
        // deviations.
        assert!((count as f64 - mean).abs() < 5.0 * mean.sqrt(), "{count} calls in second {second}");
    }
    let gaps: Vec<f64> = seconds.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0).collect();
    let measured: Vec<f64> = gaps.into_iter().rev().take(5000).collect();
    // A fraction of exp(-1), 36.8 % of the gaps, is longer than the mean gap of 1 ms.
    let long = measured.iter().filter(|&&gap| gap > 0.001).count() as f64 / measured.len() as f64;
    assert!((long - 0.368).abs() < 0.04, "{long}");
}

#[test]
fn the_same_seed_makes_the_same_arrivals() {
    let traffic = Traffic { arrivals: Arrivals::Poisson, ..Traffic::default() };
    assert_eq!(seconds(traffic, 1), seconds(traffic, 1));
    assert_ne!(seconds(traffic, 1), seconds(traffic, 2));
}
