//! `leno lab publish` with short runs.

use super::*;

/// Returns the command `leno lab publish` with these arguments, and with its results in `out`.
fn publish(words: &str, out: &Path) -> Command {
    let mut command = Command::new(programs::program("leno"));
    command.args(["lab", "publish"]).args(words.split(' ')).arg("--out").arg(out).stdin(Stdio::null());
    command
}

#[test]
fn a_publication_gets_its_table_with_lenos_row_and_a_reason_for_each_missing_condition() {
    let out = new_dir();
    let words = "kinvolk-2019 --targets direct,linkerd --linkerd2-proxy /nowhere/linkerd2-proxy --duration-s 1 \
                 --warm-up-s 0 --repeat 1";
    let output = publish(words, out.path()).output().expect("leno starts");
    let printed = programs::text(&output);
    assert!(output.status.success(), "{printed}");
    assert_eq!(runs(&out.path().join("graph")).len(), 4, "two targets at two rates: {printed}");

    let text = fs::read_to_string(out.path().join("table.json")).expect("table.json is written");
    let table: Value = serde_json::from_str(&text).expect("table.json is JSON");
    let rows = table["tables"][0]["columns"][1]["rows"].as_array().expect("rows").clone();
    let row = |target: &str| rows.iter().find(|row| row["target"] == target).expect("a row for each condition");
    assert!(number(row("leno-mesh"), "here") > 0.0 && number(row("direct"), "ratio") > 0.0, "{rows:?}");
    assert!(row("istio")["here"].is_null() && number(row("istio"), "theirs") == 643.0, "{rows:?}");
    assert!(row("linkerd")["here"].is_null() && number(row("linkerd"), "theirs") == 6.7, "{rows:?}");

    let summary = fs::read_to_string(out.path().join("summary.md")).expect("summary.md is written");
    let sentence = summary.lines().nth(2).unwrap_or_default();
    assert!(sentence.starts_with("At 500 calls a second") && sentence.contains("through Leno"), "{summary}");
    for words in ["--targets leaves it out", "--duration-s 1:", "What is left out", "One machine: "] {
        assert!(summary.contains(words), "{words}: {summary}");
    }
    // The command prints some spaces as no-break spaces, so replace these before the comparison.
    assert!(printed.replace('\u{a0}', " ").contains(sentence), "{printed}");

    let again = publish(words, out.path()).output().expect("leno starts");
    let error = one_line_of_error(&again);
    assert!(error.contains("--out") && error.contains("another directory"), "{error}");
}

#[test]
fn ending_a_publication_leaves_the_report_of_what_was_measured() {
    for signal in [Signal::TERM, Signal::HUP] {
        let out = new_dir();
        let words = "slow-pod-2026 --targets leno-mesh --duration-s 1 --warm-up-s 0 --repeat 100";
        let mut command = programs::with_hang_ups("--default-signal=HUP", &publish(words, out.path()));
        let mut lab = Running(command.stdout(Stdio::null()).spawn().expect("env (coreutils) runs"));
        let step = out.path().join("slow-pod");
        wait_for("the first run", Duration::from_secs(60), || (!runs(&step).is_empty()).then_some(()));
        kill_process(Pid::from_child(&lab.0), signal).expect("it runs");
        let status = lab.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(130), "{signal:?}: {status}");
        let summary = fs::read_to_string(out.path().join("summary.md")).expect("summary.md is written");
        assert!(
            summary.contains("Interrupted: ") && summary.contains("The experiment connections has not run."),
            "{signal:?}: {summary}"
        );

        let remade = Command::new(programs::program("leno")).args(["lab", "report"]).arg(out.path()).output();
        assert!(remade.is_ok_and(|output| output.status.success()), "the report can be made again");
    }
}
