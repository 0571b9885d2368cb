use super::*;
use crate::publication::definition::Column;
use crate::publication::example::{measured, slow_pod, with_p99};
use crate::publication::name::Name;
use crate::report::Statistic;
use crate::report::example::run;
use crate::report::figures::{p50_ms, steady_s};

const P99: At = At::latency("slow-pod", Statistic::P99);

fn column(value: Value) -> Column {
    Column::less("", "", "ms", value)
}

fn value(measured: &Measured, value: Value, target: TargetKind) -> Option<f64> {
    measured.here(&column(value), target).map(|here| (here.mean.value * 1000.0).round() / 1000.0)
}

#[test]
fn a_mean_is_over_the_repeats_of_one_case() {
    let measured = slow_pod();
    assert_eq!(value(&measured, Value::Mean(P99.slow_ms(50)), TargetKind::Istio), Some(70.2));
    assert_eq!(value(&measured, Value::Mean(P99.slow_ms(51)), TargetKind::Istio), None);
    assert_eq!(value(&measured, Value::Mean(P99.connections(2)), TargetKind::Istio), None);
    assert_eq!(value(&measured, Value::Mean(P99), TargetKind::Linkerd), None);
    assert_eq!(value(&measured, Value::Deviation(P99), TargetKind::Istio), Some(0.1));
}

#[test]
fn differences_and_ratios_are_taken_within_a_repeat() {
    let runs = [(1, 10.0, 5.0), (2, 20.0, 10.0)].into_iter().flat_map(|(repeat, leno, alone)| {
        [with_p99(TargetKind::LenoMesh, 0, repeat, leno), with_p99(TargetKind::Vanilla, 0, repeat, alone)]
    });
    let lonely = with_p99(TargetKind::LenoMesh, 0, 3, 1000.0);
    let measured = measured(Name::SlowPod2026, runs.chain([lonely]).collect());
    let added = Value::Added(P99, TargetKind::Vanilla);
    assert_eq!(value(&measured, added, TargetKind::LenoMesh), Some(7.5));
    assert_eq!(value(&measured, added, TargetKind::Vanilla), None);
    assert_eq!(value(&slow_pod(), Value::Over(P99.slow_ms(50), P99), TargetKind::LenoMesh), Some(1.0));
}

#[test]
fn failed_calls_of_the_base_count_in_a_difference() {
    let vanilla = Run { errors: 25_000, ..with_p99(TargetKind::Vanilla, 0, 1, 5.0) };
    let measured = measured(Name::SlowPod2026, vec![with_p99(TargetKind::LenoMesh, 0, 1, 10.0), vanilla]);
    let failed = |value| {
        let here = measured.here(&column(value), TargetKind::LenoMesh).expect("one repeat");
        (here.failed, here.has_failed)
    };
    assert_eq!(failed(Value::Added(P99, TargetKind::Vanilla)), (0.2, true));
    assert_eq!(failed(Value::Mean(P99)), (0.0, false));
}

#[test]
fn where_luck_decides_the_worst_repeat_stands_for_a_condition_that_balances_connections() {
    let measured = slow_pod();
    let by_luck = column(Value::Mean(P99.slow_ms(200))).by_luck();
    let alone = measured.here(&by_luck, TargetKind::Vanilla).expect("three repeats");
    assert_eq!((alone.mean.value, alone.is_worst), (205.2, true));
    assert!(!measured.here(&by_luck, TargetKind::Istio).expect("three repeats").is_worst);
}

#[test]
fn a_figure_that_a_repeat_lacks_is_unknown_and_runs_without_an_answer_do_not_count() {
    let mut runs: Vec<Run> = (1..=3).map(|repeat| run(TargetKind::Istio, 0, repeat)).collect();
    runs[0].calls = 0;
    runs[0].p50_ms = 999.0;
    runs[1].steady_after_s = Some(2.0);
    let measured = measured(Name::SlowPod2026, runs);
    assert_eq!(value(&measured, Value::Mean(At::new("slow-pod", p50_ms)), TargetKind::Istio), Some(10.0));
    assert_eq!(value(&measured, Value::Mean(At::new("slow-pod", steady_s)), TargetKind::Istio), None);
}

#[test]
fn runs_in_which_every_call_failed_count_among_the_errors() {
    let mut runs: Vec<Run> = (1..=2).map(|repeat| run(TargetKind::Istio, 0, repeat)).collect();
    (runs[0].calls, runs[0].errors) = (0, 500);
    runs[1].errors = 0;
    let measured = measured(Name::SlowPod2026, runs);
    assert_eq!(value(&measured, Value::Mean(At::errors("slow-pod")), TargetKind::Istio), Some(50.0));
}
