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
        ("leno_client_id", "forged"),
        ("leno-client_id", "forged"),
        ("l5d_client_id", "forged"),
        ("x_forwarded_client_cert", "forged"),
    ] {
        fields.push(name.as_bytes(), value.as_bytes());
    }
    strip_identities(&mut fields);
    assert_eq!(fields.iter().map(|field| field.name).collect::<Vec<_>>(), [b"x-request-id"]);
}

#[test]
fn the_clients_address_is_written_as_one_field_line() {
    let client = "::ffff:10.0.0.7".parse().expect("an address");
    for (how, expected) in [
        (ForwardedFor::Keep, &["1.1.1.1", "", "2.2.2.2, 3.3.3.3"][..]),
        (ForwardedFor::Append, &["1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.7"]),
        (ForwardedFor::Set, &["10.0.0.7"]),
    ] {
        let mut fields = FieldSection::new();
        for value in ["1.1.1.1", "", "2.2.2.2, 3.3.3.3"] {
            fields.push(b"x-forwarded-for", value.as_bytes());
        }
        how.write(client, &mut fields);
        let lines: Vec<_> = fields.iter().map(|line| String::from_utf8_lossy(line.value).into_owned()).collect();
        assert_eq!(lines, expected, "{how:?}");
    }
}
