use super::super::example::{pairs, recorded, run, slow_pod};
use super::*;
use crate::experiment::record::Run;

/// Leno's cell in this column of the table's last section.
fn cell(table: &Table, column: &str) -> String {
    let index = table.columns.iter().position(|name| name == column).expect("a column");
    let rows = &table.sections.last().expect("a section").rows;
    let (_, cells) = rows.iter().find(|(target, _)| *target == TargetKind::Leno).expect("a row of leno");
    cells[index - 1].clone()
}

#[test]
fn every_row_has_a_cell_for_each_column_and_skipped_targets_say_how_to_install_them() {
    let recorded = slow_pod(3, true);
    let table = table(&Results::new(&recorded), Scenario::SlowPod);
    assert_eq!(table.sections.len(), 3);
    for section in &table.sections {
        assert_eq!(section.rows.len(), 4);
        assert!(section.rows.iter().all(|(_, cells)| cells.len() + 1 == table.columns.len()));
    }
    let (target, why) = &table.skipped[0];
    assert_eq!(*target, TargetKind::Haproxy);
    assert!(why.contains("apt install haproxy"));
}

#[test]
fn a_server_never_recovers_in_a_run_in_which_every_call_failed() {
    let of = |repeat, calls: u64| Run {
        scenario: Scenario::Recover,
        calls,
        recovered_after_s: (calls > 0).then_some(2.0),
        ..run(TargetKind::Leno, 200, repeat)
    };
    let after = |runs| cell(&table(&Results::new(&recorded(runs)), Scenario::Recover), "fair share again after, s");
    assert_eq!(after(vec![of(1, 1000), of(2, 1000), of(3, 0)]), "2.00, not always");
    assert_eq!(after(vec![of(1, 1000), of(2, 0), of(3, 0)]), "never");
}

#[test]
fn ratios_that_the_noise_does_not_allow_are_marked() {
    let p99 = |skewed: &[f64]| {
        let pairs = pairs(&skewed.iter().map(|&ms| (100.0, ms)).collect::<Vec<_>>());
        cell(&table(&Results::new(&recorded(pairs)), Scenario::SlowPod), "p99 ÷ healthy")
    };
    assert_eq!(p99(&[120.0; 10]), "1.20");
    assert_eq!(p99(&[90.0, 95.0, 99.0, 104.0, 104.0, 104.0, 106.0, 107.0]), "≈ 1.04");
    assert_eq!(p99(&[120.0; 3]), "1.20 ?");
}
