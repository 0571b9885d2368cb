use super::*;

#[test]
fn a_grace_period_is_a_whole_number_with_a_unit_up_to_an_hour() {
    for (text, expected_ms) in [
        ("0ms", Some(0)),
        ("500ms", Some(500)),
        ("30s", Some(30_000)),
        ("60m", Some(3_600_000)),
        ("61m", None),
        ("3600001ms", None),
        ("18446744073709551615m", None),
        ("1h", None),
        ("1.5s", None),
        ("30", None),
        ("s", None),
        ("", None),
    ] {
        assert_eq!(parse_grace(text), expected_ms.map(Duration::from_millis), "{text}");
    }
}
