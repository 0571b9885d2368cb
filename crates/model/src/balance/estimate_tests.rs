use std::time::Duration;

use super::*;

/// Returns an estimate after `answers` answers of 10 ms each at a steady rate, and the time of the last answer.
fn steady(answers_per_s: f64, answers: u32) -> (Estimate, Instant) {
    let mut now = Instant::now();
    let mut estimate = Estimate::first(now, 10.0);
    for _ in 1..answers {
        now += Duration::from_secs_f64(1.0 / answers_per_s);
        estimate.observe(now, 10.0, f64::INFINITY);
    }
    (estimate, now)
}

#[test]
fn answers_at_one_moment_are_averaged() {
    let now = Instant::now();
    let mut estimate = Estimate::first(now, 1.0);
    for latency_ms in [2.0, 3.0, 4.0] {
        estimate.observe(now, latency_ms, f64::INFINITY);
    }
    assert!((estimate.mean_ms - 2.5).abs() < 1e-9, "{estimate:?}");
    assert!((estimate.variance - 0.25).abs() < 1e-9, "{estimate:?}");
}

#[test]
fn the_estimate_rests_on_more_answers_when_they_come_faster() {
    for (answers_per_s, answers) in [(2.0, 20.0), (200.0, 200.0), (20_000.0, 2_000.0)] {
        let (estimate, _) = steady(answers_per_s, 50_000);
        let rests_on = 1.0 / estimate.variance;
        assert!((rests_on / answers - 1.0).abs() < 0.05, "{answers_per_s}/s: {rests_on}");
    }
}

#[test]
fn old_knowledge_gives_way_to_new() {
    let (mut estimate, mut now) = steady(200.0, 10_000);
    let mut soon = estimate;
    soon.observe(now + Duration::from_millis(5), 20.0, f64::INFINITY);
    assert!(soon.mean_ms < 10.1, "{soon:?}");
    now += Duration::from_secs(1000);
    estimate.observe(now, 20.0, f64::INFINITY);
    assert!(estimate.mean_ms > 18.0, "{estimate:?}");
}

#[test]
fn spread_is_the_standard_deviation_in_means() {
    let now = Instant::now();
    let mut estimate = Estimate::first(now, 5.0);
    estimate.observe(now, 15.0, f64::INFINITY);
    assert!((estimate.spread() - 0.5).abs() < 1e-9, "{estimate:?}");
    assert_eq!(Estimate::first(now, 0.0).spread(), 0.0);
    assert!((Estimate::of_answers(now, 8.0, 5, 0.7).spread() - 0.7).abs() < 1e-9);
}

#[test]
fn a_surprise_counts_as_much_as_allowed_but_is_known_in_full() {
    let (mut estimate, now) = steady(200.0, 1_000);
    estimate.observe(now, 10_000.0, 160.0);
    let weight = estimate.variance;
    assert!((estimate.mean_ms - (10.0 + weight * 150.0)).abs() < 1e-6, "{estimate:?}");
    assert!((estimate.full_mean_ms - (10.0 + weight * 9_990.0)).abs() < 1e-6, "{estimate:?}");
}
