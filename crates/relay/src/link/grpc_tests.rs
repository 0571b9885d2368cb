use super::*;

#[test]
fn timeouts_are_read_in_every_unit_and_nonsense_is_not() {
    for (text, expected) in [
        ("1H", Duration::from_secs(3_600)),
        ("2M", Duration::from_secs(120)),
        ("3S", Duration::from_secs(3)),
        ("99999999m", Duration::from_millis(99_999_999)),
        ("5u", Duration::from_micros(5)),
        ("0n", Duration::ZERO),
        ("99999999H", MAX_TIMEOUT),
    ] {
        assert_eq!(parse_timeout(text.as_bytes()), Some(expected), "{text}");
    }
    for text in ["", "S", "1", "123456789m", "-1S", "1.5S", "1s", " 1S", "1S "] {
        assert_eq!(parse_timeout(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn a_written_timeout_is_never_longer_than_what_is_left() {
    for timeout in [0, 1, 999, 99_999_999, 100_000_000, 123_456_789_012, 10_u64.pow(16)] {
        let timeout = Duration::from_nanos(timeout);
        let text = format_timeout(timeout);
        let read = parse_timeout(text.as_bytes()).unwrap_or_else(|| panic!("{text} cannot be read"));
        assert!(read <= timeout, "{text} is more than {timeout:?}");
        assert!(timeout - read <= timeout / 90_000, "{text} is much less than {timeout:?}");
    }
}

#[test]
fn only_grpc_content_types_are_grpc() {
    for (content_type, expected) in [
        ("application/grpc", true),
        ("application/grpc+proto", true),
        ("application/grpc;charset=utf-8", true),
        ("application/grpc-web", false),
        ("application/json", false),
    ] {
        let mut request = FieldSection::new();
        request.push(b"content-type", content_type.as_bytes());
        assert_eq!(is_grpc(&request), expected, "{content_type}");
    }
    assert!(!is_grpc(&FieldSection::new()));
}

#[test]
fn statuses_out_of_range_are_unknown() {
    for (text, expected) in [("0", 0), ("9", 9), ("10", 10), ("16", 16), ("17", 2), ("", 2), ("x", 2), ("007", 2)] {
        let mut trailers = FieldSection::new();
        trailers.push(b"grpc-status", text.as_bytes());
        assert_eq!(status(&trailers), Some(expected), "{text}");
    }
    assert_eq!(status(&FieldSection::new()), None);
}

#[test]
fn messages_are_percent_encoded() {
    assert_eq!(encode_message("no 100% match: \u{e9}\n"), "no 100%25 match: %C3%A9%0A");
}
