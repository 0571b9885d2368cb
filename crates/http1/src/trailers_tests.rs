use super::*;

#[test]
fn fields_that_may_not_be_trailers_are_dropped() {
    let section =
        b"Grpc-Status: 0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: b\r\nAuthorization: x\r\n\
        TE: trailers\r\nSet-Cookie: a\r\nLeno-Upgrade: b\r\nX-Sum: 1\r\n\r\n";
    let mut fields = FieldSection::new();
    parse(section, 1_000, &mut fields).expect("well-formed");
    let names: Vec<&[u8]> = fields.iter().map(|line| line.name).collect();
    assert_eq!(names, [&b"grpc-status"[..], b"x-sum"]);
}

#[test]
fn no_trailers_are_an_empty_section() {
    let mut fields = FieldSection::new();
    fields.push(b"left", b"over");
    parse(b"\r\n", 1_000, &mut fields).expect("well-formed");
    assert!(fields.is_empty());
}

#[test]
fn a_section_that_is_wrong_or_too_large_is_refused() {
    let wide: String = (0..=MAX_FIELDS).map(|n| format!("x-{n}: 1\r\n")).collect();
    for (section, status) in [
        ("a : b\r\n\r\n".to_owned(), 400),
        ("a: b\r\n c\r\n\r\n".to_owned(), 400),
        ("a\r\n\r\n".to_owned(), 400),
        (format!("{wide}\r\n"), 431),
        (format!("a: {}\r\n\r\n", "b".repeat(1_000)), 431),
    ] {
        assert_eq!(
            parse(section.as_bytes(), 1_000, &mut FieldSection::new()).expect_err("not well-formed").status,
            status
        );
    }
}
