use super::super::example::{recorded, run};
use super::super::group::Results;
use super::super::table::table;
use super::*;
use crate::experiment::record::{Capacity, Footprint, Restarts, Rollout, Run, SlowMethod, TargetKind};

/// The cells of the table's only row, each with the name of its column.
fn cells(runs: Vec<Run>) -> Vec<(String, String)> {
    let scenario = runs[0].scenario;
    let recorded = recorded(runs);
    let table = table(&Results::new(&recorded), scenario);
    let (_, cells) = table.sections[0].rows[0].clone();
    table.columns[1..].iter().cloned().zip(cells).collect()
}

fn cell(cells: &[(String, String)], column: &str) -> String {
    let found = cells.iter().find(|(name, _)| name == column);
    found.unwrap_or_else(|| panic!("no column {column:?} in {cells:?}")).1.clone()
}

/// A run of Leno at 1,000 calls per second, whose proxies have 5 MB when idle and 7 MB under the load.
fn loaded(scenario: Scenario, repeat: u32, p99_ms: f64) -> Run {
    let footprint = Footprint { proxies: 1, idle_bytes: 5_000_000, loaded_bytes: 7_000_000, ..Footprint::default() };
    Run {
        scenario,
        p99_ms,
        rate_per_s: Some(1000),
        connections: 100,
        rps: 999.0,
        calls: 9_990,
        errors: 10,
        proxy_cpu_us_per_call: Some(20.0),
        footprint: Some(footprint),
        ..run(TargetKind::Leno, 0, repeat)
    }
}

#[test]
fn a_ladder_has_means_with_intervals_memory_and_cpu() {
    let runs = [8.0, 12.0].iter().zip(1..).map(|(&ms, repeat)| loaded(Scenario::Ladder, repeat, ms)).collect();
    let cells = cells(runs);
    // With two repeats, half of the interval is 12.706 (Student's quantile for one degree of freedom) times the
    // standard error, which is 2.
    assert_eq!(cell(&cells, "p99, mean [95 %], ms"), "10.0 [-15.4 – 35.4]");
    assert_eq!(cell(&cells, "errors, %"), "0.100");
    // 1,000 calls per second (failed calls included), each with 20 us of CPU time, use 20 thousandths of a CPU.
    assert_eq!(cell(&cells, "CPU of all proxies, mCPU"), "20.0");
    assert_eq!(cell(&cells, "memory of all proxies idle, MB"), "5.00");
    assert_eq!(cell(&cells, "memory of all proxies loaded, MB"), "7.00");
    assert_eq!(cell(&cells, "steady after, s"), "–, in 0 of 2 runs");
}

#[test]
fn a_run_in_which_every_call_failed_has_an_error_rate() {
    let mut runs: Vec<Run> = (1..=3).map(|repeat| loaded(Scenario::Ladder, repeat, 8.0)).collect();
    for run in &mut runs[1..] {
        (run.calls, run.errors) = (0, 10_000);
    }
    assert_eq!(cell(&cells(runs), "errors, %"), "100");
}

#[test]
fn a_crowd_has_the_memory_of_a_connection() {
    let cells = cells(vec![loaded(Scenario::Crowd, 1, 8.0)]);
    assert_eq!(cell(&cells, "memory for each connection, KB"), "20.0");
}

#[test]
fn a_capacity_has_a_mean_only_if_every_repeat_was_confirmed() {
    let found = |repeat, rate_per_s| Run {
        rate_per_s: None,
        capacity: Some(Capacity { rate_per_s, found_per_s: 2000, trials: 9, confirmations: 1 }),
        ..loaded(Scenario::Capacity, repeat, 8.0)
    };
    const SUSTAINED: &str = "sustained calls/s, mean [95 %]";
    assert_eq!(cell(&cells(vec![found(1, Some(2000)), found(2, Some(2000))]), SUSTAINED), "2,000 [2,000 – 2,000]");
    assert_eq!(cell(&cells(vec![found(1, Some(2000)), found(2, None)]), SUSTAINED), "–");
    let dead = Run { calls: 0, ..found(2, None) };
    assert_eq!(cell(&cells(vec![found(1, Some(2000)), dead]), SUSTAINED), "–");
}

