//! Violations that end the connection, each with its code (RFC 9113 section 5.4.1).

use leno_http2::{ErrorCode, Limits, Role, Violation};

use crate::endpoint::{Endpoint, request};
use crate::frames::{self, flag, frame, kind};

/// Feeds the bytes to one endpoint all at once, and to a second endpoint one byte at a time. Returns the code of the
/// error, which must equal the code of the GOAWAY.
fn code_of(endpoint: impl Fn() -> Endpoint, bytes: &[u8]) -> Option<ErrorCode> {
    let [whole, in_bytes] = [bytes.len(), 1].map(|size| {
        let mut endpoint = endpoint();
        bytes.chunks(size).for_each(|chunk| endpoint.feed(chunk));
        let goaway = endpoint.sent().into_iter().find(|frame| frame.kind == kind::GOAWAY);
        let code = goaway.map(|frame| u32::from_be_bytes(frame.payload[4..8].try_into().expect("four bytes")));
        assert_eq!(code.map(ErrorCode), endpoint.error.map(|error| error.code));
        endpoint.error.map(|error| error.code)
    });
    assert_eq!(whole, in_bytes, "the code depends on how the bytes are cut");
    whole
}

/// A server with an open stream 1, a stream 3 that has ended, and a stream 5 that it has reset.
fn server() -> Endpoint {
    let mut server = Endpoint::server(Limits::server());
    server.feed(&[frames::request(1), frames::whole_request(3), frames::request(5)].concat());
    server.respond(3, &crate::endpoint::response(), true);
    server.http2.reset(server.key(5), ErrorCode::CANCEL);
    server.written();
    server
}

/// A client with an open stream 1.
fn client() -> Endpoint {
    let mut client = Endpoint::client(Limits::client());
    client.open(&request(), true);
    client.written();
    client
}

fn new(role: Role) -> Endpoint {
    let mut endpoint = Endpoint::new(role, Limits::server(), std::time::Instant::now());
    endpoint.written();
    endpoint
}

