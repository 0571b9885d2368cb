use super::*;

fn section(fields: &[(&str, &str)]) -> FieldSection {
    let mut section = FieldSection::new();
    for (name, value) in fields {
        section.push(name.as_bytes(), value.as_bytes());
    }
    section
}

fn written(fields: &[(&str, &str)], framing: Framing, upgrade: Option<&[u8]>) -> String {
    let mut out = Vec::new();
    let form = Form { framing, persistence: Persistence::Implied };
    request(&mut out, &section(fields), form, upgrade, &mut Heads::default()).expect("it can be written");
    String::from_utf8(out).expect("text")
}

const PSEUDO: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":authority", "a:1"), (":path", "/b")];

#[test]
fn a_request_has_its_host_first_and_its_framing_last() {
    let fields = [&PSEUDO[..], &[("host", "other"), ("x", "1"), ("content-length", "9")]].concat();
    let start = "GET /b HTTP/1.1\r\nhost: a:1\r\nx: 1\r\n";
    assert_eq!(written(&fields, Framing::Length(9), None), format!("{start}content-length: 9\r\n\r\n"));
    assert_eq!(written(&fields, Framing::Chunked, None), format!("{start}transfer-encoding: chunked\r\n\r\n"));
    assert_eq!(written(&fields, Framing::Unframed, None), format!("{start}\r\n"));
}

#[test]
fn a_request_without_authority_has_the_host_it_came_with_or_an_empty_one() {
    let fields = [(":method", "GET"), (":path", "/"), ("host", "b")];
    assert_eq!(written(&fields, Framing::Unframed, None), "GET / HTTP/1.1\r\nhost: b\r\n\r\n");
    assert_eq!(written(&fields[..2], Framing::Unframed, None), "GET / HTTP/1.1\r\nhost: \r\n\r\n");
}

#[test]
fn a_request_that_keeps_its_absolute_form_is_written_with_its_present_authority_and_path() {
    let absolute = |method: &str, path: &str| {
        let mut fields = FieldSection::new();
        fields.push(b":method", method.as_bytes());
        fields.push_with_note(b":scheme", b"ftp", ABSOLUTE_FORM);
        fields.push(b":authority", b"a");
        fields.push(b":path", path.as_bytes());
        fields
    };
    let line = |fields: &FieldSection| {
        let mut out = Vec::new();
        let form = Form { framing: Framing::Unframed, persistence: Persistence::Implied };
        request(&mut out, fields, form, None, &mut Heads::default()).expect("it can be written");
        String::from_utf8(out).expect("text")
    };
    let mut fields = absolute("GET", "/b?c");
    assert_eq!(line(&fields), "GET ftp://a/b?c HTTP/1.1\r\nhost: a\r\n\r\n");
    fields.set(Known::Authority, b"new");
    fields.set(Known::Path, b"/d");
    assert_eq!(line(&fields), "GET ftp://new/d HTTP/1.1\r\nhost: new\r\n\r\n");
    fields.set(Known::Scheme, b"http");
    assert_eq!(line(&fields), "GET /d HTTP/1.1\r\nhost: new\r\n\r\n");
    assert!(line(&absolute("OPTIONS", "*")).starts_with("OPTIONS ftp://a HTTP/1.1\r\n"));
}

#[test]
fn what_is_for_one_hop_is_announced_in_connection() {
    let fields = [&PSEUDO[..], &[("te", "trailers"), ("leno-upgrade", "a"), ("keep-alive", "5")]].concat();
    let expected = "GET /b HTTP/1.1\r\nhost: a:1\r\nte: trailers\r\nconnection: upgrade, te\r\nupgrade: a\r\n\r\n";
    assert_eq!(written(&fields, Framing::Unframed, Some(b"a")), expected);
}

#[test]
fn pieces_of_a_cookie_are_joined() {
    let fields = [&PSEUDO[..], &[("cookie", "a=1"), ("x", "1"), ("cookie", "b=2")]].concat();
    let expected = "GET /b HTTP/1.1\r\nhost: a:1\r\nx: 1\r\ncookie: a=1; b=2\r\n\r\n";
    assert_eq!(written(&fields, Framing::Unframed, None), expected);
}

#[test]
fn no_field_can_become_two_lines() {
    let fields = [&PSEUDO[..], &[("x", "1\r\ny: 2\0"), ("a b", "c"), ("d: e\r\nf", "g"), ("", "h")]].concat();
    assert_eq!(written(&fields, Framing::Unframed, None), "GET /b HTTP/1.1\r\nhost: a:1\r\nx: 1  y: 2 \r\n\r\n");
}

#[test]
fn a_request_that_http1_cannot_say_is_found_out_before() {
    let with = |name: &str, value: &str| {
        let mut fields = section(&PSEUDO);
        fields.set(Known::of(name.as_bytes()), value.as_bytes());
        check_request(&fields)
    };
    assert_eq!(check_request(&section(&PSEUDO)), Ok(()));
    assert_eq!(with(":path", "/caf\u{e9}"), Ok(()));
    for (name, value) in [
        (":method", "GET /x"),
        (":method", ""),
        (":method", "G\u{e9}T"),
        (":path", "/ HTTP/1.1\u{b}x"),
        (":path", "/a b"),
        (":path", "b"),
        (":path", "http://evil/"),
        (":path", "*"),
        (":path", "/#a"),
        (":authority", "a b"),
        (":authority", "a/b"),
        (":authority", "user@a"),
    ] {
        assert!(with(name, value).is_err(), "{name}: {value}");
    }
    let connect = |authority| check_request(&section(&[(":method", "CONNECT"), (":authority", authority)]));
    assert_eq!(connect("a:1"), Ok(()));
    assert!(connect("a").is_err());
}

#[test]
fn trailers_follow_the_last_chunk_without_what_may_not_be_there() {
    let mut out = Vec::new();
    last_chunk(&mut out, Some(&section(&[("a", "1"), ("content-length", "3"), ("transfer-encoding", "chunked")])));
    last_chunk(&mut out, None);
    assert_eq!(out, b"0\r\na: 1\r\n\r\n0\r\n\r\n");
}

#[test]
fn a_refusal_says_why_and_ends_the_connection() {
    let mut out = Vec::new();
    refusal(&mut out, 431, "too large", true);
    let text = String::from_utf8(out).expect("text");
    assert!(text.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{text}");
    assert!(text.contains("connection: close\r\n") && text.contains("content-length: 10\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\ntoo large\n"), "{text}");
}

#[test]
fn what_came_from_http1_is_written_as_it_was() {
    let mut fields = FieldSection::new();
    fields.push_with_note(b":status", b"200", b"Well, fine\r\nX: 1");
    fields.push_with_note(b"x-id", b"1", b"X-ID");
    fields.push_with_note(b"etag", b"2", b"");
    // A note that spells another name must be ignored.
    fields.push_with_note(b"server", b"3", b"Content-Length");
    let mut out = Vec::new();
    let form = Form { framing: Framing::Length(0), persistence: Persistence::Close };
    response(&mut out, 200, &fields, form, None, &mut Heads::default());
    let expected = "HTTP/1.1 200 Well, fine  X: 1\r\nX-ID: 1\r\netag: 2\r\nserver: 3\r\n\
                    Content-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(String::from_utf8(out).expect("text"), expected);
}
