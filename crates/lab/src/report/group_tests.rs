use super::super::example::{recorded, run};
use super::*;

#[test]
fn groups_are_sorted_by_load_and_skew_and_then_as_the_targets_were_asked_for() {
    let paced = Run { rate_per_s: Some(2000), ..run(TargetKind::Leno, 0, 1) };
    let runs = vec![
        paced,
        run(TargetKind::Envoy, 0, 1),
        run(TargetKind::Leno, 50, 1),
        run(TargetKind::Leno, 0, 2),
        run(TargetKind::Leno, 0, 1),
        run(TargetKind::Direct, 0, 1),
    ];
    let recorded = recorded(runs);
    let results = Results::new(&recorded);
    let keys: Vec<_> =
        results.groups.iter().map(|group| (group.load.rate_per_s, group.skew_ms, group.target)).collect();
    let wanted = [
        (None, 0, TargetKind::Direct),
        (None, 0, TargetKind::Leno),
        (None, 0, TargetKind::Envoy),
        (None, 50, TargetKind::Leno),
        (Some(2000), 0, TargetKind::Leno),
    ];
    assert_eq!(keys, wanted);
    let repeats: Vec<u32> = results.groups[1].runs.iter().map(|run| run.repeat).collect();
    assert_eq!(repeats, [1, 2]);
}

#[test]
fn the_curve_is_the_median_of_the_runs_curves_where_most_of_them_have_a_point() {
    let with = |repeat, points: &[(f64, f64)]| Run {
        curve: points.iter().map(|&(quantile, ms)| CurvePoint { quantile, ms }).collect(),
        ..run(TargetKind::Leno, 0, repeat)
    };
    let runs = vec![
        with(1, &[(0.5, 1.0), (0.99, 9.0)]),
        with(2, &[(0.5, 2.0), (0.99, 5.0), (0.999, 70.0)]),
        with(3, &[(0.5, 3.0)]),
    ];
    let recorded = recorded(runs);
    let curve = Results::new(&recorded).groups[0].curve();
    let medians: Vec<(f64, f64)> = curve.iter().map(|(quantile, spread)| (*quantile, spread.median)).collect();
    assert_eq!(medians, [(0.5, 2.0), (0.99, 7.0)]);
}

#[test]
fn doubtful_runs_are_counted_and_dead_ones_have_no_latency() {
    let dead = Run { calls: 0, errors: 7, p99_ms: 0.0, ..run(TargetKind::Leno, 0, 1) };
    let disturbed = Run { foreign_cpu: 0.21, ..run(TargetKind::Leno, 0, 2) };
    let at_ceiling = Run { at_ceiling: true, late: 501, foreign_cpu: 0.2, ..run(TargetKind::Leno, 0, 3) };
    let recorded = recorded(vec![dead, disturbed, at_ceiling]);
    let results = Results::new(&recorded);
    let group = &results.groups[0];
    assert_eq!(group.marks(), Marks { runs: 3, at_ceiling: 1, late: 1, disturbed: 1, dead: 1, errors: 7 });
    assert_eq!(group.spread(|run| Some(run.p99_ms)).map(|spread| (spread.count, spread.min)), Some((2, 20.0)));
}
