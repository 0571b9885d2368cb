use super::*;

fn windows(ms: impl IntoIterator<Item = f64>) -> Vec<Window> {
    ms.into_iter().map(|ms| Window { calls: 1000, p50_ms: ms, p99_ms: ms * 3.0 }).collect()
}

/// Returns `ms` with random noise of at most 2 %.
fn noisy(ms: f64, random: &mut fastrand::Rng) -> f64 {
    ms * (1.0 + 0.04 * (random.f64() - 0.5))
}

#[test]
fn a_latency_that_never_changes_is_steady_from_the_start() {
    assert_eq!(steady_after_s(&windows([2.0; 20]), 0), Some(0.0));
    let mut random = fastrand::Rng::with_seed(1);
    assert_eq!(steady_after_s(&windows((0..20).map(|_| noisy(2.0, &mut random))), 4), Some(0.0));
}

#[test]
fn a_slow_start_counts_until_its_last_slow_second() {
    let mut random = fastrand::Rng::with_seed(2);
    for slow in [1, 2, 5, 9] {
        let ms = (0..20).map(|second| noisy(if second < slow { 9.0 } else { 2.0 }, &mut random));
        let found = steady_after_s(&windows(ms.collect::<Vec<_>>()), 0);
        assert_eq!(found, Some(f64::from(slow)), "{slow} slow seconds");
    }
}

#[test]
fn the_p99_alone_can_be_unsteady() {
    let mut windows = windows([2.0; 20]);
    windows[..3].iter_mut().for_each(|window| window.p99_ms = 50.0);
    assert_eq!(steady_after_s(&windows, 0), Some(3.0));
}

#[test]
fn one_disturbed_second_does_not_count_and_two_do() {
    let mut ms = vec![2.0; 20];
    ms[5] = 90.0;
    assert_eq!(steady_after_s(&windows(ms.clone()), 0), Some(0.0));
    ms[6] = 90.0;
    assert_eq!(steady_after_s(&windows(ms), 0), Some(7.0));
}

#[test]
fn a_drift_to_the_end_is_never_steady() {
    assert_eq!(steady_after_s(&windows((0..40).map(|second| 2.0 + f64::from(second) * 0.1)), 0), None);
    let mut random = fastrand::Rng::with_seed(3);
    let drift = (0..40).map(|second| noisy(2.0 + f64::from(second) * 0.1, &mut random));
    assert_eq!(steady_after_s(&windows(drift.collect::<Vec<_>>()), 0), None);
}

#[test]
fn the_warm_up_is_no_reference_but_can_be_steady() {
    // The warm-up ends at second 8. Its latency differs, for example because the warm-up has half the rate. The
    // reference begins at second 14.
    let ms = (0..20).map(|second| if second < 8 { 1.0 } else { 2.0 });
    assert_eq!(steady_after_s(&windows(ms), 8), Some(8.0));
    assert_eq!(steady_after_s(&windows([2.0; 20]), 8), Some(0.0));
}

#[test]
fn too_few_or_unanswered_seconds_have_no_time() {
    assert_eq!(steady_after_s(&windows([2.0; 5]), 1), None);
    assert_eq!(steady_after_s(&[], 0), None);
    assert_eq!(steady_after_s(&[Window::default(); 20], 0), None);
}

#[test]
fn a_second_without_answers_is_not_steady() {
    let mut windows = windows([2.0; 20]);
    windows[0] = Window::default();
    assert_eq!(steady_after_s(&windows, 0), Some(1.0));
}