#[test]
fn each_breach_has_its_code() {
    use ErrorCode as Code;
    let block = frames::block(&frames::REQUEST);
    let headers = |flags, stream, payload: &[u8]| frame(kind::HEADERS, flags, stream, payload);
    let unfinished = headers(0, 7, &block[..5]);
    let table: &[(&str, Code, Vec<u8>)] = &[
        ("DATA on stream 0", Code::PROTOCOL_ERROR, frames::data(0, b"x", false)),
        ("DATA on an idle stream", Code::PROTOCOL_ERROR, frames::data(9, b"x", false)),
        ("DATA on an even stream", Code::PROTOCOL_ERROR, frames::data(2, b"x", false)),
        ("DATA padded with more than it has", Code::PROTOCOL_ERROR, frame(kind::DATA, flag::PADDED, 1, &[1])),
        ("DATA padded without a length", Code::PROTOCOL_ERROR, frame(kind::DATA, flag::PADDED, 1, &[])),
        ("HEADERS on stream 0", Code::PROTOCOL_ERROR, headers(4, 0, &block)),
        ("HEADERS on an even stream", Code::PROTOCOL_ERROR, headers(4, 2, &block)),
        ("HEADERS on a stream that has ended", Code::STREAM_CLOSED, headers(4, 3, &block)),
        ("HEADERS padded with more than it has", Code::PROTOCOL_ERROR, headers(4 | flag::PADDED, 7, &[9, 0x82])),
        ("HEADERS padded without a length", Code::PROTOCOL_ERROR, headers(4 | flag::PADDED, 7, &[])),
        ("HEADERS too short for a priority", Code::FRAME_SIZE_ERROR, headers(4 | flag::PRIORITY, 7, &[0; 4])),
        (
            "a block that cannot be decoded",
            Code::COMPRESSION_ERROR,
            headers(4, 7, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ),
        ("a block that is cut off", Code::COMPRESSION_ERROR, headers(4, 7, &block[..5])),
        ("a bad block on a stream that we reset", Code::COMPRESSION_ERROR, headers(4, 5, &[0x80])),
        ("PRIORITY on stream 0", Code::PROTOCOL_ERROR, frame(kind::PRIORITY, 0, 0, &[0; 5])),
        ("RST_STREAM on stream 0", Code::PROTOCOL_ERROR, frames::rst_stream(0, 8)),
        ("RST_STREAM on an idle stream", Code::PROTOCOL_ERROR, frames::rst_stream(7, 8)),
        ("RST_STREAM of three bytes", Code::FRAME_SIZE_ERROR, frame(kind::RST_STREAM, 0, 1, &[0; 3])),
        ("SETTINGS on a stream", Code::PROTOCOL_ERROR, frame(kind::SETTINGS, 0, 1, &[])),
        ("SETTINGS of five bytes", Code::FRAME_SIZE_ERROR, frame(kind::SETTINGS, 0, 0, &[0; 5])),
        (
            "a SETTINGS acknowledgement with content",
            Code::FRAME_SIZE_ERROR,
            frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]),
        ),
        ("SETTINGS_ENABLE_PUSH of 2", Code::PROTOCOL_ERROR, frames::settings(&[(2, 2)])),
        ("SETTINGS_INITIAL_WINDOW_SIZE of 2^31", Code::FLOW_CONTROL_ERROR, frames::settings(&[(4, 1 << 31)])),
        ("SETTINGS_MAX_FRAME_SIZE too small", Code::PROTOCOL_ERROR, frames::settings(&[(5, 16_383)])),
        ("SETTINGS_MAX_FRAME_SIZE too large", Code::PROTOCOL_ERROR, frames::settings(&[(5, 1 << 24)])),
        (
            "SETTINGS that make a window overflow",
            Code::FLOW_CONTROL_ERROR,
            [frames::window_update(1, 1), frames::settings(&[(4, 0x7fff_ffff)])].concat(),
        ),
        ("PUSH_PROMISE", Code::PROTOCOL_ERROR, frame(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2])),
        ("PING on a stream", Code::PROTOCOL_ERROR, frame(kind::PING, 0, 1, &[0; 8])),
        ("PING of seven bytes", Code::FRAME_SIZE_ERROR, frame(kind::PING, 0, 0, &[0; 7])),
        ("GOAWAY on a stream", Code::PROTOCOL_ERROR, frame(kind::GOAWAY, 0, 1, &[0; 8])),
        ("GOAWAY of seven bytes", Code::FRAME_SIZE_ERROR, frame(kind::GOAWAY, 0, 0, &[0; 7])),
        ("WINDOW_UPDATE of 0", Code::PROTOCOL_ERROR, frames::window_update(0, 0)),
        ("WINDOW_UPDATE over 2^31-1", Code::FLOW_CONTROL_ERROR, frames::window_update(0, 0x7fff_ffff)),
        ("WINDOW_UPDATE on an idle stream", Code::PROTOCOL_ERROR, frames::window_update(7, 1)),
        ("WINDOW_UPDATE of three bytes", Code::FRAME_SIZE_ERROR, frame(kind::WINDOW_UPDATE, 0, 1, &[0; 3])),
        ("CONTINUATION without HEADERS", Code::PROTOCOL_ERROR, frame(kind::CONTINUATION, 4, 1, &block)),
        (
            "CONTINUATION of another stream",
            Code::PROTOCOL_ERROR,
            [unfinished.clone(), frame(kind::CONTINUATION, 4, 1, &block)].concat(),
        ),
        ("PING within a header block", Code::PROTOCOL_ERROR, [unfinished.clone(), frames::ping()].concat()),
        (
            "DATA within a header block",
            Code::PROTOCOL_ERROR,
            [unfinished.clone(), frames::data(1, b"x", false)].concat(),
        ),
        ("an unknown frame within a header block", Code::PROTOCOL_ERROR, [unfinished, frame(0xee, 0, 7, &[])].concat()),
        ("a frame larger than announced", Code::FRAME_SIZE_ERROR, frame(kind::DATA, 0, 1, &[0; 16_385])),
    ];
    for (what, code, bytes) in table {
        assert_eq!(code_of(server, bytes), Some(*code), "{what}");
    }
}

