use super::*;

/// Creates slices of 100 calls each to five servers. The last server gets `calls_of_last` of the calls.
fn timeline(calls_of_last: impl IntoIterator<Item = u64>) -> Vec<Slice> {
    let slice = |last| {
        let others = (100 - last) / 4;
        Slice { calls: vec![others, others, others, others, last], failed: 0 }
    };
    calls_of_last.into_iter().map(slice).collect()
}

fn times(calls: u64, slices: usize) -> impl Iterator<Item = u64> {
    std::iter::repeat_n(calls, slices)
}

fn after_s(calls_of_last: impl IntoIterator<Item = u64>) -> Option<f64> {
    recovered_after_s(&timeline(calls_of_last), 4, 30)
}

#[test]
fn a_share_that_comes_back_at_once_is_fair_when_a_second_of_it_is() {
    // After 0.8 s, the last second has eight slices with an equal share and two without a call: 80 % of an equal share.
    let after = after_s(times(0, 30).chain(times(20, 70)));
    assert!(after.is_some_and(|s| (s - 0.8).abs() < 0.001), "{after:?}");
}

#[test]
fn a_share_that_comes_back_late_is_late() {
    let after = after_s(times(0, 30).chain(times(4, 25)).chain(times(20, 45)));
    assert!(after.is_some_and(|s| (s - 3.3).abs() < 0.001), "{after:?}");
}

#[test]
fn a_flash_of_calls_is_no_recovery() {
    assert_eq!(after_s(times(0, 30).chain(times(60, 3)).chain(times(0, 67))), None);
}

#[test]
fn a_share_that_comes_back_in_the_last_second_has_not_stayed() {
    assert_eq!(after_s(times(0, 83).chain(times(20, 17))), None);
}

#[test]
fn a_server_that_never_lost_its_share_has_it_at_once() {
    assert_eq!(after_s(times(20, 100)), Some(0.0));
}

#[test]
fn a_timeline_without_calls_or_that_breaks_off_shows_nothing() {
    assert_eq!(after_s(times(20, 5)), None);
    let silent = vec![Slice { calls: vec![0; 5], failed: 3 }; 100];
    assert_eq!(recovered_after_s(&silent, 4, 30), None);
}
