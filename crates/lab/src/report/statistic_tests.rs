use super::super::example::{recorded, run};
use super::super::group::Results;
use super::*;
use crate::experiment::record::{Run, TargetKind};

/// Returns which statistics can be compared if `errors` calls of the second of two groups failed. In each group,
/// 100,000 calls were answered.
fn comparable(errors: u64) -> Vec<Statistic> {
    let failing = Run { errors, ..run(TargetKind::Leno, 50, 1) };
    let recorded = recorded(vec![run(TargetKind::Leno, 0, 1), failing]);
    let results = Results::new(&recorded);
    let [base, group] = &results.groups[..] else { panic!("two groups") };
    for statistic in Statistic::ALL {
        let is_some = statistic.why_not([group, base]).is_none();
        assert_eq!(statistic.ratio(group, base).is_some(), is_some, "{statistic}");
        assert_eq!(statistic.added(base, group).is_some(), is_some, "{statistic}");
    }
    Statistic::ALL.into_iter().filter(|it| it.why_not([base, group]).is_none()).collect()
}

#[test]
fn each_statistic_can_be_compared_while_it_hides_no_failed_call() {
    use Statistic::{Mean, P50, P99, P999, Worst};
    assert_eq!(comparable(0), [P50, P99, P999, Mean, Worst]);
    assert_eq!(comparable(1), [P50, P99, P999]);
    assert_eq!(comparable(100), [P50, P99, P999]);
    assert_eq!(comparable(101), [P50, P99]);
    assert_eq!(comparable(1_010), [P50, P99]);
    assert_eq!(comparable(1_011), []);
}

#[test]
fn the_reason_has_the_failed_calls_and_the_limit() {
    let recorded = recorded(vec![Run { calls: 75, errors: 25, ..run(TargetKind::Leno, 0, 1) }]);
    let results = Results::new(&recorded);
    let why = Statistic::P999.why_not(&results.groups).expect("a reason");
    assert_eq!(why, "25.0 % of the calls failed, and a p99.9 can be compared with at most 0.1 %");
}
