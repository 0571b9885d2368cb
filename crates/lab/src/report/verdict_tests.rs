use super::super::example::{pairs, recorded, run, slow_pod};
use super::super::outcome::{is_request_level, outcome};
use super::*;
use crate::experiment::record::{CallPolicy, Capacity, Condition, Fault, Restarts, Rollout, Run};

#[test]
fn the_sentence_says_when_no_difference_can_be_told() {
    let skewed = [95.0, 97.0, 98.0, 99.0, 100.0, 100.0, 101.0, 102.0, 103.0, 150.0];
    let recorded = recorded(pairs(&skewed.map(|ms| (100.0, ms))));
    let found = sentence(&Results::new(&recorded), Scenario::SlowPod).replace('\u{a0}', " ");
    let wanted =
        "With one of 5 pods up to 50 ms slow, leno’s p99 cannot be told from its healthy one (1.00 ×, ± 3.00 %).";
    assert_eq!(found, wanted);
}

#[test]
fn the_sentence_says_when_the_repeats_are_too_few() {
    let recorded = recorded(pairs(&[(100.0, 120.0)]));
    let found = sentence(&Results::new(&recorded), Scenario::SlowPod);
    assert!(found.ends_with("1.20\u{a0}× its healthy one, with too few repeats to be sure."), "{found}");
}

#[test]
fn whoever_balances_connections_is_judged_by_its_unluckiest_repeat() {
    let of = |skew_ms, repeat, p99_ms, slow_share| Run { p99_ms, slow_share, ..run(TargetKind::L4, skew_ms, repeat) };
    let mut runs: Vec<Run> = (1..=10).map(|repeat| of(0, repeat, 20.0, f64::from(repeat % 2))).collect();
    runs.extend((1..=9).map(|repeat| of(50, repeat, 20.0, 0.0)));
    runs.push(of(50, 10, 70.0, 1.0));
    let recorded = recorded(runs);
    let results = Results::new(&recorded);
    assert_eq!(is_request_level(&results, TargetKind::L4), Some(false));
    let load = main_load(&results, Scenario::SlowPod).expect("a load");
    let found = outcome(&results, Scenario::SlowPod, load, TargetKind::L4).expect("an outcome");
    assert_eq!(found.figure, "up to 3.50\u{a0}×");
}

#[test]
fn only_one_connection_to_well_backends_shows_whether_calls_are_spread() {
    let all = slow_pod(1, false);
    let results = Results::new(&all);
    let found = [TargetKind::Direct, TargetKind::L4, TargetKind::Leno, TargetKind::Haproxy, TargetKind::Envoy]
        .map(|target| is_request_level(&results, target));
    assert_eq!(found, [Some(false), Some(false), Some(true), Some(true), Some(true)]);
    let skewed = recorded(vec![run(TargetKind::Leno, 50, 1)]);
    assert_eq!(is_request_level(&Results::new(&skewed), TargetKind::Leno), None);
}

#[test]
fn a_failing_pod_that_gets_all_or_nothing_is_judged_by_the_unluckiest_repeat() {
    let with = |share: fn(u32) -> f64| {
        let of = |repeat| Run {
            scenario: Scenario::FastFail,
            slow_share: share(repeat),
            ..run(TargetKind::Direct, 0, repeat)
        };
        let recorded = recorded((1..=10).map(of).collect());
        let results = Results::new(&recorded);
        let load = main_load(&results, Scenario::FastFail).expect("a load");
        outcome(&results, Scenario::FastFail, load, TargetKind::Direct).expect("an outcome").figure
    };
    assert_eq!(with(|repeat| if repeat == 3 { 1.0 } else { 0.0 }), "up to 100\u{a0}%");
    assert_eq!(with(|repeat| f64::from(repeat) / 1000.0), "0.550\u{a0}%");
}

