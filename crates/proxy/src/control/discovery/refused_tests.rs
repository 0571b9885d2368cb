use std::time::{Duration, Instant};

use super::{AskAgain, PAUSE_MAX, PAUSE_MIN};

#[test]
fn refused_names_are_asked_for_after_longer_and_longer_pauses_until_none_is_refused() {
    let (mut ask_again, now) = (AskAgain::new(), Instant::now());
    ask_again.plan(0, now);
    assert_eq!(ask_again.at, None);
    ask_again.plan(3, now);
    let first = ask_again.at.expect("a plan");
    assert!((PAUSE_MIN / 2..=PAUSE_MIN).contains(&(first - now)));
    ask_again.plan(4, now + Duration::from_secs(60));
    assert_eq!(ask_again.at, Some(first), "another refused name does not delay the plan");

    for _ in 0..10 {
        assert!(ask_again.is_over(4, now));
    }
    let later = ask_again.at.expect("a plan") - now;
    assert!((PAUSE_MAX / 2..=PAUSE_MAX).contains(&later), "{later:?}");
    assert!(!ask_again.is_over(0, now), "all are accepted");
    assert_eq!(ask_again.at, None);
    ask_again.plan(1, now);
    assert!(ask_again.at.expect("a plan") - now <= PAUSE_MIN);
}
