//! Messages that two programs could interpret differently: the engine rejects each of them and ends the connection.

use crate::endpoint::{Endpoint, GET, POST};

/// Names and bytes of requests, with their expected status and a part of the expected reason.
const REQUESTS: &[(&str, &str, u16, &str)] = &[
    ("CL.TE", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "both"),
    ("TE.CL", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n", 400, "both"),
    (
        "two lengths",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
        400,
        "two content-length",
    ),
    (
        "equal lengths",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n",
        400,
        "two content-length",
    ),
    ("a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 4\r\n\r\n", 400, "not a number"),
    ("a signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\n", 400, "not a number"),
    ("a negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -4\r\n\r\n", 400, "not a number"),
    ("an empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400, "not a number"),
    ("a length with a blank", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4 4\r\n\r\n", 400, "not a number"),
    (
        "a huge length",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551620\r\n\r\n",
        400,
        "not a number",
    ),
    (
        "TE.TE",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
        400,
        "two transfer-encoding",
    ),
    ("chunked twice", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 400, "exactly"),
    ("xchunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400, "exactly"),
    ("quoted chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", 400, "exactly"),
    ("chunked not last", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n", 400, "exactly"),
    ("an unknown coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: cow\r\n\r\n", 501, "exactly"),
    ("chunked in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "HTTP/1.0"),
    ("a vertical tab", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\n\r\n", 400, "field value"),
    (
        "a blank before the colon",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
        400,
        "field name",
    ),
    ("a blank before the name", "POST / HTTP/1.1\r\nHost: a\r\n Transfer-Encoding: chunked\r\n\r\n", 400, "field name"),
    ("a folded line", "POST / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\tTransfer-Encoding: chunked\r\n\r\n", 400, "field name"),
    ("a folded coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", 400, ""),
    ("a first line that is folded", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, "field name"),
    ("a bare line feed", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400, "CR LF"),
    ("a bare line feed at the end", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400, "CR LF"),
    ("a line feed in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\nY: 2\r\n\r\n", 400, "CR LF"),
    ("a bare carriage return", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\rY: 2\r\n\r\n", 400, "field value"),
    ("a bare carriage return in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\r: 1\r\n\r\n", 400, "field name"),
    ("a doubled carriage return", "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", 400, "field value"),
    ("NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\x002\r\n\r\n", 400, "field value"),
    ("NUL in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\0: 1\r\n\r\n", 400, "field name"),
    ("NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400, ""),
    ("a name that is empty", "GET / HTTP/1.1\r\nHost: a\r\n: 1\r\n\r\n", 400, "field name"),
    ("a line without a colon", "GET / HTTP/1.1\r\nHost: a\r\nfoo\r\n\r\n", 400, "field name"),
    ("a pseudo-header field", "GET / HTTP/1.1\r\nHost: a\r\n:path: /b\r\n\r\n", 400, "field name"),
    ("no host", "GET / HTTP/1.1\r\n\r\n", 400, "no host"),
    ("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "two host fields"),
    ("two hosts beside a target's", "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "two host fields"),
    ("two hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400, "two host fields"),
    ("a host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "not a host"),
    ("a host with a user", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, "not a host"),
    ("a list of hosts", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, "not a host"),
    ("a target with a user", "GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n", 400, "no valid host"),
    ("a target without a host", "GET http:///b HTTP/1.1\r\nHost: b\r\n\r\n", 400, "no valid host"),
    ("a target that is relative", "GET b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "neither"),
    ("a target with a fragment", "GET /b#c HTTP/1.1\r\nHost: a\r\n\r\n", 400, "character"),
    ("two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "not an HTTP/1 request"),
    ("a blank at the end of the line", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400, "not an HTTP/1 request"),
    ("two versions", "GET / HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "not an HTTP/1 request"),
    ("another version", "GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, "not HTTP/1"),
    ("no version", "GET /\r\nHost: a\r\n\r\n", 400, "not an HTTP/1 request"),
    ("HTTP/2", "PRI * HTTP/2.0\r\n\r\n", 505, "not HTTP/1"),
    ("CONNECT with content", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 400, "CONNECT"),
    ("CONNECT with chunks", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "CONNECT"),
];

const CHUNKS: &[(&str, &str)] = &[
    ("a size that overflows", "10000000000000000\r\n"),
    ("a size with a prefix", "0x3\r\nabc\r\n"),
    ("a size with a sign", "+3\r\nabc\r\n"),
    ("a size with a blank before", " 3\r\nabc\r\n"),
    ("a size with a blank after", "3 \r\nabc\r\n"),
    ("no size", "\r\n"),
    ("a size that is only an extension", ";a\r\n"),
    ("a size that ends with a line feed", "3\nabc\r\n"),
    ("a carriage return in an extension", "3;a\rb\r\nabc\r\n"),
    ("a line feed in an extension", "3;a\nb\r\nabc\r\n"),
    ("NUL in an extension", "3;\0\r\nabc\r\n"),
    ("a chunk that is longer than its size", "3\r\nabcd\r\n0\r\n\r\n"),
    ("a chunk that ends with a line feed", "3\r\nabc\n0\r\n\r\n"),
    ("a chunk without an end", "3\r\nabc0\r\n\r\n"),
    ("a trailer that is folded", "0\r\na: b\r\n c\r\n\r\n"),
    ("a trailer with a blank before its colon", "0\r\na : b\r\n\r\n"),
    ("trailers that end with a line feed", "0\r\n\n"),
];

#[test]
fn every_attempt_in_a_request_is_refused_with_its_reason() {
    for (name, bytes, status, why) in REQUESTS {
        let mut server = Endpoint::server();
        server.feed(bytes.as_bytes());
        let error = server.error.unwrap_or_else(|| panic!("{name} passes: {:?}", server.take()));
        assert_eq!(error.status, *status, "{name}: {error}");
        assert!(error.why.contains(why), "{name}: {error}");
        assert_eq!(server.take(), [], "{name}");
        let answer = server.written();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {answer}");
        assert!(answer.contains("connection: close\r\n"), "{name}: {answer}");
        assert!(server.http1.must_close(), "{name}");
    }
}

#[test]
fn every_attempt_in_chunks_is_refused_in_both_roles() {
    for (name, bytes) in CHUNKS {
        let mut server = Endpoint::server();
        server.feed(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{bytes}").as_bytes());
        assert_eq!(server.error.map(|error| error.status), Some(400), "{name}");
        assert!(server.written().starts_with("HTTP/1.1 400 "), "{name}");

        let mut client = Endpoint::client(GET, true);
        client.feed(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{bytes}").as_bytes());
        assert_eq!(client.error.map(|error| error.status), Some(502), "{name}");
        assert!(client.http1.must_close() && !client.http1.takes_streams(), "{name}");
    }
}

#[test]
fn an_answer_that_has_begun_is_not_mixed_with_a_refusal() {
    let mut server = Endpoint::server();
    server.feed(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    server.respond(&[(":status", "200")], false);
    server.data("partly", false);
    server.feed(b"x\r\n");
    assert!(server.error.is_some());
    server.data("more", true);
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(server.written(), format!("{head}6\r\npartly\r\n"), "the content has no end, so it is not complete");
    assert_eq!(server.http1.stream_count(), 1, "the owner has yet to end the call");
}

#[test]
fn a_refusal_is_the_only_answer() {
    let mut server = Endpoint::server();
    server.feed(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    server.respond(&[(":status", "200")], true);
    let answer = server.written();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n") && !answer.contains(" 200 "), "{answer}");
}

#[test]
fn bytes_after_a_response_are_nobodys_answer() {
    let complete = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
    // Test each `rest` twice: first, it arrives in the same read as the response; then, in a later read, when no
    // request is open any more.
    for rest in ["HTTP/1.1 200 OK\r\n\r\n", "x", "\r\n"] {
        let mut client = Endpoint::client(GET, true);
        client.feed(format!("{complete}{rest}").as_bytes());
        assert!(client.http1.must_close() && !client.http1.takes_streams(), "{rest:?}");

        let mut client = Endpoint::client(GET, true);
        client.feed(complete.as_bytes());
        assert!(client.http1.takes_streams());
        client.feed(rest.as_bytes());
        assert!(client.http1.must_close() && !client.http1.takes_streams(), "{rest:?}");
    }
}

#[test]
fn a_response_that_comes_before_its_request_has_gone_is_refused() {
    let mut client = Endpoint::client(GET, true);
    client.feed(b"HTTP/1.1 204 No Content\r\n\r\n");
    client.take();
    client.request(GET, true).expect("the connection is free");
    client.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    assert_eq!(client.error.map(|error| error.why), Some("a response came before its request"));
    assert_eq!(client.take(), []);
}

#[test]
fn bytes_after_a_response_whose_request_goes_on_end_the_connection_with_it() {
    let mut client = Endpoint::client(&[POST, &[("content-length", "2")]].concat(), false);
    client.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
    client.data("ab", true);
    assert!(client.http1.must_close() && client.http1.is_drained());
}

#[test]
fn content_that_is_longer_or_shorter_than_announced_ends_the_connection() {
    for (before, content, end_stream) in [("", "abcd", false), ("", "abcd", true), ("abc", "d", true), ("", "ab", true)]
    {
        let mut server = Endpoint::server();
        server.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        server.respond(&[(":status", "200"), ("content-length", "3")], false);
        server.data(before, false);
        server.data(content, end_stream);
        assert!(server.http1.must_close());
        server.take();
        server.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(server.take(), []);
        assert_eq!(server.http1.open_streams().len(), 1, "the owner has yet to end the call");
        let written = server.written();
        let (_, content) = written.split_once("\r\n\r\n").expect("the head has gone");
        assert!(content.len() <= 3, "no more than was announced: {written}");
    }
}
