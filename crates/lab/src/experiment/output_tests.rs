use super::*;

#[test]
fn a_directory_that_holds_runs_is_refused_and_one_where_nothing_was_measured_is_not() {
    let dir = tempfile::tempdir().expect("a writable temporary directory");
    drop(Output::create(dir.path()).expect("an empty directory will do"));
    drop(Output::create(dir.path()).expect("nothing was measured yet"));
    fs::write(dir.path().join(RUNS), "{}\n").expect("it is writable");
    let error = Output::create(dir.path()).err().expect("it holds a run").to_string();
    assert!(error.contains("--out") && error.contains("another directory"), "{error}");
}
