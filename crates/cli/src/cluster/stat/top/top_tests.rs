use std::time::Duration;

use super::parse_every;

#[test]
fn the_interval_is_between_a_second_and_a_minute() {
    assert_eq!((parse_every("1s"), parse_every("1m")), (Ok(Duration::from_secs(1)), Ok(Duration::from_secs(60))));
    for text in ["0s", "500ms", "61s", "often"] {
        parse_every(text).expect_err(text);
    }
}
