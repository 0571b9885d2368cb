use super::*;
use crate::publication::example::description;
use crate::publication::name::Name;

#[test]
fn a_directory_with_results_is_not_used_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    Session::begin(dir.path(), description(Name::Ladder2026)).expect("an empty directory");
    let error = Session::begin(dir.path(), description(Name::Ladder2026)).expect_err("it has results").to_string();
    assert!(error.starts_with("--out ") && error.ends_with("use another directory or remove it"), "{error}");
}

#[test]
fn a_directory_that_cannot_be_created_is_named() {
    let error = Session::begin(Path::new("/proc/none/here"), description(Name::Ladder2026)).expect_err("no such place");
    assert!(error.to_string().starts_with("--out /proc/none/here: the directory cannot be created: "), "{error}");
}

#[test]
fn every_note_writes_the_report_and_an_interruption_writes_the_last_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut description = description(Name::Ladder2026);
    (description.ended, description.steps[0].state) = (None, State::Waiting);
    let session = Session::begin(dir.path(), description).expect("an empty directory");
    let summary = || fs::read_to_string(dir.path().join("summary.md")).expect("the report");
    session.note(0, State::Running).expect("a writable directory");
    assert!(summary().contains("The experiment ladder did not end"), "{}", summary());
    session.clone().interrupt(|written| assert!(written.is_ok()));
    assert!(summary().contains("Interrupted:"), "{}", summary());
    let description = record::read(dir.path()).expect("the description");
    assert!(description.is_interrupted && description.ended.is_some());
}
