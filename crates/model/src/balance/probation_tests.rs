use super::super::endpoints::Endpoints;
use super::super::health::Health;
use super::*;

/// Returns a baseline of endpoints whose latencies alternate between 5 ms and 15 ms.
fn baseline_of_10_ms(now: Instant) -> Baseline {
    let mut endpoints = Endpoints::default();
    let addresses = (1..4).map(|port| std::net::SocketAddr::from(([10, 0, 0, 1], port)));
    endpoints.replace(addresses, || (Health::ready(now, 0.0), 0));
    let mut baseline = Baseline::default();
    for round in 0..200 {
        for endpoint in &mut endpoints.list {
            endpoint.health.answered(now, if round % 2 == 0 { 5.0 } else { 15.0 }, baseline.surprise_ms);
        }
    }
    baseline.refresh(now, None, &mut endpoints.list);
    baseline
}

fn probation(now: Instant) -> Probation {
    Probation::new(now, PROBE_WAIT_MIN, true)
}

/// Returns the verdict after repeated answers of `latency_ms`, and the number of answers until the verdict.
fn verdict(latency_ms: f64, slow_ms: f64) -> (Verdict, u32) {
    let now = Instant::now();
    let (baseline, mut probation) = (baseline_of_10_ms(now), probation(now));
    for answers in 1..1000 {
        match probation.good_answer(latency_ms, Some(slow_ms), &baseline) {
            Verdict::Undecided => {}
            verdict => return (verdict, answers),
        }
    }
    panic!("{latency_ms} ms is never judged");
}

#[test]
fn one_probe_finds_out_what_is_clearly_slow() {
    assert_eq!(verdict(100.0, 100.0), (Verdict::StillSlow, 1));
    assert_eq!(verdict(500.0, 500.0), (Verdict::StillSlow, 1));
}

#[test]
fn a_few_probes_find_out_what_is_clearly_well() {
    let (verdict, answers) = verdict(9.0, 500.0);
    assert!(matches!(verdict, Verdict::Well { mean_ms, .. } if mean_ms == 9.0), "{verdict:?}");
    assert!((GOOD_ANSWERS_MIN..=10).contains(&answers), "{answers}");
}

#[test]
fn what_was_hardly_slow_takes_more_probes_to_tell() {
    let (well, answers_when_well) = verdict(9.0, 14.0);
    let (slow, answers_when_slow) = verdict(14.0, 14.0);
    assert!(matches!(well, Verdict::Well { .. }), "{well:?}");
    assert_eq!(slow, Verdict::StillSlow);
    assert!(answers_when_well > 8 && answers_when_slow > 8, "{answers_when_well} {answers_when_slow}");
}

#[test]
fn an_endpoint_that_improved_but_is_still_slow_is_not_taken_for_well() {
    assert_eq!(verdict(40.0, 500.0).0, Verdict::StillSlow);
}

#[test]
fn a_failed_probe_makes_worthless_what_went_well_before() {
    let now = Instant::now();
    let (baseline, mut probation) = (baseline_of_10_ms(now), probation(now));
    for _ in 1..GOOD_ANSWERS_MIN {
        assert_eq!(probation.good_answer(9.0, None, &baseline), Verdict::Undecided);
    }
    probation.start_again();
    assert_eq!(probation.good_answer(9.0, None, &baseline), Verdict::Undecided);
    assert_eq!(probation.good_answers, 1);
}

#[test]
fn without_a_baseline_a_few_good_answers_suffice() {
    let mut probation = probation(Instant::now());
    let verdicts: Vec<_> =
        (0..GOOD_ANSWERS_MIN).map(|_| probation.good_answer(9.0, None, &Baseline::default())).collect();
    assert_eq!(verdicts.last(), Some(&Verdict::Well { mean_ms: 9.0, answers: GOOD_ANSWERS_MIN }));
}

/// Answers the probes of a failing endpoint: `failures` fail, then the others succeed. Returns the number of good
/// answers until the endpoint is well.
fn good_answers_until_well(failures: u32, usual_rate: f64) -> u32 {
    let now = Instant::now();
    let (baseline, mut probation) = (baseline_of_10_ms(now), probation(now));
    (0..3).for_each(|_| assert_eq!(probation.good_answer(10.0, None, &baseline), Verdict::Undecided));
    (0..failures).for_each(|_| probation.failed_answer(usual_rate));
    for answers in 1..100 {
        if let Verdict::Well { .. } = probation.good_answer(8.0, None, &baseline) {
            return answers;
        }
    }
    panic!("{failures} failures, usual rate {usual_rate}: never well");
}

#[test]
fn a_failed_probe_counts_less_if_other_endpoints_fail_too() {
    let without_a_failure = good_answers_until_well(0, 0.0);
    let begun_again = good_answers_until_well(1, 0.0);
    assert!(begun_again >= GOOD_ANSWERS_MIN && begun_again > without_a_failure, "{begun_again}");
    assert!(good_answers_until_well(1, 0.5) <= without_a_failure + 1);
    assert_eq!(good_answers_until_well(1, 1.0), without_a_failure);
}
