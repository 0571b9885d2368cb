use super::*;

#[test]
fn durations_that_go_prints_are_read() {
    let known = [
        ("1.2ms", 1.2),
        ("350µs", 0.35),
        ("350\u{3bc}s", 0.35),
        ("350us", 0.35),
        ("17ns", 0.000_017),
        ("0s", 0.0),
        ("1.5s", 1500.0),
        ("1m2.5s", 62_500.0),
        ("2h0m0s", 7_200_000.0),
    ];
    for (text, ms) in known {
        let found = parse_ms(text).unwrap_or(f64::NAN);
        assert!((found - ms).abs() < 1e-9 * ms.max(1.0), "{text}: {found}");
    }
}

#[test]
fn other_texts_are_refused() {
    for text in ["", "5", "ms", ".ms", "1.2.3ms", "-1ms", "+1ms", "1 ms", "1d", "1msx", "NaN", "inf", "1e9s", "1ms\n"] {
        assert_eq!(parse_ms(text), None, "{text:?}");
    }
    assert_eq!(parse_ms(&"1s".repeat(1_000_000)), None);
}
