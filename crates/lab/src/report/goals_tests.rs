use super::super::example::{pairs, recorded, run};
use super::*;
use crate::experiment::record::{Condition, Run};

/// Ten repeats. Each repeat has a healthy run with a p99 of 100 ms, and a run at a skew of 50 ms with one of the given
/// p99 values.
fn ten(skewed: [f64; 10]) -> Vec<Run> {
    pairs(&skewed.map(|ms| (100.0, ms)))
}

fn goal(runs: Vec<Run>, name: &str) -> Goal {
    let recorded = recorded(runs);
    let results = Results::new(&recorded);
    let scenario = results.scenarios()[0];
    let found = goals(&results, scenario).into_iter().find(|goal| goal.name.contains(name));
    found.unwrap_or_else(|| panic!("no goal {name}"))
}

#[test]
fn a_goal_is_reached_when_the_whole_interval_keeps_the_limit() {
    // With ten repeats, the interval spans the second to the ninth smallest ratio: 1.01 to 1.09.
    let found = goal(ten([100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0, 109.0, 150.0]), "p99");
    assert_eq!(found.verdict, Verdict::Reached);
    assert_eq!(found.figure, "1.04 × [1.01 – 1.09], skew 50 ms");
}

#[test]
fn a_goal_is_missed_when_no_part_of_the_interval_keeps_the_limit() {
    let found = goal(ten([100.0, 111.0, 112.0, 113.0, 114.0, 115.0, 116.0, 117.0, 118.0, 119.0]), "p99");
    assert_eq!(found.verdict, Verdict::Missed);
}

#[test]
fn nobody_can_tell_when_the_interval_spans_the_limit_and_the_noise_is_said() {
    let found = goal(ten([90.0, 95.0, 102.0, 103.0, 104.0, 106.0, 106.0, 107.0, 115.0, 119.0]), "p99");
    assert_eq!(found.verdict, Verdict::CannotTell);
    // The noise is half of the width of the interval, divided by the median: (1.15 - 0.95) / 2 / 1.05 = 9.52 %.
    assert_eq!(found.figure, "1.05 × [0.950 – 1.15], ± 9.52 %, skew 50 ms");
}

#[test]
fn nobody_can_tell_from_too_few_repeats() {
    let found = goal(pairs(&[(100.0, 100.0), (100.0, 101.0)]), "p99");
    assert_eq!(found.verdict, Verdict::CannotTell);
    assert!(found.figure.contains("2 repeats, 6 are needed"), "{}", found.figure);
}

#[test]
fn nobody_can_tell_without_a_healthy_run_to_compare_with() {
    let runs = (1..=10).map(|repeat| run(TargetKind::Leno, 50, repeat)).collect();
    let found = goal(runs, "p99");
    assert_eq!((found.verdict, found.figure.as_str()), (Verdict::CannotTell, "skew 0 was not measured"));
}

#[test]
fn nobody_can_tell_from_latencies_if_too_many_calls_failed() {
    let with = |errors: u64| -> Vec<Run> {
        let failing = |run: Run| if run.skew_ms > 0 { Run { errors, ..run } } else { run };
        ten([100.0; 10]).into_iter().map(failing).collect()
    };
    for name in ["p99", "sd of p50"] {
        assert_eq!(goal(with(1_000), name).verdict, Verdict::Reached, "{name}");
        let unknown = goal(with(25_000), name);
        assert_eq!(unknown.verdict, Verdict::CannotTell, "{name}");
        assert!(unknown.figure.starts_with("20.0 % of the calls failed, "), "{}", unknown.figure);
    }
    assert_eq!(goal(with(25_000), "calls/s").verdict, Verdict::Reached);
}

#[test]
fn the_worst_skew_decides_and_a_miss_outweighs_doubt() {
    let mut runs = ten([100.0; 10]);
    runs.extend((1..=10).map(|repeat| Run { p99_ms: 130.0, ..run(TargetKind::Leno, 20, repeat) }));
    let found = goal(runs, "p99");
    assert_eq!((found.verdict, found.figure.as_str()), (Verdict::Missed, "1.30 × [1.30 – 1.30], skew 20 ms"));
}

#[test]
fn the_rate_has_to_stay_above_its_limit() {
    let with = |rps: f64| -> Vec<Run> {
        let slower = |run: Run| if run.skew_ms > 0 { Run { rps, ..run } } else { run };
        ten([100.0; 10]).into_iter().map(slower).collect()
    };
    assert_eq!(goal(with(9_600.0), "calls/s").verdict, Verdict::Reached);
    assert_eq!(goal(with(9_400.0), "calls/s").verdict, Verdict::Missed);
}

#[test]
fn the_slow_pods_share_is_judged_in_percent() {
    let with =
        |slow_share: f64| -> Vec<Run> { ten([100.0; 10]).into_iter().map(|run| Run { slow_share, ..run }).collect() };
    assert_eq!(goal(with(0.0049), "slow pod").figure, "0.490 % [0.490 – 0.490], skew 50 ms");
    assert_eq!(goal(with(0.0049), "slow pod").verdict, Verdict::Reached);
    assert_eq!(goal(with(0.0051), "slow pod").verdict, Verdict::Missed);
}

