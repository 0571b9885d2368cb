use std::fs;

use serde_json::Value;

use super::*;
use crate::publication::example::{description, slow_pod};
use crate::publication::name::Name;

#[test]
fn the_report_is_made_again_from_the_files_and_a_cut_line_is_left_out() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let measured = slow_pod();
    record::write(dir.path(), &measured.description).expect("a writable directory");
    let step = dir.path().join("slow-pod");
    let recorded = &measured.steps[0].1;
    fs::create_dir(&step).expect("a writable directory");
    let experiment = serde_json::to_string(&recorded.experiment).expect("JSON");
    fs::write(step.join("lab.json"), experiment).expect("a writable directory");
    let runs: String = recorded.runs.iter().map(|run| serde_json::to_string(run).expect("JSON") + "\n").collect();
    fs::write(step.join("runs.jsonl"), runs + "{\"scenario\":\"slow").expect("a writable directory");
    // The experiment `connections` has not begun: its directory has no `lab.json`.
    fs::create_dir(dir.path().join("connections")).expect("a writable directory");

    assert!(is_publication(dir.path()) && !is_publication(&step));
    let Written { summary, page } = write(dir.path()).expect("complete files");
    let text = fs::read_to_string(summary).expect("summary.md");
    assert!(text.contains("10.2") && text.contains("was cut off and is left out"), "{text}");
    assert!(fs::read_to_string(page).is_ok_and(|page| page.contains("slow-pod-2026")));

    let table: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("table.json")).expect("table.json")).expect("JSON");
    assert_eq!(table["publication"], "slow-pod-2026");
    let row = |target: &str| {
        let rows = table["tables"][0]["columns"][1]["rows"].as_array().expect("rows").iter();
        rows.clone().find(|row| row["target"] == target).cloned().unwrap_or_default()
    };
    assert!(row("istio")["here"].as_f64().is_some_and(|here| (here - 70.2).abs() < 1e-6), "{}", row("istio"));
    assert!(row("linkerd")["here"].is_null() && row("linkerd")["ratio"].is_null(), "{}", row("linkerd"));
    assert_eq!((&row("linkerd")["theirs"], &row("vanilla")["is_worst_repeat"]), (&66.6.into(), &true.into()));
    assert_eq!(row("istio")["has_too_many_failed_calls"], false);
}

#[test]
fn a_description_of_another_version_is_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    record::write(dir.path(), &description(Name::Ladder2026)).expect("a writable directory");
    let path = dir.path().join(record::FILE);
    let text = fs::read_to_string(&path).expect("the description").replace("ladder-2026", "ladder-1999");
    fs::write(&path, text).expect("a writable directory");
    let error = write(dir.path()).expect_err("an unknown publication").to_string();
    assert!(error.contains("publish.json") && error.contains("ladder-1999") && !error.contains('\n'), "{error}");
}
