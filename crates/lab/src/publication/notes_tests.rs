use super::*;
use crate::experiment::record::{Skipped, Version};
use crate::publication::example::{measured, slow_pod, with_p99};
use crate::publication::name::Name;
use crate::publication::options::Scale;

fn has(lines: &[String], words: &str) -> bool {
    lines.iter().any(|line| line.contains(words))
}

#[test]
fn each_scale_says_what_it_leaves_out_and_so_does_every_shortened_run() {
    let mut measured = slow_pod();
    measured.description.changes = vec!["--repeat 1: number of repeats.".to_owned()];
    let quick = left_out(&measured);
    let except = "Scale quick, except for the options below: Runs of 5 s in place of 60 s.";
    assert!(has(&quick, except) && has(&quick, "--repeat 1"), "{quick:?}");
    assert!(has(&quick, "eBPF"), "{quick:?}");
    measured.description.scale = Scale::Full;
    let full = "Scale full, except for the options below: 10 repeats of 60 s, as published";
    assert!(has(&left_out(&measured), full), "{:?}", left_out(&measured));
    measured.description.changes.clear();
    assert!(has(&left_out(&measured), "Scale full: 10 repeats of 60 s"), "{:?}", left_out(&measured));
}

#[test]
fn an_experiment_that_did_not_end_is_named() {
    let mut measured = slow_pod();
    measured.description.steps[0].state = State::Running;
    measured.description.steps[1].state = State::Failed("backend-1 ended early".to_owned());
    measured.description.ended = None;
    let lines = left_out(&measured);
    assert!(has(&lines, "Not complete") && has(&lines, "The experiment slow-pod did not end"), "{lines:?}");
    assert!(has(&lines, "The experiment connections failed: backend-1 ended early"), "{lines:?}");
    measured.description.is_interrupted = true;
    assert!(has(&left_out(&measured), "Interrupted:"), "{:?}", left_out(&measured));
}

#[test]
fn here_is_one_machine_with_its_dates_and_no_network() {
    let lines = here(&slow_pod());
    assert!(
        has(
            &lines,
            "One machine: 2 CPUs (CPU), 8.00 GB, Linux 6.1. Started 2026-01-02T03:04:05Z, ended 2026-01-02T03:14:05Z"
        ),
        "{lines:?}"
    );
    assert!(has(&lines, "Costs assume nodes of 4 vCPUs"), "{lines:?}");
    assert!(!has(&here(&measured(Name::Kinvolk2019, Vec::new())), "Costs"), "it has no costs");
    let services = "The costs of 100 services assume";
    assert!(has(&here(&measured(Name::Ladder2026, Vec::new())), services) && !has(&lines, services), "{lines:?}");
    let memory = "counts this page once for each process";
    assert!(has(&here(&measured(Name::FiveMeshes2026, Vec::new())), memory) && !has(&lines, memory), "{lines:?}");
    assert!(!has(&lines, "network namespaces"), "{lines:?}");
    let mut with_ztunnel = slow_pod();
    let version = "Envoy 1.40.0 with ztunnel 1.28.0".to_owned();
    with_ztunnel.description.versions.push(Version { target: TargetKind::Ambient, version });
    assert!(has(&here(&with_ztunnel), "ambient also pass links between network namespaces"));
    assert!(has(&lines, "loopback") && has(&lines, "Absolute figures of two machines do not compare"), "{lines:?}");
}

#[test]
fn errors_luck_and_disturbances_are_named_with_the_condition() {
    let mut failing = with_p99(TargetKind::Istio, 50, 1, 10.0);
    failing.late = 1100;
    (failing.errors, failing.first_error, failing.foreign_cpu) = (100_000, Some("UNAVAILABLE".to_owned()), 0.5);
    let mut unlucky = with_p99(TargetKind::Vanilla, 50, 1, 10.0);
    unlucky.slow_share = 1.0;
    let lucky = Run { repeat: 2, slow_share: 0.0, ..unlucky.clone() };
    let mut measured = measured(Name::SlowPod2026, vec![failing, unlucky, lucky]);
    let why = "given up in repeat 1: envoy ended early".to_owned();
    measured.steps[0].1.experiment.skipped.push(Skipped { target: TargetKind::Ambient, why });
    let lines = doubts(&measured);
    assert!(
        has(
            &lines,
            "Istio sidecar in slow-pod: 100,000 of 200,000 calls failed, the first: UNAVAILABLE; 1 of 1 runs had over 0.5 % late calls"
        ),
        "{lines:?}"
    );
    assert!(
        has(&lines, "Kubernetes alone in slow-pod: in 1 of 2 runs, most calls went to the slow pod, by luck."),
        "{lines:?}"
    );
    assert!(has(&lines, "Istio ambient with a waypoint in slow-pod: given up in repeat 1"), "{lines:?}");
    assert!(!has(&lines, "Leno in"), "{lines:?}");
}

#[test]
fn a_debug_build_is_named() {
    let mut measured = slow_pod();
    assert!(!has(&doubts(&measured), "debug build"), "{:?}", doubts(&measured));
    measured.description.is_debug_build = true;
    assert!(has(&doubts(&measured), "debug build"), "{:?}", doubts(&measured));
}

#[test]
fn a_figure_that_a_repeat_lacks_is_named() {
    use crate::experiment::record::{Capacity, Scenario};
    let of = |repeat, rate_per_s| Run {
        scenario: Scenario::Crowd,
        capacity: Some(Capacity { rate_per_s, ..Capacity::default() }),
        ..with_p99(TargetKind::Kuma, 0, repeat, 10.0)
    };
    let dead = Run { calls: 0, ..of(3, None) };
    let mut measured = measured(Name::FiveMeshes2026, vec![of(1, Some(1000)), of(2, None), dead]);
    measured.steps[0].0 = "capacity".to_owned();
    let lines = doubts(&measured);
    assert!(
        has(&lines, "Kuma has no highest rate with fewer than 0.1 % errors: 2 of 3 repeats had none."),
        "{lines:?}"
    );
}

#[test]
fn the_legend_has_the_limit_of_failed_calls_of_each_statistic_that_a_table_has() {
    let limits = |name| legend(&measured(name, Vec::new())).into_iter().find(|line| line.starts_with("Latencies"));
    let slow_pod = limits(Name::SlowPod2026).expect("limits");
    assert!(slow_pod.ends_with("The limits: 1 % for p50, 1 % for p99."), "{slow_pod}");
    let kinvolk = limits(Name::Kinvolk2019).expect("limits");
    assert!(kinvolk.ends_with("1 % for p99, 0.1 % for p99.9, 0 % for worst call."), "{kinvolk}");
    let has_cpu = |name| has(&legend(&measured(name, Vec::new())), "If more than 1 % of a condition's calls failed");
    assert!(Name::ALL.into_iter().all(has_cpu));
}
