//! Malformed messages are stream errors, and the connection continues (RFC 9113 section 8.1.1).

use leno_http2::{ErrorCode, Limits, Section};

use crate::endpoint::{Endpoint, headers, request, reset, section};
use crate::frames::{self, kind};

type Lines = &'static [(&'static str, &'static str)];

const REQUESTS: &[(&str, Lines)] = &[
    ("no method", &[(":scheme", "http"), (":path", "/")]),
    ("no scheme", &[(":method", "GET"), (":path", "/")]),
    ("no path", &[(":method", "GET"), (":scheme", "http")]),
    ("an empty path", &[(":method", "GET"), (":scheme", "http"), (":path", "")]),
    ("an empty method", &[(":method", ""), (":scheme", "http"), (":path", "/")]),
    ("an invalid scheme", &[(":method", "GET"), (":scheme", "ht tp"), (":path", "/")]),
    ("a status", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":status", "200")]),
    ("an unknown pseudo-header", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":sun", "1")]),
    ("a method twice", &[(":method", "GET"), (":method", "GET"), (":scheme", "http"), (":path", "/")]),
    ("a path after a regular field", &[(":method", "GET"), (":scheme", "http"), ("a", "b"), (":path", "/")]),
    (
        "extended CONNECT",
        &[(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/"), (":authority", "a")],
    ),
    ("CONNECT with a path", &[(":method", "CONNECT"), (":path", "/"), (":authority", "a:1")]),
    ("CONNECT with a scheme", &[(":method", "CONNECT"), (":scheme", "http"), (":authority", "a:1")]),
    ("CONNECT without an authority", &[(":method", "CONNECT")]),
    ("an upper-case name", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("X-Upper", "1")]),
    ("an empty name", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("", "1")]),
    ("a name with a space", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("a b", "1")]),
    ("a name with a colon", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("a:b", "1")]),
    ("a value with an escape character", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("a", "\x1b[1m")]),
    ("a value with DEL", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("a", "1\x7f")]),
    ("a value with a line feed", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("a", "1\n2")]),
    ("a value with a carriage return", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("a", "1\r2")]),
    ("a value with NUL", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("a", "1\0")]),
    ("a method with a space", &[(":method", "GET /"), (":scheme", "http"), (":path", "/")]),
    ("a method that is not ASCII", &[(":method", "G\u{e9}T"), (":scheme", "http"), (":path", "/")]),
    ("a path with a space", &[(":method", "GET"), (":scheme", "http"), (":path", "/a b")]),
    ("a path with a fragment", &[(":method", "GET"), (":scheme", "http"), (":path", "/a#b")]),
    ("a path without a slash", &[(":method", "GET"), (":scheme", "http"), (":path", "a")]),
    ("the path * and another method than OPTIONS", &[(":method", "GET"), (":scheme", "http"), (":path", "*")]),
    ("CONNECT with a path as its authority", &[(":method", "CONNECT"), (":authority", "/a")]),
    ("an authority with a space", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a b")]),
    ("two hosts", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "a"), ("host", "a")]),
    ("a path with trailing space", &[(":method", "GET"), (":scheme", "http"), (":path", "/ ")]),
    ("a path with a line feed", &[(":method", "GET"), (":scheme", "http"), (":path", "/a\n")]),
    ("connection", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("connection", "close")]),
    ("keep-alive", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("keep-alive", "1")]),
    ("proxy-connection", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("proxy-connection", "close")]),
    ("transfer-encoding", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("transfer-encoding", "chunked")]),
    ("upgrade", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("upgrade", "h2c")]),
    ("te in another spelling", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("te", "Trailers")]),
    ("te other than trailers", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("te", "gzip")]),
    (
        "a length that is no number",
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("content-length", "1x")],
    ),
    ("a length with a sign", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("content-length", "+1")]),
    ("an empty length", &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("content-length", "")]),
    (
        "a length over 64 bits",
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("content-length", "18446744073709551616")],
    ),
    (
        "two lengths",
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("content-length", "1"), ("content-length", "2")],
    ),
    (
        "a length twice",
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("content-length", "0"), ("content-length", "0")],
    ),
];

