use std::time::{Duration, SystemTime};

use super::{Apache, Milliseconds, Rfc3339};

#[test]
fn times_are_in_utc() {
    // The number of seconds is the output of `date -u -d 2024-02-29T23:59:58Z +%s`.
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_709_251_198_007);
    assert_eq!(Rfc3339(time).to_string(), "2024-02-29T23:59:58.007Z");
    assert_eq!(Apache(time).to_string(), "29/Feb/2024:23:59:58 +0000");
}

#[test]
fn a_clock_out_of_range_does_not_break_the_line() {
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(Rfc3339(before_1970).to_string(), "1970-01-01T00:00:00.000Z");
    let year_30000 = SystemTime::UNIX_EPOCH + Duration::from_millis(900_000_000_000_123);
    assert_eq!(Rfc3339(year_30000).to_string(), "1970-01-01T00:00:00.000Z");
    assert_eq!(Apache(year_30000).to_string(), "01/Jan/1970:00:00:00 +0000");
}

#[test]
fn durations_have_microseconds() {
    assert_eq!(Milliseconds(Duration::from_micros(1_002_003)).to_string(), "1002.003");
    assert_eq!(Milliseconds(Duration::from_nanos(999)).to_string(), "0.000");
}
