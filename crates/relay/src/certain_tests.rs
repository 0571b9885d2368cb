use super::*;

#[test]
fn what_is_found_is_returned() {
    assert_eq!(Some(3).certain(), Some(3));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "certain_tests.rs")]
fn a_test_fails_where_nothing_is_found() {
    let _ = None::<u32>.certain();
}

#[test]
#[cfg(not(debug_assertions))]
fn a_release_build_counts_what_is_not_found() {
    let before = faults();
    assert_eq!(None::<u32>.certain(), None);
    assert_eq!(faults(), before + 1);
}