#[test]
fn malformed_requests_are_reset_and_the_connection_goes_on() {
    let mut server = Endpoint::server(Limits::server());
    for (i, (what, lines)) in REQUESTS.iter().enumerate() {
        let stream = 1 + 4 * i as u32;
        server.feed(&frames::headers(stream, lines, false));
        server.feed(&frames::data(stream, b"its content", true));
        assert_eq!(server.take(), [], "a request with {what}");
        let sent = server.sent();
        assert_eq!(
            (sent.len(), sent[0].kind, sent[0].stream, sent[0].value()),
            (1, kind::RST_STREAM, stream, 1),
            "{what}"
        );
        server.feed(&frames::whole_request(stream + 2));
        assert_eq!(server.take().len(), 1, "after a request with {what}");
    }
    assert_eq!(server.error, None);
}

#[test]
fn requests_that_look_strange_are_fine() {
    let good: [Lines; 8] = [
        &[(":method", "GET"), (":scheme", "http"), (":path", "/a<b"), (":authority", "extension/auth"), ("host", "")],
        &[(":path", "*"), (":scheme", "http"), (":method", "OPTIONS")],
        &[(":method", "GET"), (":scheme", "grpc+unix"), (":path", "/"), ("te", "trailers")],
        &[(":method", "x"), (":scheme", "http"), (":path", "/{\"|\"}^\\?`"), (":authority", "[::1]:80")],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "b"), ("host", "a:1")],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("content-length", "00")],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("a", ""), ("a", "b\tc d")],
        &[(":method", "CONNECT"), (":authority", "a:1"), ("content-type", "x")],
    ];
    for lines in good {
        let mut server = Endpoint::server(Limits::server());
        server.feed(&frames::headers(1, lines, true));
        assert_eq!(server.take(), [headers(1, Section::Request, &section(lines), true)]);
    }
}

#[test]
fn white_space_at_the_ends_of_values_is_removed() {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), true);
    client.feed(&frames::headers(1, &[(":status", "200"), ("te", " trailers"), ("a", "\t b c ")], false));
    client.feed(&frames::headers(1, &[("grpc-status", "5"), ("grpc-message", "no such user: ")], true));
    let head = section(&[(":status", "200"), ("te", "trailers"), ("a", "b c")]);
    let trailers = section(&[("grpc-status", "5"), ("grpc-message", "no such user:")]);
    let expected = [headers(1, Section::Response, &head, false), headers(1, Section::Trailers, &trailers, true)];
    assert_eq!((client.take(), client.error), (expected.to_vec(), None));
}

const RESPONSES: &[(&str, Lines)] = &[
    ("no status", &[("a", "b")]),
    ("a status of two digits", &[(":status", "20")]),
    ("a status of four digits", &[(":status", "2000")]),
    ("a status below 100", &[(":status", "099")]),
    ("a status that is no number", &[(":status", "2o0")]),
    ("status 101", &[(":status", "101")]),
    ("a path", &[(":status", "200"), (":path", "/")]),
    ("a status twice", &[(":status", "200"), (":status", "200")]),
    ("a status after a regular field", &[("a", "b"), (":status", "200")]),
    ("an upper-case name", &[(":status", "200"), ("Date", "today")]),
    ("connection", &[(":status", "200"), ("connection", "close")]),
    ("two lengths", &[(":status", "200"), ("content-length", "1"), ("content-length", "2")]),
    ("a value with a control character", &[(":status", "200"), ("a", "\x01")]),
];

#[test]
fn malformed_responses_are_reset_and_the_connection_goes_on() {
    for (what, lines) in RESPONSES {
        let mut client = Endpoint::client(Limits::client());
        client.open(&request(), true);
        client.open(&request(), true);
        client.written();
        client.feed(&frames::headers(1, lines, false));
        assert_eq!(client.take(), [reset(1, ErrorCode::PROTOCOL_ERROR, false)], "a response with {what}");
        assert_eq!((client.sent()[0].kind, client.http2.stream_count()), (kind::RST_STREAM, 1));
        client.feed(&frames::headers(3, &[(":status", "200")], true));
        assert_eq!((client.take().len(), client.error), (1, None));
    }
}

