use super::super::example::{experiment, run};
use super::*;
use crate::experiment::record::{Scenario, TargetKind};

fn line(repeat: u32) -> String {
    serde_json::to_string(&run(TargetKind::Leno, 0, repeat)).expect("a run is JSON")
}

fn read_runs(text: &str) -> Result<(Vec<Run>, Vec<String>)> {
    runs(text, Path::new("out/runs.jsonl"))
}

#[test]
fn a_bad_line_is_named_with_its_file_and_what_to_do() {
    let text = format!("{}\n\n{{\"scenario\":\"slow-pod\",\"target\":\"squid\"}}\n{}\n", line(1), line(2));
    let error = read_runs(&text).expect_err("squid is no target").to_string();
    assert!(error.starts_with("out/runs.jsonl:3:"), "{error}");
    assert!(error.contains("unknown variant `squid`") && error.contains("remove the line"), "{error}");
    assert!(!error.contains('\n') && !error.contains("line 1"), "{error}");
}

#[test]
fn a_last_line_that_was_cut_off_is_left_out_and_noted() {
    let whole = line(2);
    for cut in 1..whole.len() {
        let text = format!("{}\n{}", line(1), &whole[..cut]);
        let (runs, notes) = read_runs(&text).expect("what was written before can be read");
        assert_eq!((runs.len(), notes.len()), (1, 1), "cut after {cut} bytes");
    }
    let (runs, notes) = read_runs(&format!("{}\n{whole}", line(1))).expect("only the line's end is missing");
    assert_eq!((runs.len(), notes.len()), (2, 0));
}

#[test]
fn missing_and_foreign_files_are_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let error = |dir: &tempfile::TempDir| read(dir.path()).expect_err("it cannot be read").to_string();
    assert!(error(&dir).contains("lab.json does not exist"), "{}", error(&dir));
    fs::write(dir.path().join("lab.json"), "{}").expect("writing");
    assert!(error(&dir).contains("lab.json: missing field `scenario`"), "{}", error(&dir));
    let json = serde_json::to_string(&experiment(Scenario::SlowPod)).expect("an experiment is JSON");
    fs::write(dir.path().join("lab.json"), json).expect("writing");
    assert!(error(&dir).contains("runs.jsonl does not exist"), "{}", error(&dir));
}
