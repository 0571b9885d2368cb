use super::*;

#[test]
fn a_report_is_made_from_the_two_files_and_made_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let recorded = example::slow_pod(11, false);
    fs::write(dir.path().join("lab.json"), serde_json::to_string(&recorded.experiment).expect("JSON"))
        .expect("writing");
    let lines: String = recorded.runs.iter().map(|run| serde_json::to_string(run).expect("JSON") + "\n").collect();
    // The last line is truncated, as it may be after an interrupted experiment.
    fs::write(dir.path().join("runs.jsonl"), &lines[..lines.len() - 20]).expect("writing");
    for _ in 0..2 {
        let written = write(dir.path()).expect("a report");
        for path in [&written.summary, &written.page] {
            let text = fs::read_to_string(path).expect("the report can be read");
            assert!(text.contains("149 runs") && text.contains("(150) was cut off"), "{}", path.display());
        }
    }
}
