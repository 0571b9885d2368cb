use super::super::example::{recorded, run};
use super::*;
use crate::experiment::record::Run;

#[test]
fn failures_are_added_by_class_and_the_most_frequent_comes_first() {
    let failing = |repeat, unavailable, lost| Run {
        errors: unavailable + lost,
        first_error: Some("Unavailable: no endpoint".to_owned()),
        error_classes: [("connection".to_owned(), lost), ("gRPC UNAVAILABLE".to_owned(), unavailable)].into(),
        ..run(TargetKind::Leno, 0, repeat)
    };
    let recorded = recorded(vec![failing(1, 900, 2), failing(2, 600, 1)]);
    let text = limits(&Results::new(&recorded)).join("\n");
    let wanted =
        "1,503 calls through leno failed (1,500 gRPC UNAVAILABLE, 3 connection); the first: Unavailable: no endpoint";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn students_interval_is_explained_only_where_it_is_printed() {
    let has = |scenario| {
        let recorded = recorded(vec![Run { scenario, ..run(TargetKind::Leno, 0, 1) }]);
        limits(&Results::new(&recorded)).iter().any(|limit| limit.contains("Student's"))
    };
    assert!(has(Scenario::Ladder) && has(Scenario::Capacity) && has(Scenario::Graph));
    assert!(!has(Scenario::SlowPod) && !has(Scenario::Crowd));
}
