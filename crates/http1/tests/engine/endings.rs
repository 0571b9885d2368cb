//! The end of the peer's side, the early end of an exchange, and the end of the connection.

use leno_http1::ErrorCode;
use leno_http1::Section::{Request, Response};
use leno_http1::limits::OUTPUT_HIGH_WATER_BYTES;

use crate::endpoint::{Endpoint, GET, Happening, POST, content, headers};

fn reset(code: ErrorCode) -> Happening {
    Happening::Reset { code, by_peer: true }
}

#[test]
fn the_end_of_the_connection_ends_content_that_has_no_other_end() {
    let mut client = Endpoint::client(GET, true);
    client.feed(b"HTTP/1.1 200 OK\r\n\r\nabc");
    assert!(!client.http1.takes_streams());
    client.end();
    let head = headers(Response, &[(":status", "200")], false);
    assert_eq!(client.take(), [head, content("abc", true)]);
    assert!(client.http1.must_close() && client.http1.is_drained());
}

#[test]
fn the_end_of_the_connection_before_the_end_of_a_response_is_a_reset() {
    for part in [
        "",
        "HTTP/1.1 200 OK\r\nContent-",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
    ] {
        let mut client = Endpoint::client(GET, true);
        client.feed(part.as_bytes());
        client.end();
        assert_eq!(client.take().last(), Some(&reset(ErrorCode::INTERNAL_ERROR)), "{part:?}");
        assert!(client.http1.must_close() && client.http1.is_drained());
    }
}

#[test]
fn a_request_that_a_server_closes_on_without_a_word_was_not_taken_up() {
    for (part, taken_up) in [("", false), ("HTTP", true)] {
        let mut client = Endpoint::client(GET, true);
        client.feed(b"HTTP/1.1 204 No Content\r\n\r\n");
        client.request(GET, true).expect("the connection is used again");
        client.written();
        client.feed(part.as_bytes());
        client.end();
        assert_eq!(client.take().last(), Some(&reset(ErrorCode::INTERNAL_ERROR)));
        assert_eq!(client.http1.is_taken_up(client.key), taken_up);
    }
}

#[test]
fn a_request_is_not_sent_until_the_socket_has_accepted_one_of_its_bytes() {
    let mut client = Endpoint::client(GET, true);
    let first = client.key;
    client.feed(b"HTTP/1.1 204 No Content\r\n\r\n");
    client.request(POST, true).expect("the connection is used again");
    assert!(client.http1.has_sent(first) && !client.http1.has_sent(client.key));
    client.http1.advance_output(1);
    assert!(client.http1.has_sent(client.key));
    client.end();
    assert!(client.http1.has_sent(client.key), "also after the exchange has ended");
}

#[test]
fn a_server_that_closes_after_its_answer_wants_no_more_of_the_request() {
    let mut client = Endpoint::client(POST, false);
    client.feed(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert!(client.http1.can_send(client.key), "it may still be reading");
    client.take();
    client.end();
    assert_eq!(client.take(), [reset(ErrorCode::NO_ERROR)]);
}

#[test]
fn a_client_that_closes_in_the_middle_of_a_request_resets_it() {
    let mut server = Endpoint::server();
    server.feed(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabc");
    server.take();
    server.end();
    assert_eq!(server.take(), [reset(ErrorCode::CANCEL)]);
    assert!(server.http1.must_close());
}

#[test]
fn a_client_that_closes_its_side_before_its_response_is_complete_gives_its_request_up() {
    for (request, has_begun, aborts) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", false, false),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, false),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", true, false),
        // Only the end of the connection marks the end of the response to an HTTP/1.0 request.
        ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", true, true),
    ] {
        let mut server = Endpoint::server();
        server.feed(request.as_bytes());
        assert!(server.http1.is_paused() && server.http1.awaits_end());
        if has_begun {
            server.respond(&[(":status", "200")], false);
            server.data("part", false);
        }
        server.take();
        server.end();
        assert_eq!(server.take(), [reset(ErrorCode::CANCEL)], "{request:?}");
        assert!(server.http1.must_close() && server.http1.is_drained());
        assert_eq!(server.http1.must_abort(), aborts, "{request:?}");
    }
}

#[test]
fn a_client_that_closes_its_side_while_its_whole_response_is_queued_gets_all_of_it() {
    for has_trailers in [false, true] {
        let mut server = Endpoint::server();
        server.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        server.take();
        server.respond(&[(":status", "200")], false);
        let content = "x".repeat(3 * OUTPUT_HIGH_WATER_BYTES);
        server.data(&content, !has_trailers);
        if has_trailers {
            server.trailers(&[("t", "1")]);
        }
        server.end();
        assert_eq!(server.take(), []);
        assert!(!server.http1.must_close());
        let written = server.written();
        assert_eq!(written.matches('x').count(), content.len());
        assert!(written.ends_with(if has_trailers { "0\r\nt: 1\r\n\r\n" } else { "0\r\n\r\n" }));
        assert!(server.http1.must_close() && server.http1.is_drained());
    }
}

