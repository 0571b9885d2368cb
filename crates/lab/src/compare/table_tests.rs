use std::path::PathBuf;

use super::*;
use crate::formats::fixtures::measured;
use crate::formats::{Form, Measured};

fn side(path: &str, label: &str, runs: Vec<Measured>) -> Side {
    Side { path: PathBuf::from(path), form: Form::Fortio, label: label.to_owned(), runs }
}

fn text(sides: &[Side]) -> String {
    let mut out = Vec::new();
    write(sides, &mut out).expect("a vector takes it");
    String::from_utf8(out).expect("text")
}

#[test]
fn values_have_intervals_and_gaps() {
    let runs = |values: [f64; 3]| values.map(|ms| measured("a", ms)).to_vec();
    let table = text(&[side("a", "a", runs([1.0, 1.1, 0.9])), side("b", "b", runs([2.0, 2.1, 1.9]))]);
    // The mean's half-width is 0.248 = 4.303 * 0.1 / sqrt(3), by Student's t with 2 degrees of freedom.
    // The gap's half-width is 0.227 = 2.776 * 0.1 * sqrt(2/3), by Welch's t with 4 degrees of freedom.
    assert!(table.contains("1.00 ± 0.248"), "{table}");
    assert!(table.contains("2.00 ± 0.248 (+100.0 ± 22.7 %)"), "{table}");
    let near = text(&[side("a", "a", runs([1.0, 1.1, 0.9])), side("b", "b", runs([1.0, 1.15, 0.9]))]);
    assert!(near.contains("(≈ +1.7 ± "), "{near}");
}

#[test]
fn unknown_figures_are_dashes_and_a_share_of_failed_calls_has_no_gap() {
    let known = measured("a", 1.0);
    let unknown = Measured { p999_ms: None, errors_percent: Some(2.5), ..known.clone() };
    let table = text(&[side("a", "a", vec![known]), side("b", "", vec![unknown])]);
    assert!(table.contains("b (Fortio): no label; one run, no interval"), "{table}");
    let last = table.lines().find(|line| line.trim_start().starts_with("2  ") && line.contains(NONE));
    let cells: Vec<&str> = last.unwrap_or_default().split_whitespace().collect();
    assert!(cells.ends_with(&["500", "(+0.0", "%)", "2.50"]), "{table}");
}

#[test]
fn a_label_cannot_add_lines_and_is_cut() {
    let table = text(&[side("a", &format!("x\n\u{1b}[31m{}", "y".repeat(1000)), vec![measured("", 1.0)])]);
    assert!(table.starts_with("1  a (Fortio): x\\n\\u{1b}[31myyy"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() < 250), "{table}");
}