#[test]
fn some_rules_only_bind_a_server() {
    assert_eq!(code_of(client, &frames::settings(&[(2, 1)])), Some(ErrorCode::PROTOCOL_ERROR));
    assert_eq!(code_of(server, &frames::settings(&[(2, 1)])), None);
    for bytes in [frames::headers(2, &[(":status", "200")], true), frames::headers(3, &[(":status", "200")], true)] {
        assert_eq!(code_of(client, &bytes), Some(ErrorCode::PROTOCOL_ERROR));
    }
}

#[test]
fn frames_on_streams_that_have_ended_do_not_cost_a_servers_connection() {
    let mut client = client();
    client.feed(&frames::headers(1, &[(":status", "200")], true));
    client.feed(&frames::data(1, b"more", true));
    client.feed(&frames::headers(1, &[("a", "b")], true));
    assert_eq!((client.error, client.take().len()), (None, 1));
}

#[test]
fn a_connection_starts_with_preface_and_settings() {
    let protocol_error = Some(ErrorCode::PROTOCOL_ERROR);
    let after_preface = |bytes: Vec<u8>| [frames::PREFACE, &bytes].concat();
    assert_eq!(code_of(|| new(Role::Server), b"GET / HTTP/1.1\r\n"), protocol_error);
    assert_eq!(code_of(|| new(Role::Server), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r"), protocol_error);
    assert_eq!(code_of(|| new(Role::Server), &after_preface(frames::ping())), protocol_error);
    assert_eq!(code_of(|| new(Role::Server), &after_preface(frames::request(1))), protocol_error);
    let acknowledgement = frame(kind::SETTINGS, flag::ACK, 0, &[]);
    assert_eq!(code_of(|| new(Role::Server), &after_preface(acknowledgement)), protocol_error);
    assert_eq!(code_of(|| new(Role::Client), &frames::ping()), protocol_error);
    assert_eq!(code_of(|| new(Role::Client), b"HTTP/1.1 400 Bad Request\r\n"), protocol_error);
    assert_eq!(code_of(|| new(Role::Server), &after_preface(frames::settings(&[]))), None);
}

#[test]
fn a_wrong_preface_is_told_from_other_errors() {
    let mut server = new(Role::Server);
    server.feed(b"GET");
    assert_eq!(server.error.map(|error| error.why), Some(Violation::BadPreface));
}

#[test]
fn data_beyond_the_connections_window_ends_it() {
    let limits = || Limits { connection_window_bytes: 65_535, max_frame_bytes: 100_000, ..Limits::server() };
    let connection = || Endpoint::server(limits());
    let bytes = [frames::request(1), frames::data(1, &[0; 65_536], false)].concat();
    assert_eq!(code_of(connection, &bytes), Some(ErrorCode::FLOW_CONTROL_ERROR));
}

#[test]
fn nothing_is_read_after_an_error() {
    let mut server = server();
    server.feed(&[frames::ping(), frames::data(0, b"", false), frames::ping(), frames::request(7)].concat());
    server.feed(&frames::request(9));
    assert_eq!(server.take().len(), 3, "the requests before");
    let kinds: Vec<_> = server.sent().iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, [kind::PING, kind::GOAWAY]);
    assert_eq!(server.error.map(|error| error.to_string()).as_deref(), Some("DATA on stream 0: PROTOCOL_ERROR (0x1)"));
}

#[test]
fn unknown_frames_flags_and_reserved_bits_are_ignored() {
    let mut server = server();
    server.take();
    server.feed(&frame(0xee, 0xff, 1, b"whatever"));
    server.feed(&frame(kind::PING, 0xf0, 0, b"12345678"));
    server.feed(&frame(kind::DATA, 0, 1 | 1 << 31, b"x"));
    server.feed(&frame(kind::WINDOW_UPDATE, 0, 0, &[0x80, 0, 0, 1]));
    server.feed(&frames::rst_stream(3, 8));
    assert_eq!((server.error, server.take()), (None, vec![crate::endpoint::data(1, b"x", false)]));
}
