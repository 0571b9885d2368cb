//! Ordinary requests and responses, on the wire and as events.

use leno_http1::Section::{Interim, Request, Response, Trailers};
use leno_http1::{ErrorCode, OpenError};

use crate::endpoint::{Endpoint, GET, POST, content, headers};

#[test]
fn a_request_without_content_is_one_event_and_its_answer_one_write() {
    let mut server = Endpoint::server();
    server.feed(b"GET /x?y HTTP/1.1\r\nHost: shop:80\r\nX-One: 1\r\n\r\n");
    let fields =
        [(":method", "GET"), (":scheme", "http"), (":authority", "shop:80"), (":path", "/x?y"), ("x-one", "1")];
    assert_eq!(server.take(), [headers(Request, &fields, true)]);
    server.respond(&[(":status", "200"), ("content-length", "2")], false);
    assert_eq!(server.data("hi", true), 2);
    assert_eq!(server.written(), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
    assert_eq!(server.http1.stream_count(), 0);
    assert!(!server.http1.must_close());
}

#[test]
fn content_of_unknown_length_comes_in_chunks_with_trailers() {
    let mut server = Endpoint::server();
    server
        .feed(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n");
    let expected = [headers(Request, POST, false), content("abc", false), headers(Trailers, &[("x-sum", "6")], true)];
    assert_eq!(server.take(), expected);
    server.respond(&[(":status", "200")], false);
    server.data("hello world", false);
    server.trailers(&[("x-sum", "7"), ("content-length", "9")]);
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(server.written(), format!("{head}b\r\nhello world\r\n0\r\nx-sum: 7\r\n\r\n"));
}

#[test]
fn a_client_writes_requests_and_reads_responses() {
    let mut client = Endpoint::client(GET, true);
    client.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let fields = [(":status", "200"), ("content-length", "2")];
    assert_eq!(client.take(), [headers(Response, &fields, false), content("hi", true)]);
    client.request(POST, false).expect("the connection is used again");
    client.data("abc", true);
    let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(client.written(), format!("{head}3\r\nabc\r\n0\r\n\r\n"));
}

#[test]
fn a_request_without_content_says_so_where_servers_expect_some() {
    assert_eq!(Endpoint::wire_of(POST, true), "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(Endpoint::wire_of(GET, true), "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    let with_length = [POST, &[("content-length", "3")]].concat();
    assert_eq!(Endpoint::wire_of(&with_length, false), "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n");
}

#[test]
fn interim_responses_are_relayed_and_the_final_one_follows() {
    let mut client = Endpoint::client(&[POST, &[("expect", "100-continue")]].concat(), false);
    // Old versions of CherryPy send the length.
    client.feed(b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    client.feed(b"HTTP/1.1 204 No Content\r\n\r\n");
    let expected = [
        headers(Interim, &[(":status", "100")], false),
        headers(Interim, &[(":status", "103"), ("link", "</a>")], false),
        headers(Response, &[(":status", "204")], true),
    ];
    assert_eq!(client.take(), expected);

    let mut server = Endpoint::server();
    server.feed(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    let fields = [POST, &[("expect", "100-continue"), ("content-length", "1")]].concat();
    assert_eq!(server.take(), [headers(Request, &fields, false)]);
    server.interim(&[(":status", "100")]);
    assert_eq!(server.written(), "HTTP/1.1 100 Continue\r\n\r\n");
    server.feed(b"x");
    assert_eq!(server.take(), [content("x", true)]);
}

#[test]
fn http_1_0_is_told_no_interim_response_and_gets_no_chunks() {
    let mut server = Endpoint::server();
    server.feed(b"POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
    server.interim(&[(":status", "103")]);
    server.respond(&[(":status", "200")], false);
    server.data("all that comes", true);
    assert_eq!(server.written(), "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nall that comes");
    assert!(server.http1.must_close());
}

#[test]
fn a_connection_of_http_1_0_goes_on_only_when_both_say_so() {
    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    server.respond(&[(":status", "200"), ("content-length", "1")], false);
    server.data("1", true);
    assert_eq!(server.written(), "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: keep-alive\r\n\r\n1");
    assert!(!server.http1.must_close());
    server.feed(b"GET / HTTP/1.0\r\n\r\n");
    server.respond(&[(":status", "200"), ("content-length", "0")], true);
    assert_eq!(server.written(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    assert!(server.http1.must_close());
}

#[test]
fn a_client_that_says_close_is_answered_with_close() {
    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /dropped HTTP/1.1\r\nHost: a\r\n\r\n");
    server.take();
    server.respond(&[(":status", "404")], true);
    assert_eq!(server.written(), "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    assert!(server.http1.must_close() && server.http1.is_drained());
    server.feed(b"");
    assert_eq!(server.take(), [], "nothing is read after the end");
}

#[test]
fn responses_that_have_no_content_have_none_whatever_is_sent() {
    for (request, response, expected) in [
        ("HEAD", &[(":status", "200"), ("content-length", "5")][..], "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
        ("HEAD", &[(":status", "200")][..], "HTTP/1.1 200 OK\r\n\r\n"),
        (
            "GET",
            &[(":status", "304"), ("content-length", "5")][..],
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n",
        ),
        ("GET", &[(":status", "204"), ("content-length", "0")][..], "HTTP/1.1 204 No Content\r\n\r\n"),
    ] {
        for end_stream in [true, false] {
            let mut server = Endpoint::server();
            server.feed(format!("{request} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            server.respond(response, end_stream);
            if !end_stream {
                assert_eq!(server.data("hello", true), 5);
            }
            assert_eq!(server.written(), expected, "{request} {response:?}");
            assert!(server.http1.stream_count() == 0 && !server.http1.must_close());
        }
    }
}

#[test]
fn empty_lines_before_a_request_are_skipped_but_not_without_end() {
    let mut server = Endpoint::server();
    server.feed(b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(server.take(), [headers(Request, GET, true)]);
    let mut server = Endpoint::server();
    server.feed(&b"\r\n".repeat(20));
    assert_eq!(server.error.map(|error| error.status), Some(400));
}

#[test]
fn a_client_has_one_exchange_at_a_time() {
    let mut client = Endpoint::client(GET, true);
    let first = client.key;
    assert_eq!(client.request(GET, true), Err(OpenError::Busy));
    assert!(client.http1.takes_streams() && client.http1.is_open(first) && !client.http1.can_send(first));
    assert!(!client.http1.is_taken_up(first));
    client.feed(b"HTTP/1.1 200 OK\r\nCont");
    assert!(client.http1.is_taken_up(first));
    client.feed(b"ent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_eq!(client.request(GET, true), Err(OpenError::Closed));
    assert!(client.http1.must_close());
}

#[test]
fn a_request_that_cannot_be_written_is_not_sent() {
    let mut client = Endpoint::client(GET, true);
    client.feed(b"HTTP/1.1 204 No Content\r\n\r\n");
    let split = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/ HTTP/1.1")];
    assert!(matches!(client.request(&split, true), Err(OpenError::Unwritable(_))));
    assert_eq!(client.written(), "");
    client.request(GET, true).expect("another one can be");
}

#[test]
fn tokens_come_with_every_event() {
    let mut client = Endpoint::client(GET, true);
    let key = client.key;
    assert_eq!(client.http1.open_streams(), [(key, 7)]);
    client.http1.set_token(key, 9);
    assert_eq!(client.http1.open_streams(), [(key, 9)]);
    client.http1.reset(key, ErrorCode::CANCEL);
    assert_eq!(client.http1.open_streams(), []);
}
