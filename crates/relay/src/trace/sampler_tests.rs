use super::*;

/// Returns how many of `calls` calls are drawn.
fn drawn(ratio: f64, calls: usize) -> usize {
    let mut random = fastrand::Rng::with_seed(7);
    let mut sampler = Sampler::new(ratio, &mut random);
    (0..calls).filter(|_| sampler.draws(&mut random)).count()
}

#[test]
fn all_calls_or_none_are_drawn_at_the_ends_of_the_range() {
    assert_eq!(drawn(1.0, 1_000), 1_000);
    assert_eq!(drawn(0.0, 100_000), 0);
    assert_eq!(drawn(f64::MIN_POSITIVE, 100_000), 0);
}

#[test]
fn the_ratio_is_the_share_of_drawn_calls() {
    // The standard deviations of the two numbers are 43 and 99.
    assert!((2_250..2_750).contains(&drawn(0.25, 10_000)), "{}", drawn(0.25, 10_000));
    assert!((9_500..10_500).contains(&drawn(0.01, 1_000_000)), "{}", drawn(0.01, 1_000_000));
}

/// The first call, and a call that follows a drawn call, have the same chance as any other call.
#[test]
fn a_draw_does_not_depend_on_the_draws_before() {
    let mut random = fastrand::Rng::with_seed(7);
    let first = (0..10_000).filter(|_| Sampler::new(0.25, &mut random).draws(&mut random)).count();
    assert!((2_250..2_750).contains(&first), "{first}");
    let mut sampler = Sampler::new(0.25, &mut random);
    let draws: Vec<bool> = (0..40_000).map(|_| sampler.draws(&mut random)).collect();
    let after = draws.windows(2).filter(|pair| pair[0]).map(|pair| usize::from(pair[1]));
    let (all, again) = (after.clone().count(), after.sum::<usize>());
    // The expected share is a quarter of about 10,000 calls, with a standard deviation of 0.0043.
    let share = again as f64 / all as f64;
    assert!((0.225..0.275).contains(&share), "{share}");
}