#[test]
fn a_footprint_has_the_memory_of_an_idle_connection_and_after_the_burst() {
    let run = loaded(Scenario::Footprint, 1, 8.0);
    let footprint = run.footprint.map(|footprint| Footprint {
        unloaded_bytes: Some(6_000_000),
        connected_bytes: Some(6_500_000),
        after_burst_bytes: Some(6_100_000),
        ..footprint
    });
    let cells = cells(vec![Run { footprint, ..run }]);
    assert_eq!(cell(&cells, "memory for each connection, KB"), "5.00");
    assert_eq!(cell(&cells, "memory of all proxies after the burst, MB"), "6.10");
}

#[test]
fn a_rollout_has_the_lost_calls_of_each_kind_of_restart() {
    let run = |repeat, lost| {
        let restarts = |lost| Restarts { restarts: 5, calls: 1000, lost };
        let rollout = Rollout { graceful: restarts(0), abrupt: restarts(lost) };
        Run { rollout: Some(rollout), ..loaded(Scenario::Rollout, repeat, 8.0) }
    };
    let cells = cells(vec![run(1, 10), run(2, 20), run(3, 60)]);
    assert_eq!(cell(&cells, "calls lost, graceful"), "0 [0 – 0]");
    assert_eq!(cell(&cells, "calls lost, abrupt"), "20.0 [10.0 – 60.0]");
}

#[test]
fn runs_in_which_every_call_failed_count_among_the_lost_calls_and_never_become_steady() {
    let rollout = |repeat, calls| {
        let restarts = Restarts { restarts: 5, calls, lost: 1000 - calls };
        let rollout = Some(Rollout { graceful: restarts, abrupt: restarts });
        Run { rollout, calls, errors: 1000 - calls, ..loaded(Scenario::Rollout, repeat, 8.0) }
    };
    let lost = cells(vec![rollout(1, 1000), rollout(2, 0), rollout(3, 0)]);
    assert_eq!(cell(&lost, "calls lost, graceful"), "1,000 [0 – 1,000]");
    let steady = |repeat, calls, steady_after_s| Run { calls, steady_after_s, ..loaded(Scenario::Steady, repeat, 8.0) };
    let steady = cells(vec![steady(1, 1000, Some(3.0)), steady(2, 0, None)]);
    assert_eq!(cell(&steady, "steady after, s"), "3.00, in 1 of 2 runs");
}

#[test]
fn streams_are_compared_with_the_mean_backend() {
    let messages_per_s = vec![100.0, 200.0, 300.0];
    let cells = cells(vec![Run { messages_per_s, ..loaded(Scenario::Streams, 1, 8.0) }]);
    assert_eq!(cell(&cells, "messages/s"), "600");
    assert_eq!(cell(&cells, "busiest ÷ mean backend"), "1.50");
    assert_eq!(cell(&cells, "quietest ÷ mean backend"), "0.500");
}

#[test]
fn calls_that_were_not_sent_cost_no_cpu() {
    let error_classes = [("gRPC UNAVAILABLE".to_owned(), 10), ("not sent".to_owned(), 9_990)].into();
    let run = Run { errors: 10_000, error_classes, ..loaded(Scenario::Ladder, 1, 8.0) };
    // The load sent 1,000 calls per second, and a few of them failed. Each sent call takes 20 us of CPU time; a call
    // that was not sent takes none.
    assert_eq!(cell(&cells(vec![run]), "CPU of all proxies, mCPU"), "20.0");
}

#[test]
fn the_cpu_of_all_proxies_is_that_of_both_methods() {
    let of = |calls_meanwhile| {
        let slow_method = Some(SlowMethod { calls: 1_100, calls_meanwhile, ..SlowMethod::default() });
        let run = Run { slow_method, ..loaded(Scenario::Methods, 1, 8.0) };
        cell(&cells(vec![run]), "CPU of all proxies, mCPU")
    };
    assert_eq!(of(1_000), "22.0");
    // `calls_meanwhile` is 0 in results of earlier lab versions. Those versions divided the CPU time of both methods by
    // the calls of the fast method alone, so the calls of the slow method must not be added.
    assert_eq!(of(0), "20.0");
}