#[test]
fn a_client_that_closes_its_side_after_two_requests_gets_the_first_response() {
    let mut server = Endpoint::server();
    server.feed(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2));
    server.respond(&[(":status", "200"), ("content-length", "0")], true);
    server.feed(b"");
    assert_eq!(server.take(), [headers(Request, GET, true), headers(Request, GET, true)]);
    server.end();
    assert_eq!(server.take(), [reset(ErrorCode::CANCEL)]);
    assert_eq!(server.written(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    assert!(server.http1.must_close() && !server.http1.must_abort());
}

#[test]
fn a_peer_that_closes_between_exchanges_is_gone_in_silence() {
    for part in ["", "GET / HT"] {
        let mut server = Endpoint::server();
        server.feed(part.as_bytes());
        server.end();
        assert_eq!(server.take(), []);
        assert!(server.http1.must_close() && server.written().is_empty());
    }
}

#[test]
fn a_reset_is_the_end_of_the_connection() {
    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    server.respond(&[(":status", "200")], false);
    server.data("part", false);
    server.http1.reset(server.key, ErrorCode::INTERNAL_ERROR);
    assert!(server.http1.must_close() && !server.http1.is_open(server.key));
    assert!(!server.http1.must_abort(), "chunks that do not end tell enough");
    assert!(server.written().ends_with("4\r\npart\r\n"));
}

#[test]
fn a_reset_of_content_that_closing_would_end_needs_an_abort() {
    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.0\r\n\r\n");
    server.respond(&[(":status", "200")], false);
    server.data("part", false);
    server.http1.reset(server.key, ErrorCode::INTERNAL_ERROR);
    assert!(server.http1.must_close() && server.http1.must_abort());
    assert!(!server.http1.ends_output(), "a close of our side would look like the end of the content");
}

#[test]
fn a_response_that_closing_would_end_is_aborted_if_its_client_closes_in_the_middle_of_the_request() {
    let mut server = Endpoint::server();
    server.feed(b"POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\nab");
    server.respond(&[(":status", "200")], false);
    server.data("part", false);
    server.take();
    server.end();
    assert_eq!(server.take(), [reset(ErrorCode::CANCEL)]);
    assert!(server.http1.must_abort() && !server.http1.ends_output());
}

#[test]
fn a_server_that_stops_receiving_closes_once_it_has_answered() {
    for stops_first in [true, false] {
        let mut server = Endpoint::server();
        server.feed(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
        if stops_first {
            server.http1.stop_receiving(server.key);
            assert!(!server.http1.must_close());
        }
        server.respond(&[(":status", "413")], true);
        if !stops_first {
            assert!(!server.http1.must_close());
            server.http1.stop_receiving(server.key);
        }
        assert_eq!(server.written().contains("connection: close"), stops_first);
        assert!(server.http1.must_close() && server.http1.is_drained());
    }
}

/// Some servers do not read the content of such a request, and parse it as the next request.
#[test]
fn a_request_with_content_that_its_server_may_not_read_is_the_last_one_on_its_connection() {
    for (method, framing, closes) in [
        ("GET", "content-length: 2", true),
        ("GET", "transfer-encoding: chunked", true),
        ("GET", "content-length: 0", false),
        ("HEAD", "content-length: 2", true),
        ("DELETE", "content-length: 2", true),
        ("OPTIONS", "content-length: 2", true),
        ("TRACE", "content-length: 2", true),
        ("get", "content-length: 2", true),
        ("PROPFIND", "content-length: 2", true),
        ("POST", "content-length: 2", false),
        ("PUT", "transfer-encoding: chunked", false),
        ("PATCH", "content-length: 2", false),
    ] {
        let length = framing.strip_prefix("content-length: ").map(|length| ("content-length", length));
        let request: Vec<_> =
            std::iter::once((":method", method)).chain(GET[1..].iter().copied()).chain(length).collect();
        let end = if closes { "connection: close\r\n" } else { "" };
        let head = format!("{method} / HTTP/1.1\r\nhost: a\r\n{framing}\r\n{end}\r\n");
        assert_eq!(Endpoint::wire_of(&request, false), head);

        let mut client = Endpoint::client(&request, false);
        let content = if framing.ends_with('0') { "" } else { "ab" };
        client.data(content, true);
        client.written();
        assert_eq!(client.http1.takes_streams(), !closes, "{method}, {framing}");
        client.feed(b"HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!((client.http1.takes_streams(), client.http1.must_close()), (!closes, closes), "{method}, {framing}");
    }
}

const EXPECTS: &str = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n";

#[test]
fn a_client_whose_content_is_not_asked_for_gets_the_end_of_the_connection_with_the_response() {
    for (framing, content, closes) in [
        ("Content-Length: 4", "", true),
        ("Content-Length: 4", "a", false),
        ("Transfer-Encoding: chunked", "", true),
        ("Transfer-Encoding: chunked", "1", false),
        ("Transfer-Encoding: chunked", "1\r\na\r\n", false),
        ("Content-Length: 0", "", false),
    ] {
        let mut server = Endpoint::server();
        server.feed(format!("{EXPECTS}{framing}\r\n\r\n{content}").as_bytes());
        server.respond(&[(":status", "401"), ("content-length", "0")], true);
        assert_eq!(server.written().contains("connection: close"), closes, "{framing}, {content:?}");
    }
    let mut asked = Endpoint::server();
    asked.feed(format!("{EXPECTS}Content-Length: 4\r\n\r\n").as_bytes());
    asked.interim(&[(":status", "100")]);
    asked.respond(&[(":status", "401"), ("content-length", "0")], true);
    assert!(!asked.written().contains("close"), "the client sends the content");
}

#[test]
fn a_connection_is_not_reused_if_its_server_has_answered_before_it_had_the_whole_request() {
    let request = [POST, &[("expect", "100-continue"), ("content-length", "4")]].concat();
    for (interim, sent_before, is_flushed, is_reused) in [
        ("", "", true, false),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", "", true, false),
        ("HTTP/1.1 100 Continue\r\n\r\n", "", true, false),
        ("", "ab", true, false),
        ("", "abcd", true, true),
        // The whole content is in the output, but the socket has not accepted it.
        ("", "abcd", false, false),
    ] {
        let mut client = Endpoint::client(&request, false);
        client.data(sent_before, false);
        if is_flushed {
            client.written();
        }
        client.feed(format!("{interim}HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n").as_bytes());
        assert_eq!(client.http1.takes_streams(), is_reused, "{interim:?}, {sent_before:?}, {is_flushed}");
        client.data(&"abcd"[sent_before.len()..], true);
        assert_eq!(client.http1.must_close(), !is_reused);
    }
}

#[test]
fn a_server_that_has_the_whole_request_has_nothing_to_stop() {
    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    server.http1.stop_receiving(server.key);
    server.respond(&[(":status", "200")], true);
    server.http1.stop_receiving(server.key);
    assert!(!server.written().contains("close") && !server.http1.must_close());
}

#[test]
fn a_shutdown_ends_an_idle_connection_at_once_and_a_busy_one_with_its_answer() {
    let mut server = Endpoint::server();
    server.http1.shut_down();
    assert!(server.http1.must_close() && server.http1.is_drained());

    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.1\r\nHo");
    server.http1.shut_down();
    assert!(!server.http1.must_close(), "a request has begun");
    server.feed(b"st: a\r\n\r\nGET / HTTP/1.1\r\n");
    server.respond(&[(":status", "200"), ("content-length", "0")], true);
    assert!(server.written().contains("connection: close\r\n"));
    assert!(server.http1.must_close() && server.http1.is_drained());

    let mut client = Endpoint::client(GET, true);
    client.http1.shut_down();
    assert!(!client.http1.takes_streams() && !client.http1.is_drained());
    client.feed(b"HTTP/1.1 204 No Content\r\n\r\n");
    assert!(client.http1.is_drained());
}

#[test]
fn an_announced_end_waits_for_the_request_that_may_be_on_its_way() {
    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    server.respond(&[(":status", "200"), ("content-length", "2")], false);
    server.http1.announce_end();
    server.data("ok", true);
    assert!(!server.written().contains("close") && !server.http1.must_close(), "this answer had begun");
    server.feed(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    server.respond(&[(":status", "200"), ("content-length", "0")], true);
    assert!(server.written().contains("connection: close\r\n"));
    assert!(server.http1.must_close() && server.http1.is_drained());

    let mut idle = Endpoint::server();
    idle.http1.announce_end();
    assert!(!idle.http1.must_close());
    idle.http1.shut_down();
    assert!(idle.http1.must_close() && idle.http1.is_drained());
}

#[test]
fn an_answer_that_ends_with_the_connection_closes_our_side_before_the_request_has_come() {
    let mut server = Endpoint::server();
    server.feed(b"POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\nab");
    server.respond(&[(":status", "200")], false);
    assert!(!server.http1.ends_output());
    server.data("answer", true);
    assert!(server.http1.ends_output() && !server.http1.must_close());
    server.feed(b"cd");
    assert!(server.http1.must_close());
}
