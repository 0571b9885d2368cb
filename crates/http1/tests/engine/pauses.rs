//! Situations in which the engine waits: pipelined requests, unreleased content, unread output.

use leno_http1::Section::Request;
use leno_http1::limits::OUTPUT_HIGH_WATER_BYTES;
use leno_http1::{Limits, Role};

use crate::endpoint::{Endpoint, GET, POST, content, headers};

#[test]
fn a_pipelined_request_waits_for_the_answer_before_it() {
    let mut server = Endpoint::server();
    let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    server.feed(&get.repeat(3));
    for _ in 0..3 {
        assert_eq!(server.take(), [headers(Request, GET, true)]);
        assert!(server.http1.is_paused());
        server.respond(&[(":status", "200"), ("content-length", "1")], false);
        assert!(server.http1.is_paused());
        server.data("a", true);
        assert!(!server.http1.is_paused());
        server.feed(b"");
    }
    assert_eq!(server.written().matches("HTTP/1.1 200 OK").count(), 3);
}

#[test]
fn an_answer_before_the_end_of_the_request_lets_the_request_come_to_its_end() {
    let mut server = Endpoint::server();
    server.feed(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    server.respond(&[(":status", "200"), ("content-length", "0")], true);
    assert!(server.http1.is_open(server.key) && !server.http1.must_close());
    server.take();
    server.feed(b"cdGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(server.take(), [content("cd", true), headers(Request, GET, true)]);
}

#[test]
fn the_caller_can_lower_the_amount_of_unreleased_content() {
    let limits = Limits { content_window_bytes: 10, ..Limits::server() };
    let mut server = Endpoint::new(Role::Server, limits);
    server.releases = false;
    server.http1.limit_content(4);
    server.feed(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\n\r\nabcdefghijklmnopqrstuvwxyz");
    assert_eq!(server.take()[1..], [content("abcd", false)]);
    assert!(server.http1.is_paused());
    for (bytes, more) in [(6, "ef"), (usize::MAX, "ghij"), (0, "")] {
        server.http1.limit_content(bytes);
        server.feed(b"");
        let wanted = if more.is_empty() { Vec::new() } else { vec![content(more, false)] };
        assert_eq!(server.take(), wanted, "{bytes}");
    }
}

#[test]
fn a_read_brings_no_more_content_than_the_caller_may_hold() {
    let limits = Limits { content_window_bytes: 1_000, max_chunk_line_bytes: 20, ..Limits::server() };
    let asked = |framing: &str| {
        let mut server = Endpoint::new(Role::Server, limits.clone());
        server.releases = false;
        assert_eq!(server.http1.read_room(), usize::MAX, "a header section");
        server.feed(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").as_bytes());
        assert_eq!(server.http1.read_room(), 1_000, "{framing}");
        server
    };
    let mut server = asked("Content-Length: 2000");
    server.feed(&[b'x'; 990]);
    assert_eq!(server.http1.read_room(), 10);
    server.feed(&[b'x'; 10]);
    assert_eq!(server.http1.read_room(), 1, "the end of the input must be noticed");
    let mut server = asked("Transfer-Encoding: chunked");
    let chunk = "x".repeat(990);
    for (bytes, room) in [("3de\r\n", 1_000), (chunk.as_str(), 20), ("\r\n", 20), ("14\r\n", 10)] {
        server.feed(bytes.as_bytes());
        assert_eq!(server.http1.read_room(), room, "{bytes}");
    }
    server.http1.release(server.key, 990);
    assert_eq!(server.http1.read_room(), 1_000);
}

#[test]
fn content_that_is_not_released_holds_the_input_back() {
    let limits = Limits { content_window_bytes: 10, ..Limits::server() };
    for (framing, bytes) in [
        ("Content-Length: 26", "abcdefghijklmnopqrstuvwxyz"),
        ("Transfer-Encoding: chunked", "1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n"),
    ] {
        let mut server = Endpoint::new(Role::Server, limits.clone());
        server.releases = false;
        server.feed(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{bytes}").as_bytes());
        assert_eq!(server.take()[1..], [content("abcdefghij", false)], "{framing}");
        assert!(server.http1.is_paused());
        server.http1.release(server.key, 4);
        assert!(!server.http1.is_paused());
        server.feed(b"");
        assert_eq!(server.take(), [content("klmn", false)]);
        server.releases = true;
        server.http1.release(server.key, 10);
        server.feed(b"");
        assert_eq!(server.take(), [content("opqrstuvwxyz", true)]);
        assert!(server.error.is_none());
    }
}

#[test]
fn content_beyond_the_high_water_mark_is_queued_and_drains() {
    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    server.respond(&[(":status", "200")], false);
    let content = "x".repeat(3 * OUTPUT_HIGH_WATER_BYTES);
    let taken = server.data(&content, false);
    assert!(taken > 0 && taken <= OUTPUT_HIGH_WATER_BYTES);
    assert_eq!(server.http1.queued_bytes(), content.len() - taken);
    server.trailers(&[("x-end", "1")]);
    assert!(!server.http1.can_send(server.key));
    let written = server.written();
    let mut drained = 0;
    while let Some(some) = server.http1.next_drained() {
        assert_eq!(some.stream, server.key);
        drained += some.bytes as usize;
    }
    assert_eq!(drained, content.len() - taken);
    assert_eq!(written.matches('x').count(), content.len() + 1);
    assert!(written.ends_with("\r\n0\r\nx-end: 1\r\n\r\n"));
    assert_eq!(server.http1.stream_count(), 0);
}

#[test]
fn no_request_is_read_while_the_answers_are_not() {
    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    server.respond(&[(":status", "200")], false);
    server.data(&"x".repeat(OUTPUT_HIGH_WATER_BYTES), true);
    while server.http1.stream_count() > 0 {
        server.http1.output();
        server.http1.advance_output(1);
    }
    server.take();
    server.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(server.http1.is_paused());
    assert_eq!(server.take(), []);
    server.written();
    assert!(!server.http1.is_paused());
    server.feed(b"");
    assert_eq!(server.take(), [headers(Request, GET, true)]);
}

#[test]
fn limits_of_lines_and_sections_hold() {
    let limits = || Limits {
        max_header_list_bytes: 400,
        max_target_bytes: 100,
        max_chunk_line_bytes: 20,
        max_chunk_extension_bytes: 30,
        max_trailer_bytes: 100,
        ..Limits::server()
    };
    let (x90, x200, x500) = ("x".repeat(90), "x".repeat(200), "x".repeat(500));
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (bytes, status) in [
        (format!("GET /{x500}"), 414),
        (format!("GET /{x200} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nx: {x500}"), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nx: {x200}\r\ny: {x90}\r\n\r\n"), 431),
        (format!("{chunked}3;{x90}"), 400),
        (format!("{chunked}{}", "1;3456789abcdef\r\na\r\n".repeat(3)), 400),
        (format!("{chunked}0\r\nx: {x200}"), 431),
        (format!("{chunked}0\r\nx: {x90}\r\n\r\n"), 431),
    ] {
        let start = bytes.get(..70.min(bytes.len()));
        let mut server = Endpoint::new(Role::Server, limits());
        server.feed(bytes.as_bytes());
        assert_eq!(server.error.map(|error| error.status), Some(status), "{start:?}");
        let mut server = Endpoint::new(Role::Server, limits());
        bytes.bytes().for_each(|byte| server.feed(&[byte]));
        assert_eq!(server.error.map(|error| error.status), Some(status), "{start:?}, byte by byte");
    }
}

#[test]
fn a_head_that_does_not_end_has_an_age() {
    let mut server = Endpoint::server();
    assert_eq!(server.http1.incomplete_since(), None);
    let began = server.now;
    server.feed(b"GET / HT");
    server.wait(std::time::Duration::from_secs(5));
    server.feed(b"TP/1.1\r\n");
    assert_eq!(server.http1.incomplete_since(), Some(began));
    server.feed(b"Host: a\r\n\r\n");
    assert_eq!(server.http1.incomplete_since(), None);
}

#[test]
fn interim_responses_without_end_are_refused() {
    let mut client = Endpoint::client(POST, true);
    client.feed(&b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(40));
    assert_eq!(client.error.map(|error| error.why), Some("too many interim responses"));
}
