use super::super::example::{recorded, run};
use super::super::judge::Verdict;
use super::*;
use crate::experiment::record::{Run, Throughput};

fn goal(runs: Vec<Run>, name: &str) -> Goal {
    let recorded = recorded(runs);
    let results = Results::new(&recorded);
    let found = goals(&results, results.scenarios()[0]).into_iter().find(|goal| goal.name.contains(name));
    found.unwrap_or_else(|| panic!("no goal {name}"))
}

/// Ten repeats. Each repeat has a run of the mesh, changed by `of_mesh`, and a run of another target, changed by
/// `of_other`.
fn beside(other: TargetKind, of_mesh: impl Fn(Run) -> Run, of_other: impl Fn(Run) -> Run) -> Vec<Run> {
    let pair = |repeat| [of_mesh(run(TargetKind::LenoMesh, 0, repeat)), of_other(run(other, 0, repeat))];
    (1..=10).flat_map(pair).collect()
}

fn with_cpu(us: f64) -> impl Fn(Run) -> Run {
    move |run| Run { proxy_cpu_us_per_call: Some(us), ..run }
}

#[test]
fn two_hops_may_cost_what_haproxys_cost_and_no_more() {
    let with = |us| goal(beside(TargetKind::HaproxyMesh, with_cpu(us), with_cpu(30.0)), "HAProxy");
    assert_eq!(with(29.0).verdict, Verdict::Reached);
    assert_eq!(with(31.0).verdict, Verdict::Missed);
    let without = goal((1..=10).map(|repeat| run(TargetKind::LenoMesh, 0, repeat)).collect(), "HAProxy");
    assert_eq!((without.verdict, without.figure.as_str()), (Verdict::CannotTell, "haproxy-mesh was not measured"));
}

#[test]
fn the_larger_of_both_proxies_is_the_one_whose_memory_counts() {
    let of = |repeat| Run {
        proxy_rss_peak_bytes: Some(5_000_000),
        server_proxy_rss_peak_bytes: Some(9_000_000),
        ..run(TargetKind::LenoMesh, 0, repeat)
    };
    let found = goal((1..=10).map(of).collect(), "memory");
    assert_eq!((found.verdict, found.figure.as_str()), (Verdict::Missed, "9.00 MB [9.00 – 9.00], skew 0 ms"));
}

#[test]
fn a_paced_load_is_judged_by_its_p99() {
    let paced = |p99_ms| move |run| Run { p99_ms, rate_per_s: Some(2000), ..run };
    let found = goal(beside(TargetKind::HaproxyMesh, paced(1.2), paced(1.1)), "paced p99");
    assert_eq!(found.verdict, Verdict::Missed);
    let failing = |run: Run| Run { errors: 2_000, ..paced(1.0)(run) };
    let found = goal(beside(TargetKind::HaproxyMesh, failing, paced(1.1)), "paced p99");
    assert_eq!(found.verdict, Verdict::CannotTell);
}

#[test]
fn bytes_are_judged_beside_a_bare_tunnels() {
    let carries = |mb| {
        move |run| Run {
            scenario: Scenario::Tcp,
            throughput: Some(Throughput { up_mb_per_s: mb, down_mb_per_s: 500.0, ..Throughput::default() }),
            ..run
        }
    };
    let runs = beside(TargetKind::Tunnel, carries(390.0), carries(500.0));
    assert_eq!(goal(runs.clone(), "up").verdict, Verdict::Missed);
    assert_eq!(goal(runs, "down").verdict, Verdict::Reached);
}

#[test]
fn handshakes_are_counted_in_seconds_of_cpu() {
    let with = |us: f64| -> Vec<Run> {
        let of = |repeat| Run { scenario: Scenario::Handshakes, ..run(TargetKind::LenoMesh, 0, repeat) };
        (1..=10).map(of).map(with_cpu(us)).collect()
    };
    assert_eq!(goal(with(400.0), "handshakes").figure, "2,500 /s [2,500 – 2,500]");
    assert_eq!(goal(with(510.0), "handshakes").verdict, Verdict::Missed);
}