/// Returns the error with which the client resets a stream on which the server sends `frames`.
fn client_hears(request: &leno_http2::FieldSection, frames: &[Vec<u8>]) -> Option<ErrorCode> {
    let mut client = Endpoint::client(Limits::client());
    client.open(request, true);
    frames.iter().for_each(|frame| client.feed(frame));
    assert_eq!(client.error, None);
    error_of(&mut client)
}

/// Returns the error with which the server resets a stream on which the client sends `frames`.
fn server_hears(frames: &[Vec<u8>]) -> Option<ErrorCode> {
    let mut server = Endpoint::server(Limits::server());
    frames.iter().for_each(|frame| server.feed(frame));
    assert_eq!(server.error, None);
    error_of(&mut server)
}

/// Returns the code of the RST_STREAM that was sent. An event must report the reset, unless the stream was never
/// registered.
fn error_of(endpoint: &mut Endpoint) -> Option<ErrorCode> {
    let reset_frame = endpoint.sent().into_iter().find(|frame| frame.kind == kind::RST_STREAM)?;
    let code = ErrorCode(reset_frame.value());
    let happened = endpoint.take();
    assert!(happened.is_empty() || happened.last() == Some(&reset(1, code, false)));
    Some(code)
}

const MALFORMED: Option<ErrorCode> = Some(ErrorCode::PROTOCOL_ERROR);

fn request_of_length(length: &str, end_stream: bool) -> Vec<u8> {
    frames::headers(1, &[&frames::REQUEST[..], &[("content-length", length)]].concat(), end_stream)
}

#[test]
fn content_of_a_request_is_as_long_as_its_length_says() {
    let data = frames::data;
    assert_eq!(server_hears(&[request_of_length("4", false), data(1, b"four", true)]), None);
    assert_eq!(server_hears(&[request_of_length("4", false), data(1, b"fo", false), data(1, b"ur", true)]), None);
    assert_eq!(server_hears(&[request_of_length("0", true)]), None);
    assert_eq!(server_hears(&[request_of_length("4", true)]), MALFORMED);
    assert_eq!(server_hears(&[request_of_length("4", false), data(1, b"three", false)]), MALFORMED);
    assert_eq!(server_hears(&[request_of_length("4", false), data(1, b"two", true)]), MALFORMED);
    assert_eq!(server_hears(&[request_of_length("4", false), data(1, b"four", false), data(1, b"!", true)]), MALFORMED);
}

#[test]
fn padding_is_no_content() {
    let padded = |payload: &[u8]| frames::frame(kind::DATA, frames::flag::PADDED | 1, 1, payload);
    assert_eq!(server_hears(&[request_of_length("4", false), padded(b"\x02four\0\0")]), None);
    assert_eq!(server_hears(&[request_of_length("6", false), padded(b"\x02four\0\0")]), MALFORMED);
    assert_eq!(server_hears(&[request_of_length("3", false), padded(b"\x02four\0\0")]), MALFORMED);
}

#[test]
fn trailers_end_a_stream_whose_content_is_complete() {
    let trailers = |end| frames::headers(1, &[("x-sum", "1")], end);
    let four = frames::data(1, b"four", false);
    assert_eq!(server_hears(&[request_of_length("4", false), four.clone(), trailers(true)]), None);
    assert_eq!(server_hears(&[request_of_length("5", false), four.clone(), trailers(true)]), MALFORMED);
    assert_eq!(server_hears(&[frames::request(1), four, trailers(false)]), MALFORMED);
    assert_eq!(server_hears(&[frames::request(1), frames::headers(1, &[(":path", "/")], true)]), MALFORMED);
    assert_eq!(server_hears(&[frames::request(1), frames::headers(1, &[("a", "b"), (":path", "/")], true)]), MALFORMED);
    assert_eq!(server_hears(&[frames::request(1), frames::headers(1, &[("te", "gzip")], true)]), MALFORMED);
}

