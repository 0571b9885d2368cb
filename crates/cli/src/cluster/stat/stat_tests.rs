use std::time::Duration;

use super::parse_window;

#[test]
fn a_window_is_between_a_second_and_an_hour() {
    assert_eq!(parse_window("10s"), Ok(Duration::from_secs(10)));
    for text in ["0s", "999ms", "2h", "ten"] {
        parse_window(text).expect_err(text);
    }
}
