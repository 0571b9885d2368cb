use super::*;

#[test]
fn an_upgrade_to_http2_is_recognised_in_any_case_and_among_others() {
    for asked in [&b"h2c"[..], b"H2C", b"websocket, h2c", b" h2c ,foo"] {
        assert!(asks_for_http2(asked), "{}", asked.escape_ascii());
    }
    for asked in [&b"websocket"[..], b"h2", b"h2c2", b""] {
        assert!(!asks_for_http2(asked), "{}", asked.escape_ascii());
    }
}

#[test]
fn identities_that_come_from_elsewhere_are_taken_off() {
    let mut fields = FieldSection::new();
    for (name, value) in [
        ("leno-client-id", "forged"),
        ("x-request-id", "1"),
        ("l5d-client-id", "forged"),
        ("leno-client-id", "again"),
        ("x-forwarded-client-cert", "forged"),
    ] {
        fields.push(name.as_bytes(), value.as_bytes());
    }
    strip_identities(&mut fields);
    assert_eq!(fields.iter().map(|field| field.name).collect::<Vec<_>>(), [b"x-request-id"]);
}
