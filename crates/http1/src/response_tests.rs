use super::*;

const PLAIN: Asked<'_> = Asked { head: false, connect: false, upgrade: None };

fn read(head: &str, asked: Asked<'_>) -> Result<(ResponseHead, Vec<(String, String)>), ConnectionError> {
    let mut fields = FieldSection::new();
    let head = parse(head.as_bytes(), asked, &Limits::client(), &mut fields)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    Ok((head, fields.iter().map(|line| (text(line.name), text(line.value))).collect()))
}

fn content(head: &str, asked: Asked<'_>) -> Content {
    read(head, asked).expect("well-formed").0.content
}

#[test]
fn the_content_of_a_response_depends_on_the_request_and_the_status() {
    assert_eq!(content("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", PLAIN), Content::Length(3));
    assert_eq!(content("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", PLAIN), Content::None);
    assert_eq!(content("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", PLAIN), Content::Chunked);
    assert_eq!(content("HTTP/1.1 200 OK\r\n\r\n", PLAIN), Content::UntilClose);
    let head = Asked { head: true, ..PLAIN };
    assert_eq!(content("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", head), Content::None);
    assert_eq!(content("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", head), Content::None);
    for status in [204, 304] {
        assert_eq!(content(&format!("HTTP/1.1 {status} -\r\ncontent-length: 3\r\n\r\n"), PLAIN), Content::None);
    }
    let connect = Asked { connect: true, ..PLAIN };
    assert_eq!(content("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", connect), Content::Tunnel);
    assert_eq!(content("HTTP/1.1 407 No\r\ncontent-length: 3\r\n\r\n", connect), Content::Length(3));
}

#[test]
fn a_204_has_no_length_and_a_304_keeps_it() {
    let (_, fields) = read("HTTP/1.1 204 -\r\ncontent-length: 0\r\n\r\n", PLAIN).expect("well-formed");
    assert_eq!(fields, [(":status".to_owned(), "204".to_owned())]);
    let (_, fields) = read("HTTP/1.1 304 -\r\ncontent-length: 9\r\n\r\n", PLAIN).expect("well-formed");
    assert_eq!(fields[1], ("content-length".to_owned(), "9".to_owned()));
}

#[test]
fn an_interim_response_ends_with_its_header_section_and_the_fields_of_its_length_are_dropped() {
    for framing in ["content-length: 0", "content-length: 5", "transfer-encoding: chunked"] {
        let head = format!("HTTP/1.1 100 Continue\r\n{framing}\r\nx: 1\r\n\r\n");
        let (response, fields) = read(&head, PLAIN).expect("well-formed");
        assert!(response.interim && response.content == Content::None, "{framing}");
        assert_eq!(fields, [(":status", "100"), ("x", "1")].map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}

#[test]
fn fields_for_one_hop_and_those_of_requests_are_dropped() {
    let head = "HTTP/1.1 204 -\r\nTE: trailers\r\nUpgrade: a\r\nKeep-Alive: 5\r\nConnection: x\r\nX: 1\r\n\r\n";
    let (_, fields) = read(head, PLAIN).expect("well-formed");
    assert_eq!(fields, [(":status".to_owned(), "204".to_owned())]);
}

#[test]
fn a_connection_that_ends_with_the_content_is_not_used_again() {
    for (head, persistent) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\nConnection: x, close\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\nConnection: keep-alive\r\n\r\n", false),
    ] {
        assert_eq!(read(head, PLAIN).expect("well-formed").0.persistent, persistent, "{head}");
    }
}

#[test]
fn a_response_may_announce_how_long_its_server_keeps_the_connection() {
    for (fields, seconds) in [
        ("Keep-Alive: timeout=5\r\n", Some(5)),
        ("connection: keep-alive\r\nkeep-alive: max=100, Timeout = 72\r\n", Some(72)),
        ("keep-alive: timeout=9\r\nkeep-alive: timeout=5\r\n", Some(5)),
        ("keep-alive: timeout=0\r\n", Some(0)),
        ("keep-alive: timeout=100000\r\n", Some(u16::MAX)),
        ("keep-alive: timeout=-1, timeout, max=5\r\n", None),
        ("keep-alive: 300\r\n", None),
        ("", None),
    ] {
        let (head, shown) = read(&format!("HTTP/1.1 204 -\r\n{fields}\r\n"), PLAIN).expect("well-formed");
        assert_eq!((head.keep_alive_s, shown.len()), (seconds, 1), "{fields}");
    }
}

#[test]
fn a_change_of_protocol_reads_as_a_response_that_is_accepted() {
    let asked = Asked { upgrade: Some(b"foo, websocket"), ..PLAIN };
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\nx: 1\r\n\r\n";
    let (response, fields) = read(head, asked).expect("well-formed");
    assert_eq!((response.interim, response.content, response.persistent), (false, Content::Tunnel, true));
    let expected = [(":status", "200"), ("x", "1"), ("leno-upgrade", "WebSocket")];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn a_response_that_is_wrong_is_refused() {
    let offered = Asked { upgrade: Some(b"websocket"), ..PLAIN };
    let switched = "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    for (head, asked) in [
        (switched, PLAIN),
        ("HTTP/1.1 101 S\r\n\r\n", offered),
        ("HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\n", offered),
        ("HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n", offered),
        ("HTTP/1.1 099 -\r\n\r\n", PLAIN),
        ("HTTP/1.1 20 OK\r\n\r\n", PLAIN),
        ("HTTP/1.1 2000 OK\r\n\r\n", PLAIN),
        ("HTTP/2.0 200 OK\r\n\r\n", PLAIN),
        ("HTTP/1.1  200 OK\r\n\r\n", PLAIN),
        ("ICY 200 OK\r\n\r\n", PLAIN),
        ("\r\n", PLAIN),
        ("HTTP/1.1 200 OK\r\na : b\r\n\r\n", PLAIN),
        ("HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n", PLAIN),
        ("HTTP/1.1 200 OK\r\na: b\rc: d\r\n\r\n", PLAIN),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", PLAIN),
        ("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", PLAIN),
    ] {
        assert!(read(head, asked).is_err(), "{head:?}");
    }
}
