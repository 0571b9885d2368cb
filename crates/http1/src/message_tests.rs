use super::*;

fn control<'a>(fields: &[(&'a str, &'a str)], minor: u8) -> Result<Control<'a>, ConnectionError> {
    Control::read(&headers(fields), minor)
}

fn headers<'a>(fields: &[(&'a str, &'a str)]) -> Vec<Header<'a>> {
    fields.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect()
}

fn pushed(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    let headers = headers(fields);
    let mut section = FieldSection::new();
    Control::read(&headers, 1)
        .and_then(|control| control.push_fields(&headers, &mut section, |_| false))
        .expect("well-formed");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    section.iter().map(|line| (text(line.name), text(line.value))).collect()
}

#[test]
fn persistence_follows_the_version_and_the_options() {
    for (minor, value, expected) in [
        (1, "", true),
        (1, "close", false),
        (1, "keep-alive, Close", false),
        (0, "", false),
        (0, "Keep-Alive", true),
        (0, "keep-alive, close", false),
        (1, "closed", true),
    ] {
        let control = control(&[("Connection", value)], minor).expect("well-formed");
        assert_eq!(control.is_persistent(minor), expected, "HTTP/1.{minor} {value}");
    }
}

#[test]
fn fields_for_one_hop_go_no_further() {
    let fields = [
        ("Connection", "close, X-Hop"),
        ("CONNECTION", "te, content-length"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("Upgrade", "h2c"),
        ("x-hop", "1"),
        ("Leno-Upgrade", "websocket"),
        ("TE", "gzip, trailers;q=1"),
        ("Content-Length", "3"),
        ("X-End", "2"),
    ];
    assert_eq!(pushed(&fields), [("content-length".into(), "3".into()), ("x-end".to_owned(), "2".to_owned())]);
    assert_eq!(pushed(&[("TE", "gzip"), ("te", "deflate, Trailers")]), [("te".to_owned(), "trailers".to_owned())]);
}

#[test]
fn an_upgrade_needs_both_fields_and_leads_to_no_protocol_that_carries_http() {
    let upgrade = |fields: &[(&str, &str)]| {
        let headers = headers(fields);
        Control::read(&headers, 1)
            .expect("well-formed")
            .upgrade(&headers)
            .map(|protocols| String::from_utf8(protocols).expect("text"))
    };
    let option = ("Connection", "keep-alive, Upgrade");
    assert_eq!(upgrade(&[option, ("Upgrade", "websocket")]).as_deref(), Some("websocket"));
    assert_eq!(upgrade(&[option, ("Upgrade", "a, H2C"), ("upgrade", "b")]).as_deref(), Some("a, b"));
    assert_eq!(upgrade(&[option, ("Upgrade", "h2c, h2, H2C-14, HTTP/1.1, http/2.0, TLS/1.2, tls")]), None);
    assert_eq!(upgrade(&[option]), None);
    assert_eq!(upgrade(&[("Upgrade", "websocket")]), None);
}

#[test]
fn a_message_that_has_its_end_in_two_places_is_refused() {
    let status =
        |fields: &[(&str, &str)], minor| control(fields, minor).map(|_| ()).expect_err("not well-formed").status;
    assert_eq!(status(&[("content-length", "1"), ("Content-Length", "1")], 1), 400);
    assert_eq!(status(&[("content-length", "1"), ("transfer-encoding", "chunked")], 1), 400);
    assert_eq!(status(&[("transfer-encoding", "chunked"), ("Transfer-Encoding", "chunked")], 1), 400);
    assert_eq!(status(&[("transfer-encoding", "chunked")], 0), 400);
    for (coding, expected) in [
        ("chunked, chunked", 400),
        ("xchunked", 400),
        ("chunked;q=1", 400),
        ("identity, Chunked", 400),
        ("", 501),
        ("identity", 501),
        ("gzip", 501),
    ] {
        assert_eq!(status(&[("transfer-encoding", coding)], 1), expected, "{coding}");
    }
    assert!(control(&[("Transfer-Encoding", "Chunked")], 1).expect("well-formed").chunked);
}

#[test]
fn names_that_are_too_long_and_too_many_nominations_are_refused() {
    let long = "a".repeat(MAX_NAME_BYTES + 1);
    let headers = headers(&[(&long, "1")]);
    let pushed = Control::default().push_fields(&headers, &mut FieldSection::new(), |_| false);
    assert_eq!(pushed.expect_err("not well-formed").status, 431);
    let many = vec!["x"; MAX_NOMINATED_FIELDS + 1].join(",");
    assert_eq!(control(&[("connection", &many)], 1).map(|_| ()).expect_err("not well-formed").status, 400);
}