#[test]
fn a_deviation_of_p50_is_judged_with_its_own_uncertainty() {
    let with = |noise: f64| -> Vec<Run> {
        let p50 = |repeat: u32| 10.0 * (1.0 + if repeat.is_multiple_of(2) { noise } else { -noise });
        (1..=10).map(|repeat| Run { p50_ms: p50(repeat), ..run(TargetKind::Leno, 0, repeat) }).collect()
    };
    // For ten repeats, the interval spans 0.69 to 1.83 times the standard deviation.
    assert_eq!(goal(with(0.02), "sd of p50").verdict, Verdict::Reached);
    assert_eq!(goal(with(0.04), "sd of p50").verdict, Verdict::CannotTell);
    assert_eq!(goal(with(0.09), "sd of p50").verdict, Verdict::Missed);
}

#[test]
fn a_backend_that_never_recovers_misses_the_goal() {
    let with = |after: Option<f64>| -> Vec<Run> {
        let of = |repeat| Run {
            scenario: Scenario::Recover,
            recovered_after_s: after,
            ..run(TargetKind::Leno, 200, repeat)
        };
        (1..=10).map(of).collect()
    };
    assert_eq!(goal(with(Some(4.2)), "fair share").verdict, Verdict::Reached);
    let never = goal(with(None), "fair share");
    assert_eq!((never.verdict, never.figure.as_str()), (Verdict::Missed, "never [never – never], skew 200 ms"));
    let dead = with(None).into_iter().map(|run| Run { calls: 0, errors: 1000, ..run });
    let dead = goal(dead.collect(), "fair share");
    assert_eq!(dead.verdict, Verdict::Missed, "{}", dead.figure);
}

#[test]
fn memory_is_judged_beside_what_it_was_before() {
    let with = |after: u64| -> Vec<Run> {
        let of = |repeat| Run {
            scenario: Scenario::Memory,
            proxy_rss_before_bytes: Some(10_000_000),
            proxy_rss_after_bytes: Some(after),
            ..run(TargetKind::Leno, 0, repeat)
        };
        (1..=6).map(of).collect()
    };
    assert_eq!(goal(with(10_900_000), "memory").verdict, Verdict::Reached);
    assert_eq!(goal(with(12_300_000), "memory").verdict, Verdict::Missed);
}

/// Ten repeats. Each repeat has a run over 1 connection, and a run over 8 connections whose latency is `factor` times
/// as high.
fn connections(noise: f64, factor: f64) -> Vec<Run> {
    let of = |connections: u32, repeat: u32, p99_ms: f64| Run {
        scenario: Scenario::Connections,
        connections,
        p99_ms,
        p50_ms: p99_ms,
        ..run(TargetKind::Leno, 50, repeat)
    };
    let p99 = |repeat: u32| 20.0 * (1.0 + noise * f64::from(repeat % 5));
    (1..=10).flat_map(|repeat| [of(1, repeat, p99(repeat)), of(8, repeat, p99(11 - repeat) * factor)]).collect()
}

#[test]
fn more_connections_are_the_same_within_the_spread_and_different_beyond_it() {
    assert_eq!(goal(connections(0.02, 1.0), "p99").verdict, Verdict::Reached);
    assert_eq!(goal(connections(0.02, 1.5), "p99").verdict, Verdict::Missed);
    assert_eq!(goal(connections(0.02, 0.5), "p99").verdict, Verdict::Missed);
}

#[test]
fn failed_calls_do_not_make_more_connections_the_same() {
    let failing = connections(0.02, 1.0).into_iter().map(|run| Run { errors: 2_000, ..run });
    assert_eq!(goal(failing.collect(), "p50").verdict, Verdict::CannotTell);
}

#[test]
fn noise_that_could_hide_a_difference_does_not_make_connections_the_same() {
    assert_eq!(goal(connections(0.5, 1.0), "p99").verdict, Verdict::CannotTell);
}

#[test]
fn each_chain_has_its_own_limit_of_calls_at_the_end() {
    let with = |fault: Fault, server_calls: u64| -> Vec<Run> {
        let of = |repeat| Run {
            scenario: Scenario::RetryStorm,
            condition: Condition { fault, policy: CallPolicy::Retry },
            rate_per_s: Some(50),
            calls: 0,
            errors: 1_000,
            server_calls: Some(server_calls),
            ..run(TargetKind::Leno, 0, repeat)
        };
        (1..=6).map(of).collect()
    };
    for (fault, name, reached, missed) in [
        (Fault::Chain, "end of a chain", 1_790, 1_810),
        (Fault::ForwardingChain, "end of a forwarding chain", 1_290, 1_310),
        (Fault::TracedChain, "end of a traced chain", 1_290, 1_310),
    ] {
        assert_eq!(goal(with(fault, reached), name).verdict, Verdict::Reached, "{fault}");
        assert_eq!(goal(with(fault, missed), name).verdict, Verdict::Missed, "{fault}");
    }
}

#[test]
fn other_targets_have_no_goals() {
    let recorded = recorded((1..=10).map(|repeat| run(TargetKind::Envoy, 50, repeat)).collect());
    assert_eq!(goals(&Results::new(&recorded), Scenario::SlowPod), []);
}
