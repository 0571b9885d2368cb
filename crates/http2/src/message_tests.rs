use super::*;

fn section(lines: &[(&str, &str)]) -> FieldSection {
    let mut fields = FieldSection::new();
    lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
    fields
}

#[test]
fn a_request_tells_how_it_is_framed() {
    let head = section(&[(":method", "HEAD"), (":scheme", "https"), (":path", "/"), ("content-length", "12")]);
    let framing = Framing { content_length: Some(12), head: true, ..Framing::default() };
    assert_eq!(check_request(&head), Ok(framing));
}

#[test]
fn a_response_tells_its_status() {
    let framing = check_response(&section(&[(":status", "503"), ("content-length", "0")]));
    assert_eq!(framing, Ok(Framing { content_length: Some(0), status: 503, ..Framing::default() }));
}

#[test]
fn schemes_are_as_rfc_3986_says() {
    for good in ["http", "a", "grpc+unix", "x-1.2"] {
        assert!(is_scheme(good.as_bytes()), "{good}");
    }
    for bad in ["", "1http", "+a", "ht tp", "http:", "h\u{e9}"] {
        assert!(!is_scheme(bad.as_bytes()), "{bad}");
    }
    assert!(is_scheme(&[b'a'; 64]) && !is_scheme(&[b'a'; 65]));
}

#[test]
fn lengths_are_decimal_numbers_of_63_bits() {
    assert_eq!(parse_content_length(b"9223372036854775807"), Some(i64::MAX as u64));
    assert_eq!(parse_content_length(b"007"), Some(7));
    for bad in [
        &b""[..],
        b"9223372036854775808",
        b"9999999999999999999",
        b"18446744073709551616",
        b"00000000000000000000",
        b"-1",
        b"+1",
        b" 1",
        b"0x1",
        b"1,1",
    ] {
        assert_eq!(parse_content_length(bad), None, "{}", bad.escape_ascii());
    }
}
