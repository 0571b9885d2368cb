use super::*;

const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(1);

fn assert_about(pause: Duration, whole: Duration) {
    assert!(whole / 2 <= pause && pause <= whole, "{pause:?} of {whole:?}");
}

#[test]
fn pauses_double_up_to_the_longest_and_begin_anew_after_a_good_time() {
    let mut retry = Retry::new(SHORTEST, LONGEST);
    for whole in [SHORTEST, SHORTEST * 2, SHORTEST * 4, LONGEST, LONGEST] {
        assert_about(retry.pause(), whole);
    }
    retry.reset();
    assert_about(retry.pause(), SHORTEST);
}

#[test]
fn pauses_differ_from_each_other() {
    let pauses: Vec<Duration> = (0..20).map(|_| Retry::new(LONGEST, LONGEST).pause()).collect();
    assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
}