/// Returns the report's sentence for ten repeats of Leno. Each repeat has a run over 1 connection with a p99 of
/// `one_ms`, and a run over 8 connections with a p99 of `eight_ms` plus noise. If `luck` is true, the single connection
/// leads to the slow pod in the first repeat only.
fn of_connections(one_ms: f64, eight_ms: f64, luck: bool) -> String {
    let of = |connections: u32, repeat: u32, p99_ms: f64| Run {
        scenario: Scenario::Connections,
        connections,
        p99_ms,
        slow_share: if luck && connections == 1 && repeat == 1 { 1.0 } else { 0.0 },
        ..run(TargetKind::Leno, 50, repeat)
    };
    let noise = |repeat: u32| 1.0 + f64::from(repeat) / 100.0;
    let pair = |repeat| [of(1, repeat, one_ms), of(8, repeat, eight_ms * noise(repeat))];
    let recorded = recorded((1..=10).flat_map(pair).collect());
    sentence(&Results::new(&recorded), Scenario::Connections).replace('\u{a0}', " ")
}

#[test]
fn more_connections_are_compared_with_the_fewest() {
    let start = "With 1 to 8 connections, and one of 5 pods up to 50 ms slow, leno’s p99";
    assert_eq!(of_connections(10.0, 12.0, false), format!("{start} is 1.27 × that over the fewest."));
    let same = format!("{start} cannot be told from that over the fewest (1.00 ×, ± 3.32 %).");
    assert_eq!(of_connections(10.0, 9.5, false), same);
}

#[test]
fn where_one_connection_goes_by_luck_more_of_them_are_compared_with_nothing() {
    let found = of_connections(10.0, 12.0, true);
    assert!(found.ends_with("nothing was measured that could be compared."), "{found}");
}

/// The report's sentence for repeats of Leno, each of which confirmed one of `rates`, or no rate.
fn of_capacity(rates: &[Option<u32>]) -> String {
    let of = |(rate_per_s, repeat): (&Option<u32>, u32)| Run { repeat, ..confirmed(TargetKind::Leno, 0, *rate_per_s) };
    let recorded = recorded(rates.iter().zip(1..).map(of).collect());
    sentence(&Results::new(&recorded), Scenario::Capacity).replace('\u{a0}', " ")
}

#[test]
fn a_repeat_that_confirmed_no_rate_counts_as_the_lowest_rate() {
    let all = [Some(2000), Some(1000), Some(1500)];
    assert_eq!(of_capacity(&all), "With fewer than 0.1 % errors, the limit of leno is 1,500 calls/s.");
    let two = [Some(2000), Some(1000), None];
    assert_eq!(of_capacity(&two), "With fewer than 0.1 % errors, the limit of leno is 1,000 calls/s.");
    let one = [Some(2000), None, None];
    assert_eq!(of_capacity(&one), "No rate through leno was confirmed with fewer than 0.1 % errors.");
}

#[test]
fn a_search_that_found_nothing_has_no_rate_although_the_record_has_a_run() {
    let of = |calls, repeat| {
        let capacity = Some(Capacity { rate_per_s: None, found_per_s: 0, trials: 9, confirmations: 1 });
        Run { capacity, calls, repeat, ..confirmed(TargetKind::Leno, 0, None) }
    };
    let recorded = recorded(vec![of(10, 1), of(0, 2)]);
    let text = sentence(&Results::new(&recorded), Scenario::Capacity);
    assert_eq!(text, "No rate through leno kept the limit, not even the lowest that the search tried.");
}

/// The report's sentence for the scenario `ladder` with Leno and HAProxy. Through HAProxy, `errors` calls failed, and
/// 100,000 calls were answered.
fn of_ladder(errors: u64) -> String {
    let of = |target, errors| Run { scenario: Scenario::Ladder, rate_per_s: Some(100), errors, ..run(target, 0, 1) };
    let recorded = recorded(vec![of(TargetKind::Leno, 0), of(TargetKind::Haproxy, errors)]);
    sentence(&Results::new(&recorded), Scenario::Ladder).replace('\u{a0}', " ")
}