#[test]
fn nothing_follows_the_end_of_a_request() {
    let closed = Some(ErrorCode::STREAM_CLOSED);
    assert_eq!(server_hears(&[frames::whole_request(1), frames::data(1, b"more", false)]), closed);
    assert_eq!(server_hears(&[frames::whole_request(1), frames::headers(1, &[("a", "b")], true)]), closed);
}

#[test]
fn content_comes_after_the_final_response() {
    let interim = frames::headers(1, &[(":status", "100")], false);
    assert_eq!(client_hears(&request(), &[frames::data(1, b"early", false)]), MALFORMED);
    assert_eq!(client_hears(&request(), &[interim.clone(), frames::data(1, b"early", false)]), MALFORMED);
    assert_eq!(client_hears(&request(), &[frames::headers(1, &[(":status", "100")], true)]), MALFORMED);
    let fine = frames::headers(1, &[(":status", "200")], false);
    assert_eq!(client_hears(&request(), &[fine.clone(), interim]), MALFORMED);
    assert_eq!(client_hears(&request(), &[fine, frames::data(1, b"in time", true)]), None);
}

#[test]
fn content_of_a_response_is_as_long_as_its_length_says() {
    let response = |end| frames::headers(1, &[(":status", "200"), ("content-length", "4")], end);
    assert_eq!(client_hears(&request(), &[response(false), frames::data(1, b"four", true)]), None);
    assert_eq!(client_hears(&request(), &[response(true)]), MALFORMED);
    assert_eq!(client_hears(&request(), &[response(false), frames::data(1, b"too much", true)]), MALFORMED);
    assert_eq!(client_hears(&request(), &[response(false), frames::headers(1, &[("a", "b")], true)]), MALFORMED);
}

#[test]
fn some_responses_have_no_content_whatever_their_length_says() {
    let head = section(&[(":method", "HEAD"), (":scheme", "http"), (":path", "/")]);
    for (request, status) in [(&head, "200"), (&request(), "204"), (&request(), "304")] {
        let response = |end| frames::headers(1, &[(":status", status), ("content-length", "4")], end);
        assert_eq!(client_hears(request, &[response(true)]), None);
        assert_eq!(client_hears(request, &[response(false), frames::data(1, b"", true)]), None);
        assert_eq!(client_hears(request, &[response(false), frames::data(1, b"four", true)]), MALFORMED);
    }
}

#[test]
fn a_tunnels_length_is_ignored() {
    let connect = section(&[(":method", "CONNECT"), (":authority", "b.a:1")]);
    let accepted = frames::headers(1, &[(":status", "200"), ("content-length", "4")], false);
    assert_eq!(client_hears(&connect, &[accepted, frames::data(1, b"as long as it likes", true)]), None);
}

#[test]
fn a_stream_that_depends_on_itself_is_reset() {
    let mut payload = vec![0, 0, 0, 1, 16];
    payload.extend_from_slice(&frames::block(&frames::REQUEST));
    let request = frames::frame(kind::HEADERS, frames::flag::PRIORITY | frames::flag::END_HEADERS, 1, &payload);
    assert_eq!(server_hears(&[request]), MALFORMED);
    let priority = frames::frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 16]);
    assert_eq!(server_hears(&[frames::request(1), priority]), MALFORMED);
}

#[test]
fn other_rules_that_are_broken_on_one_stream_cost_that_stream() {
    let too_short = frames::frame(kind::PRIORITY, 0, 1, &[0; 4]);
    assert_eq!(server_hears(&[frames::request(1), too_short]), Some(ErrorCode::FRAME_SIZE_ERROR));
    assert_eq!(server_hears(&[frames::request(1), frames::window_update(1, 0)]), MALFORMED);
    let overflow = [frames::request(1), frames::window_update(1, 0x7fff_ffff)];
    assert_eq!(server_hears(&overflow), Some(ErrorCode::FLOW_CONTROL_ERROR));
}
