use super::super::example::{recorded, run, slow_pod};
use super::*;
use crate::experiment::record::Run;

#[test]
fn every_table_has_as_many_cells_in_each_row_as_in_its_head() {
    let recorded = slow_pod(5, true);
    let text = text(&Results::new(&recorded));
    let lines: Vec<&str> = text.lines().collect();
    let tables: Vec<_> = lines.split(|line| !line.starts_with('|')).filter(|table| !table.is_empty()).collect();
    assert_eq!(tables.len(), 3);
    for table in tables {
        let cells: Vec<usize> = table.iter().map(|line| line.replace("\\|", "").matches('|').count()).collect();
        assert!(cells.windows(2).all(|pair| pair[0] == pair[1]), "{cells:?} in {table:#?}");
    }
}

#[test]
fn hostile_names_end_no_cell_and_are_no_markup() {
    let mut recorded = slow_pod(5, true);
    recorded.experiment.skipped[0].why = "a|b <script> *c*\nd".to_owned();
    let text = text(&Results::new(&recorded));
    assert!(text.contains("skipped: a\\|b &lt;script> \\*c\\* d"), "{text}");
}

#[test]
fn no_figure_is_ever_not_a_number() {
    let dead = Run { calls: 0, rps: 0.0, p50_ms: 0.0, p99_ms: 0.0, ..run(TargetKind::Leno, 50, 1) };
    let zero = Run { rps: 0.0, p50_ms: 0.0, p99_ms: 0.0, curve: Vec::new(), ..run(TargetKind::Leno, 0, 1) };
    for scenario in Scenario::ALL {
        for runs in [vec![], vec![run(TargetKind::Leno, 0, 1)], vec![dead.clone()], vec![zero.clone(), dead.clone()]] {
            let mut recorded = recorded(runs.into_iter().map(|run| Run { scenario, ..run }).collect());
            recorded.experiment.scenario = scenario;
            let results = Results::new(&recorded);
            for text in [text(&results), super::super::page::html(&results)] {
                assert!(!text.contains("NaN") && !text.contains("inf "), "{scenario:?}: {text}");
            }
        }
    }
}