#[test]
fn a_p99_with_many_failed_calls_is_left_out_and_one_with_few_is_of_the_answered_calls() {
    let leno = "At 100 calls/s, leno’s p99 is 20.0 ms";
    assert_eq!(of_ladder(0), format!("{leno}; haproxy’s 20.0 ms."));
    assert_eq!(of_ladder(1000), format!("{leno}; haproxy’s 20.0 ms of the answered calls."));
    assert_eq!(of_ladder(2000), format!("{leno}. Left out, because more than 1 % of the calls failed: haproxy."));
}

/// The report's sentence for the scenario `tail` with Leno and Envoy. Both hedge. In Envoy's run with hedges, `errors`
/// calls failed, and 100,000 calls were answered.
fn of_tail(errors: u64) -> String {
    let hedge = CallPolicy::Hedge("p95".parse().expect("a percentile"));
    let slow = Fault::SlowAtTimes { percent: 1, slow_ms: 200 };
    let of = |target, fault, policy, errors| Run {
        scenario: Scenario::Tail,
        condition: Condition { fault, policy },
        errors,
        ..run(target, 0, 1)
    };
    let pair = |target, errors| {
        // The run without hedges has no place in the sentence, so its failed calls do not matter.
        let bare = of(target, slow, CallPolicy::Once, 50_000);
        [of(target, Fault::None, CallPolicy::Once, 0), bare, of(target, slow, hedge, errors)]
    };
    let recorded = recorded([pair(TargetKind::Leno, 0), pair(TargetKind::Envoy, errors)].concat());
    sentence(&Results::new(&recorded), Scenario::Tail).replace('\u{a0}', " ")
}

#[test]
fn a_p999_is_left_out_with_fewer_failed_calls_than_a_p99() {
    let leno = "With servers that are slow at random, leno’s hedged p99.9 is at most 1.00 × its healthy one";
    assert_eq!(of_tail(0), format!("{leno}; envoy’s 1.00 ×."));
    assert_eq!(of_tail(100), format!("{leno}; envoy’s 1.00 × of the answered calls."));
    assert_eq!(of_tail(200), format!("{leno}. Left out, because more than 0.1 % of the calls failed: envoy."));
}

#[test]
fn lenos_p99_is_not_divided_by_that_of_a_target_with_many_failed_calls() {
    let found = |errors| {
        let envoy = Run { errors, ..run(TargetKind::Envoy, 0, 1) };
        let recorded = recorded(vec![run(TargetKind::Leno, 0, 1), envoy]);
        let ratios = beside(&Results::new(&recorded), Scenario::SlowPod, TargetKind::Envoy);
        ratios.into_iter().filter_map(|(name, ratio)| ratio.map(|_| name)).collect::<Vec<_>>()
    };
    assert!(found(1000).contains(&"p99, least skew"), "{:?}", found(1000));
    assert!(!found(2000).contains(&"p99, least skew") && found(2000).contains(&"calls/s, least skew"));
}

/// The report's sentence for three repeats of Leno, changed by `change`. In two of them, no call was answered.
fn of_dead(scenario: Scenario, change: impl Fn(Run) -> Run) -> String {
    let of = |repeat| {
        let calls = if repeat == 1 { 1000 } else { 0 };
        change(Run { scenario, calls, errors: 1000 - calls, ..run(TargetKind::Leno, 200, repeat) })
    };
    let recorded = recorded((1..=3).map(of).collect());
    sentence(&Results::new(&recorded), scenario).replace('\u{a0}', " ")
}

#[test]
fn repeats_in_which_every_call_failed_are_the_worst_ones() {
    let lost = of_dead(Scenario::Rollout, |run| {
        let graceful = Restarts { restarts: 5, calls: run.calls, lost: run.errors };
        Run { rollout: Some(Rollout { graceful, abrupt: graceful }), ..run }
    });
    assert_eq!(lost, "While backends restart gracefully, leno loses 100 % of the calls.");
    let alive = |run: &Run, seconds| (run.calls > 0).then_some(seconds);
    let recovered = of_dead(Scenario::Recover, |run| Run { recovered_after_s: alive(&run, 1.5), ..run });
    assert_eq!(recovered, "A pod that is well again never has its fair share of leno’s calls.");
    let steady = of_dead(Scenario::Steady, |run| Run { steady_after_s: alive(&run, 1.5), ..run });
    assert_eq!(steady, "The latency through leno does not become steady within the run.");
}

