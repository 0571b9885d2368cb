use super::*;
use crate::experiment::record::{Run, Skipped};
use crate::publication::example::{measured, slow_pod, with_p99};
use crate::publication::name::Name;

fn slower(p99: [(TargetKind, f64); 2]) -> Measured {
    let runs = p99.into_iter().flat_map(|(target, ms)| {
        (1..=3).map(move |repeat| with_p99(target, 50, repeat, ms + f64::from(repeat) / 10.0))
    });
    measured(Name::SlowPod2026, runs.collect())
}

#[test]
fn the_sentence_has_lenos_figure_and_that_of_the_best_other_mesh_and_no_luck() {
    let text = sentence(&slow_pod());
    let figures = "99 of 100 calls took at most 10.2\u{a0}ms through Leno, and 70.2\u{a0}ms through Istio sidecar, the only other mesh";
    assert!(text.starts_with("With one of five pods 50 ms slower,") && text.contains(figures), "{text}");
    assert!(!text.contains("Kubernetes") && text.matches('.').count() == 3, "{text}");
}

#[test]
fn a_better_mesh_is_in_the_sentence_and_so_is_a_difference_that_cannot_be_told() {
    let text = sentence(&slower([(LENO, 30.0), (TargetKind::CiliumL7, 20.0)]));
    assert!(
        text.contains("30.2\u{a0}ms through Leno, which is worse than the 20.2\u{a0}ms through Cilium L7"),
        "{text}"
    );
    let text = sentence(&slower([(LENO, 20.01), (TargetKind::CiliumL7, 20.0)]));
    assert!(text.ends_with("the two cannot be told apart: the difference is within the noise."), "{text}");
}

#[test]
fn one_repeat_or_a_load_at_its_limit_makes_no_figure_better() {
    let of = |repeats, at_ceiling| {
        let runs = [(LENO, 10.0), (TargetKind::Istio, 20.0)].into_iter().flat_map(|(target, ms)| {
            (1..=repeats).map(move |repeat| {
                let is_near = at_ceiling && target == LENO && repeat == 1;
                Run { at_ceiling: is_near, ..with_p99(target, 50, repeat, ms + f64::from(repeat) / 10.0) }
            })
        });
        measured(Name::SlowPod2026, runs.collect())
    };
    let told = standing(&of(3, false));
    let line = "p99 with one pod 50 ms slower: Leno 10.2\u{a0}ms, Istio sidecar 20.2\u{a0}ms";
    assert!(told.ahead.contains(&line.to_owned()), "{told:?}");
    for (measured, why) in
        [(of(1, false), "there is only one repeat"), (of(3, true), "the load was near its own limit")]
    {
        let Standing { ahead, behind, level } = standing(&measured);
        assert!(ahead.is_empty() && behind.is_empty() && level.iter().all(|line| line.contains(why)), "{level:?}");
        assert!(sentence(&measured).ends_with(&format!("the two cannot be told apart: {why}.")));
    }
}

#[test]
fn a_figure_that_is_worse_because_the_machine_was_busy_makes_no_other_figure_better() {
    let of = |busy: TargetKind, foreign_cpu, late| {
        let mut measured = slower([(LENO, 10.0), (TargetKind::Istio, 20.0)]);
        let runs = measured.steps[0].1.runs.iter_mut();
        runs.filter(|run| run.target == busy).for_each(|run| (run.foreign_cpu, run.late) = (foreign_cpu, late));
        measured
    };
    let is_told =
        |measured: &Measured| standing(measured).ahead.iter().any(|line| line.starts_with("p99 with one pod"));
    assert!(is_told(&of(TargetKind::Istio, 0.1, 100)));
    let mut once = of(TargetKind::Istio, 0.5, 1000);
    once.steps[0].1.runs.iter_mut().filter(|run| run.repeat > 1).for_each(|run| (run.foreign_cpu, run.late) = (0.0, 0));
    assert!(is_told(&once));
    for (foreign_cpu, late, why) in
        [(0.5, 0, "other programs used the CPUs in most of the runs"), (0.0, 1000, "the load sent calls late")]
    {
        let measured = of(TargetKind::Istio, foreign_cpu, late);
        assert!(!is_told(&measured) && sentence(&measured).contains(why), "{}", sentence(&measured));
        assert!(standing(&measured).level.iter().any(|line| line.contains(why)), "{:?}", standing(&measured));
        // Leno is better although its own runs were slowed down.
        assert!(is_told(&of(LENO, foreign_cpu, late)));
        // Without the other programs, the rival with the worst figure could have had the best.
        let mut measured = of(TargetKind::Istio, foreign_cpu, late);
        let quiet = slower([(TargetKind::CiliumL7, 15.0), (TargetKind::Vanilla, 15.0)]);
        measured.steps[0].1.runs.extend(quiet.steps.into_iter().flat_map(|(_, recorded)| recorded.runs));
        assert!(!is_told(&measured) && sentence(&measured).contains(why), "{}", sentence(&measured));
    }
}

