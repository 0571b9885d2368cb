use std::time::Duration;

use super::{parse_window, span};

#[test]
fn a_window_is_between_a_second_and_thirty_days() {
    let seconds = |text: &str| parse_window(text).map(|window| window.as_secs());
    assert_eq!((seconds("10s"), seconds("1h30m"), seconds("30d")), (Ok(10), Ok(5_400), Ok(2_592_000)));
    assert_eq!(seconds("1d12h"), Ok(129_600));
    for text in ["0s", "999ms", "31d", "30d1s", "ten", "d", "1dd", "-1d", "1d1", "", "99999999999d"] {
        parse_window(text).expect_err(text);
    }
}

#[test]
fn a_window_is_shown_in_the_largest_unit_that_divides_it() {
    let shown = |seconds: u64| span(Duration::from_secs(seconds));
    assert_eq!((shown(10), shown(90), shown(3_600)), ("10 s".to_owned(), "90 s".to_owned(), "1 h".to_owned()));
    assert_eq!((shown(86_400), shown(30 * 86_400)), ("24 h".to_owned(), "30 d".to_owned()));
    let shown = |ms: u64| span(Duration::from_millis(ms));
    assert_eq!((shown(1_500), shown(3_600_001)), ("1.5 s".to_owned(), "3600.001 s".to_owned()));
}