/// A run that confirmed this rate, or no rate.
fn confirmed(target: TargetKind, skew_ms: u32, rate_per_s: Option<u32>) -> Run {
    let capacity = Capacity { rate_per_s, found_per_s: 2000, trials: 9, confirmations: 5 };
    Run { scenario: Scenario::Capacity, capacity: Some(capacity), ..run(target, skew_ms, 1) }
}

#[test]
fn with_several_skews_the_lowest_capacity_is_the_outcome() {
    let of = |skew_ms, rate_per_s| confirmed(TargetKind::Leno, skew_ms, Some(rate_per_s));
    let recorded = recorded(vec![of(0, 2000), of(50, 500), of(100, 1000)]);
    let results = Results::new(&recorded);
    let load = main_load(&results, Scenario::Capacity).expect("a load");
    let found = outcome(&results, Scenario::Capacity, load, TargetKind::Leno).expect("an outcome");
    assert_eq!(found.value, 500.0);
}

#[test]
fn with_several_skews_the_sentence_names_the_skew_of_each_capacity() {
    use TargetKind::{Haproxy, Leno};
    let said = |of_leno: Option<u32>| {
        let of_haproxy = [confirmed(Haproxy, 0, Some(900)), confirmed(Haproxy, 50, Some(300))];
        let of_leno = [confirmed(Leno, 0, of_leno), confirmed(Leno, 50, Some(1000))];
        let recorded = recorded([of_leno, of_haproxy].concat());
        sentence(&Results::new(&recorded), Scenario::Capacity).replace('\u{a0}', " ")
    };
    let others = "; haproxy’s 300 calls/s at a skew of 50 ms.";
    let lowest_at_50 =
        format!("With fewer than 0.1 % errors, the limit of leno is 1,000 calls/s at a skew of 50 ms{others}");
    assert_eq!(said(Some(2000)), lowest_at_50);
    let none_at_0 =
        format!("No rate through leno was confirmed with fewer than 0.1 % errors at a skew of 0 ms{others}");
    assert_eq!(said(None), none_at_0);
}

#[test]
fn a_repeat_that_never_became_steady_counts_as_the_longest_time() {
    let of = |times: &[Option<f64>]| {
        let of = |(steady_after_s, repeat): (&Option<f64>, u32)| Run {
            scenario: Scenario::Steady,
            steady_after_s: *steady_after_s,
            ..run(TargetKind::Leno, 0, repeat)
        };
        let recorded = recorded(times.iter().zip(1..).map(of).collect());
        sentence(&Results::new(&recorded), Scenario::Steady).replace('\u{a0}', " ")
    };
    let late = "The latency through leno is steady 7.00 s after the start.";
    assert_eq!(of(&[Some(3.0), None, Some(7.0)]), late);
    let never = "The latency through leno does not become steady within the run.";
    assert_eq!(of(&[Some(3.0), None, None]), never);
}

#[test]
fn a_repeat_of_a_retry_storm_in_which_every_call_failed_counts() {
    let of = |repeat| Run {
        scenario: Scenario::RetryStorm,
        condition: Condition { fault: Fault::Failing { percent: 50 }, policy: CallPolicy::Retry },
        calls: if repeat == 1 { 100 } else { 0 },
        errors: if repeat == 1 { 0 } else { 100 },
        ..run(TargetKind::Leno, 0, repeat)
    };
    let recorded = recorded((1..=3).map(of).collect());
    let results = Results::new(&recorded);
    let load = main_load(&results, Scenario::RetryStorm).expect("a load");
    let found = outcome(&results, Scenario::RetryStorm, load, TargetKind::Leno).expect("an outcome");
    assert_eq!(found.figure, "100\u{a0}%");
}
