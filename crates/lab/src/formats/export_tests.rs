use std::fs;

use super::*;
use crate::experiment::record::{Run, TargetKind};
use crate::formats::{Form, read};
use crate::report::example;

/// The directory of a simulated experiment.
fn experiment(runs: &[Run]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let experiment = example::recorded(runs.to_vec()).experiment;
    let lines = runs.iter().map(|run| serde_json::to_string(run).expect("a run is JSON") + "\n");
    fs::write(dir.path().join("lab.json"), serde_json::to_string(&experiment).expect("JSON")).expect("it is writable");
    fs::write(dir.path().join("runs.jsonl"), lines.collect::<String>()).expect("it is writable");
    dir
}

#[test]
fn exported_fortio_files_have_the_figures_of_the_experiment() {
    let dir = experiment(&example::slow_pod(1, false).runs);
    let (exported, runs) = export(Format::Fortio, dir.path()).expect("an experiment");
    let (mut own, mut theirs) = (read(dir.path()).expect("ours"), read(&exported).expect("Fortio's"));
    assert_eq!((runs, own.len(), theirs.len()), (150, 150, 150));
    let key = |run: &crate::formats::Measured| (run.label.clone(), run.p99_ms.map(|ms| (ms * 1e6).round() as u64));
    own.sort_by_key(key);
    theirs.sort_by_key(key);
    for (ours, theirs) in own.iter().zip(&theirs) {
        assert_eq!((ours.form, theirs.form), (Form::Leno, Form::Fortio));
        assert_eq!(key(ours), key(theirs));
    }
}

#[test]
fn results_of_an_earlier_version_are_exported_with_an_estimated_mean() {
    let old = Run { min_ms: None, mean_ms: None, std_dev_ms: None, ..example::run(TargetKind::Leno, 0, 1) };
    let dir = experiment(&[old]);
    let line = fs::read_to_string(dir.path().join("runs.jsonl")).expect("it was written");
    assert!(!line.contains("mean_ms"), "{line}");
    assert_eq!(read(dir.path()).expect("an old experiment")[0].mean_ms, None);
    let (exported, _) = export(Format::Fortio, dir.path()).expect("an old experiment");
    // 50 of 100 calls at 10 ms, 49 between 10 and 20 ms, and one between 20 and 40 ms.
    let mean_ms = read(&exported).expect("Fortio's")[0].mean_ms.unwrap_or_default();
    assert!((mean_ms - 12.65).abs() < 1e-9, "{mean_ms}");
}

#[test]
fn each_run_has_four_documents_of_smp() {
    let dir = experiment(&[example::run(TargetKind::Leno, 0, 1), example::run(TargetKind::Leno, 0, 2)]);
    let mut printed = Vec::new();
    let options = Options { format: Format::Smp, dir: dir.path().to_owned() };
    run(&options, &mut printed).expect("an experiment");
    let smp = dir.path().join("smp");
    assert_eq!(String::from_utf8_lossy(&printed), format!("{}: 2 runs\n", smp.display()));
    assert_eq!(fs::read_dir(smp).expect("the directory exists").count(), 8);
}

#[test]
fn an_experiment_without_latencies_exports_nothing() {
    let dir = experiment(&[Run { curve: Vec::new(), ..example::run(TargetKind::Leno, 0, 1) }]);
    for format in [Format::Smp, Format::Fortio] {
        let error = export(format, dir.path()).expect_err("nothing to export").to_string();
        assert!(error.contains("has no run with latencies"), "{error}");
    }
    assert!(!dir.path().join("smp").exists());
}
