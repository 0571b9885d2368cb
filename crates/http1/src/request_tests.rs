use super::*;

fn read(head: &str) -> Result<(RequestHead, Vec<(String, String)>), ConnectionError> {
    read_on(false, head)
}

fn read_on(keeps_absolute: bool, head: &str) -> Result<(RequestHead, Vec<(String, String)>), ConnectionError> {
    let mut fields = FieldSection::new();
    fields.push(b"left", b"over");
    let head = parse(head.as_bytes(), &Limits::server(), keeps_absolute, &mut fields)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    Ok((head, fields.iter().map(|line| (text(line.name), text(line.value))).collect()))
}

fn value(fields: &[(String, String)], name: &str) -> Option<String> {
    fields.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value.clone())
}

#[test]
fn a_request_becomes_a_section_that_http2_could_send() {
    let (head, fields) =
        read("POST /a HTTP/1.1\r\nAccept:  */* \t\r\nHOST: b:1\r\nContent-Length: 5\r\n\r\n").expect("well-formed");
    let expected = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "b:1"),
        (":path", "/a"),
        ("accept", "*/*"),
        ("content-length", "5"),
    ];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(head.content, Content::Length(5));
    assert!(head.persistent && !head.is_1_0 && !head.head);
}

#[test]
fn the_authority_of_the_target_wins_over_host() {
    let (_, fields) = read("GET http://in-target?q HTTP/1.1\r\nHost: in-field\r\n\r\n").expect("well-formed");
    assert_eq!(value(&fields, ":authority").as_deref(), Some("in-target"));
    assert_eq!(value(&fields, ":path").as_deref(), Some("/?q"));
    assert_eq!(value(&fields, "host"), None);
}

#[test]
fn a_scheme_other_than_http_is_for_connections_that_keep_the_absolute_form() {
    for (target, scheme) in [("https://b/a", "https"), ("FTP://b/a", "ftp")] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: c\r\n\r\n");
        assert_eq!(read(&head).map(|_| ()).expect_err("another scheme").status, 400);
        let (head, fields) = read_on(true, &head).expect("well-formed");
        assert!(head.is_absolute);
        assert_eq!(value(&fields, ":scheme").as_deref(), Some(scheme));
        assert_eq!(value(&fields, ":authority").as_deref(), Some("b"));
        assert_eq!(value(&fields, ":path").as_deref(), Some("/a"));
    }
    let (head, fields) = read_on(true, "GET /a HTTP/1.1\r\nHost: c\r\n\r\n").expect("well-formed");
    assert!(!head.is_absolute);
    assert_eq!(value(&fields, ":scheme").as_deref(), Some("http"));
}

#[test]
fn connect_has_an_authority_and_no_path() {
    let (head, fields) = read("CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\n\r\n").expect("well-formed");
    let expected = [(":method", "CONNECT"), (":authority", "db:5432")];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(head.connect && head.content == Content::Tunnel);
}

#[test]
fn an_upgrade_without_content_may_become_a_tunnel() {
    let upgrade = "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    let (head, fields) = read(&format!("GET / HTTP/1.1\r\n{upgrade}Content-Length: 0\r\n\r\n")).expect("well-formed");
    assert_eq!(head.upgrade.as_deref(), Some(&b"websocket"[..]));
    assert_eq!(head.content, Content::Tunnel);
    assert_eq!(value(&fields, "leno-upgrade").as_deref(), Some("websocket"));
    assert_eq!(value(&fields, "content-length"), None);
    for line in ["POST / HTTP/1.1\r\nContent-Length: 1", "HEAD / HTTP/1.1", "GET / HTTP/1.0"] {
        let (head, fields) = read(&format!("{line}\r\n{upgrade}\r\n")).expect("well-formed");
        assert_eq!((head.upgrade, value(&fields, "leno-upgrade")), (None, None), "{line}");
    }
}

#[test]
fn http_1_0_needs_no_host() {
    let (head, fields) = read("GET / HTTP/1.0\r\n\r\n").expect("well-formed");
    assert!(head.is_1_0 && !head.persistent);
    assert_eq!(value(&fields, ":authority"), None);
    let (_, fields) = read("GET / HTTP/1.1\r\nHost:\r\n\r\n").expect("well-formed");
    assert_eq!(value(&fields, ":authority"), None, "an empty host is none");
}

#[test]
fn each_defect_has_its_status() {
    let long = "x".repeat(9_000);
    let wide: String = (0..=MAX_FIELDS).map(|n| format!("x-{n}: 1\r\n")).collect();
    // Fewer bytes than the limit, but each field counts 32 bytes more, as in HTTP/2.
    let heavy: String = (0..120).map(|n| format!("x-{n}: {}\r\n", "y".repeat(100))).collect();
    for (head, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), 505),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n".to_owned(), 505),
        ("GET / HTTP/1.11\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET /\r\n\r\n".to_owned(), 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{wide}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{heavy}\r\n"), 431),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".to_owned(), 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(), 501),
    ] {
        let start = &head[..head.len().min(80)];
        assert_eq!(read(&head).map(|_| ()).expect_err("not well-formed").status, status, "{start:?}");
    }
}