#[test]
fn a_busy_machine_does_not_change_memory_and_may_make_a_ratio_better() {
    let columns = |name: Name| name.publication().tables.iter().flat_map(|table| table.columns);
    assert!(columns(Name::Kinvolk2019).filter(|it| matches!(it.unit, "MB" | "mCPU")).all(|it| !it.includes_waiting()));
    let mut measured = slow_pod();
    let runs = measured.steps[0].1.runs.iter_mut();
    runs.filter(|run| run.target == LENO && run.skew_ms == 0).for_each(|run| run.foreign_cpu = 0.5);
    let growth = "growth of the p99 with one pod 50 ms slower";
    assert!(standing(&slow_pod()).ahead.iter().any(|line| line.starts_with(growth)), "{:?}", standing(&slow_pod()));
    assert!(standing(&measured).level.iter().any(|line| line.starts_with(growth)), "{:?}", standing(&measured));
}

/// The figures of [`slower`], with `istio` failed calls in each run of Istio and `cilium` in each run of Cilium L7.
/// Each run has 100,000 answered calls.
fn failing(istio: u64, cilium: u64) -> Measured {
    let mut measured = slower([(TargetKind::Istio, 5.0), (TargetKind::CiliumL7, 20.0)]);
    let own = slower([(LENO, 10.0), (TargetKind::Vanilla, 10.0)]);
    let runs = &mut measured.steps[0].1.runs;
    for run in runs.iter_mut() {
        run.errors = if run.target == TargetKind::Istio { istio } else { cilium };
    }
    runs.extend(own.steps.into_iter().flat_map(|(_, recorded)| recorded.runs));
    measured
}

#[test]
fn a_p99_with_many_failed_calls_has_no_place_in_the_sentence_and_in_the_order() {
    let column = &Name::SlowPod2026.publication().headline.column;
    let few = failing(100, 0);
    let istio =
        "which is worse than the 5.20\u{a0}ms through Istio sidecar (of the answered calls), the best of the 2 other";
    assert!(sentence(&few).contains(istio), "{}", sentence(&few));
    assert_eq!(order_here(&few, column), [TargetKind::Istio, LENO, TargetKind::CiliumL7]);
    let many = failing(2000, 0);
    let text = sentence(&many);
    assert!(text.contains("20.2\u{a0}ms through Cilium L7, the only other mesh that can be compared."), "{text}");
    assert!(text.ends_with(" Left out, because more than 1\u{a0}% of the calls failed: Istio sidecar."), "{text}");
    assert_eq!(order_here(&many, column), [LENO, TargetKind::CiliumL7]);
    let mut dead = many;
    dead.steps[0].1.runs.iter_mut().filter(|run| run.target == TargetKind::Istio).for_each(|run| run.calls = 0);
    assert_eq!(sentence(&dead), text);
    let all = failing(2000, 2000);
    assert!(sentence(&all).contains("through Leno; no other mesh can be compared."), "{}", sentence(&all));
}

#[test]
fn leno_with_many_failed_calls_has_no_p99() {
    let mut measured = slower([(LENO, 10.0), (TargetKind::CiliumL7, 20.0)]);
    measured.steps[0].1.runs.iter_mut().filter(|run| run.target == LENO).for_each(|run| run.errors = 25_000);
    assert!(sentence(&measured).starts_with("20.0\u{a0}% of the calls through Leno failed"), "{}", sentence(&measured));
    let Standing { ahead, level, .. } = standing(&measured);
    assert!(!ahead.iter().chain(&level).any(|line| line.starts_with("p99")), "{ahead:?} {level:?}");
}

