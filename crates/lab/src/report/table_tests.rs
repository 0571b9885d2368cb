use super::super::example::{pairs, recorded, slow_pod};
use super::*;

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
fn ratios_that_the_noise_does_not_allow_are_marked() {
    let p99 = |skewed: &[f64]| {
        let pairs = pairs(&skewed.iter().map(|&ms| (100.0, ms)).collect::<Vec<_>>());
        cell(&table(&Results::new(&recorded(pairs)), Scenario::SlowPod), "p99 ÷ healthy")
    };
    assert_eq!(p99(&[120.0; 10]), "1.20");
    assert_eq!(p99(&[90.0, 95.0, 99.0, 104.0, 104.0, 104.0, 106.0, 107.0]), "≈ 1.04");
    assert_eq!(p99(&[120.0; 3]), "1.20 ?");
}
