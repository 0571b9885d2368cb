use std::time::Duration;

use super::{Settings, format_duration, parse_duration};

#[test]
fn durations_are_read_and_written_as_gateway_api_does() {
    for (text, ms) in [
        ("0s", 0),
        ("500ms", 500),
        ("10s", 10_000),
        ("1h30m", 5_400_000),
        ("1h2m3s4ms", 3_723_004),
        ("99999h", 359_996_400_000),
    ] {
        let duration = Duration::from_millis(ms);
        assert_eq!(parse_duration(text), Some(duration), "{text}");
        assert_eq!(format_duration(duration), text);
    }
    assert_eq!(parse_duration("90s"), Some(Duration::from_secs(90)));
}

#[test]
fn anything_else_is_no_duration() {
    for text in [
        "",
        "0",
        "10",
        "s",
        "1.5s",
        "-1s",
        "1 s",
        "1s ",
        "1d",
        "1us",
        "1S",
        "100000s",
        "1s1s1s1s1s",
        "ms1",
        "1é",
        "99999999999999999999s",
    ] {
        assert_eq!(parse_duration(text), None, "{text:?}");
    }
}

#[test]
fn settings_are_shown_with_their_units() {
    let shown = serde_json::to_value(Settings::default()).expect("plain data");
    let expected = serde_json::json!({
        "connect_timeout_ms": 1000,
        "max_connections_per_endpoint": 16,
        "idle_timeout_ms": 60_000,
        "max_connection_age_ms": null,
    });
    assert_eq!(shown, expected);
}