/// The names of the figures in which Leno is compared with Istio in a publication. Each condition has three runs at
/// `rate_per_s`, and each run has 100,000 answered calls. In each run of Istio, `errors` calls failed.
fn compared(name: Name, rate_per_s: u32, errors: u64) -> Vec<String> {
    let of = |target, errors| {
        (1..=3).map(move |repeat| Run {
            rate_per_s: Some(rate_per_s),
            errors,
            ..with_p99(target, 0, repeat, 20.0 + f64::from(repeat) / 10.0)
        })
    };
    let runs = of(LENO, 0).chain(of(TargetKind::Istio, errors)).collect();
    let Standing { ahead, behind, level } = standing(&measured(name, runs));
    let lines = [ahead, behind, level].concat().into_iter();
    lines.filter_map(|line| Some(line.split_once(": Leno ")?.0.to_owned())).collect()
}

#[test]
fn failed_calls_take_the_place_of_every_statistic_of_the_latencies() {
    let has = |errors, what: &str| compared(Name::Kinvolk2019, 500, errors).contains(&format!("{what} at 500 calls/s"));
    let places = |errors| ["p50", "p99", "p99.9", "worst call"].map(|what| has(errors, what));
    assert_eq!(places(0), [true; 4]);
    assert_eq!(places(1), [true, true, true, false]);
    assert_eq!(places(200), [true, true, false, false]);
    assert_eq!(places(2_000), [false; 4]);
    let means = |errors| compared(Name::Ladder2026, 100, errors).contains(&"mean at 100 requests/s".to_owned());
    assert_eq!([0, 1].map(means), [true, false]);
}

#[test]
fn a_condition_that_fails_calls_has_no_place_by_its_cpu_time() {
    let has = |errors| compared(Name::Kinvolk2019, 500, errors).contains(&"CPU time at 500 calls/s".to_owned());
    assert_eq!([0, 1_000, 2_000].map(has), [true, true, false]);
}

#[test]
fn without_others_or_without_leno_the_sentence_says_so() {
    let alone = measured(Name::SlowPod2026, vec![with_p99(LENO, 50, 1, 10.0)]);
    assert!(sentence(&alone).ends_with("through Leno; no other mesh was measured."));
    let mut none = measured(Name::SlowPod2026, Vec::new());
    assert_eq!(sentence(&none), "Leno was not measured: none of its runs ended.");
    none.steps[0].1.experiment.skipped.push(Skipped { target: LENO, why: "given up in repeat 1".to_owned() });
    assert_eq!(sentence(&none), "Leno was not measured: given up in repeat 1.");
    none.description.steps[0].state = State::Failed("backend-1 ended early".to_owned());
    assert_eq!(sentence(&none), "Leno was not measured: the experiment slow-pod failed: backend-1 ended early.");
}

#[test]
fn every_figure_is_ahead_behind_or_level() {
    let Standing { ahead, behind, level } = standing(&slow_pod());
    assert!(
        ahead.contains(&"p99 with one pod 50 ms slower: Leno 10.2\u{a0}ms, Istio sidecar 70.2\u{a0}ms".to_owned()),
        "{ahead:?}"
    );
    // Kubernetes without a mesh is faster than Leno while no pod is slow.
    assert!(
        behind.contains(&"p99 with all pods alike: Leno 10.2\u{a0}ms, Kubernetes alone 5.20\u{a0}ms".to_owned()),
        "{behind:?}"
    );
    assert!(level.iter().any(|line| line.starts_with("calls per second with all pods alike")), "{level:?}");
}

#[test]
fn more_is_better_for_a_rate() {
    let of = |target, rps| {
        (1..=3).map(move |repeat| Run { rps: rps + f64::from(repeat), ..with_p99(target, 0, repeat, 10.0) })
    };
    let runs = of(LENO, 5000.0).chain(of(TargetKind::Istio, 4000.0));
    let measured = measured(Name::SlowPod2026, runs.collect());
    let line = "calls per second with all pods alike: Leno 5,000/s, Istio sidecar 4,000/s".to_owned();
    assert!(standing(&measured).ahead.contains(&line), "{:?}", standing(&measured));
}

#[test]
fn the_order_leaves_out_luck_here_and_follows_the_figures_as_published() {
    let column = &Name::SlowPod2026.publication().headline.column;
    assert_eq!(order_here(&slow_pod(), column), [LENO, TargetKind::Istio]);
    assert_eq!(order_theirs(column).first(), Some(&TargetKind::Linkerd));
    assert_eq!(order_theirs(column).last(), Some(&TargetKind::CiliumL7));
}

#[test]
fn nodes_are_counted_and_latencies_are_not() {
    assert_eq!(
        [figure(6.0, "nodes"), figure(6.0, "ms"), figure(9588.0, "/s")],
        ["6\u{a0}nodes", "6.00\u{a0}ms", "9,590/s"]
    );
}
