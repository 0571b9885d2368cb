use super::*;

#[test]
fn numbers_are_given_from_the_lowest_and_again_when_forgotten() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let state = State::open(directory.path()).expect("it is made");
    let claim = || state.claim(2, 3).expect("it can be written").map(|(number, file)| (number, Some(file)));
    let first = claim().expect("both are free");
    let second = claim().expect("one is free");
    assert_eq!((first.0, second.0), (2, 3));
    assert!(claim().is_none());
    state.forget(2).expect("it is there");
    assert_eq!(claim().map(|(number, _)| number), Some(2));
}

#[test]
fn a_run_is_dead_when_nobody_holds_its_lock() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let state = State::open(directory.path()).expect("it is made");
    let (number, alive) = state.claim(2, 9).expect("it can be written").expect("all are free");
    assert!(!state.is_dead(number));
    drop(alive);
    assert!(state.is_dead(number));
    assert_eq!(state.numbers().expect("it can be listed"), [number]);
}

#[test]
fn what_a_run_brought_along_is_remembered() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let state = State::open(directory.path()).expect("it is made");
    let (number, _alive) = state.claim(2, 9).expect("it can be written").expect("all are free");
    assert_eq!(state.config_prefix(number), None);
    state.set_config_prefix(number, "config.7.").expect("it can be written");
    assert_eq!(state.config_prefix(number).as_deref(), Some("config.7."));
}

#[test]
fn a_run_that_was_killed_before_it_made_its_lock_is_dead() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let state = State::open(directory.path()).expect("it is made");
    std::fs::create_dir(state.run(2)).expect("a directory");
    assert!(state.is_dead(2) && !state.is_alive(2));
    assert!(!state.is_dead(3), "there is no such run");
    let (number, _alive) = state.claim(3, 9).expect("it can be written").expect("all are free");
    assert!(state.is_alive(number) && !state.is_dead(number));
}
