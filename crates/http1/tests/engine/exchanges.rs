//! Ordinary requests and responses, as they are on the wire and as events.

use leno_http1::Section::{Request, Response, Trailers};

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
