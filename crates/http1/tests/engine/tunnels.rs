//! Tunnels by CONNECT or upgrade: bytes pass in both directions once the tunnel is accepted.

use leno_http1::Section::{Request, Response};
use leno_http1::{ErrorCode, Limits, Role};

use crate::endpoint::{Endpoint, GET, content, headers};

const CONNECT: &[(&str, &str)] = &[(":method", "CONNECT"), (":authority", "db:5432")];
const OK: &[(&str, &str)] = &[(":status", "200")];
const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";

fn upgrade_request() -> Vec<(&'static str, &'static str)> {
    [GET, &[("leno-upgrade", "websocket")]].concat()
}

#[test]
fn bytes_wait_until_connect_is_accepted_and_then_flow_both_ways() {
    let mut server = Endpoint::server();
    server.feed(b"CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\n\r\nearly");
    assert_eq!(server.take(), [headers(Request, CONNECT, false)]);
    assert!(server.http1.is_paused() && !server.http1.awaits_end());
    assert!(!server.http1.carries_tunnel());
    server.respond(OK, false);
    assert!(!server.http1.is_paused() && server.http1.carries_tunnel());
    server.feed(b" late");
    assert_eq!(server.take(), [content("early late", false)]);
    server.data("GET / back", false);
    assert_eq!(server.written(), "HTTP/1.1 200 OK\r\n\r\nGET / back");
}

#[test]
fn a_client_keeps_its_bytes_until_connect_is_accepted() {
    let mut client = Endpoint::new(Role::Client, Limits::client());
    client.request(CONNECT, false).expect("a new connection takes a request");
    assert_eq!(client.data("early", false), 0);
    assert_eq!(client.written(), "CONNECT db:5432 HTTP/1.1\r\nhost: db:5432\r\n\r\n");
    assert_eq!(client.http1.queued_bytes(), 5);
    assert!(!client.http1.wants_write() && !client.http1.carries_tunnel());
    client.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nback");
    assert!(client.http1.carries_tunnel());
    assert_eq!(client.take(), [headers(Response, OK, false), content("back", false)]);
    assert!(client.http1.wants_write());
    assert_eq!(client.written(), "early");
    assert_eq!(client.http1.next_drained().map(|drained| drained.bytes), Some(5));
    assert_eq!(client.data(" late", false), 5);
    assert_eq!(client.written(), " late");
}

#[test]
fn each_side_of_a_tunnel_ends_by_itself() {
    let mut server = Endpoint::server();
    server.feed(b"CONNECT db:5432 HTTP/1.1\r\nHost: a\r\n\r\n");
    server.respond(OK, false);
    server.take();
    server.feed(b"last words");
    server.end();
    assert_eq!(server.take(), [content("last words", true)]);
    assert!(!server.http1.must_close() && !server.http1.ends_output());
    server.end();
    assert_eq!(server.take(), [], "its end is read again");
    server.data("answer", true);
    assert!(server.written().ends_with("answer"));
    assert!(server.http1.must_close());

    let mut client = Endpoint::client(CONNECT, false);
    client.feed(b"HTTP/1.1 200 OK\r\n\r\n");
    client.take();
    client.data("last words", true);
    assert_eq!(client.written(), "last words");
    assert!(client.http1.ends_output() && !client.http1.must_close());
    client.feed(b"answer");
    client.end();
    assert_eq!(client.take(), [content("answer", true)]);
    assert!(client.http1.must_close());
}

#[test]
fn a_tunnel_whose_server_has_said_all_still_takes_what_we_say() {
    let mut client = Endpoint::client(CONNECT, false);
    client.feed(b"HTTP/1.1 200 OK\r\n\r\nall");
    client.end();
    client.feed(b"");
    assert_eq!(client.take(), [headers(Response, OK, false), content("all", true)]);
    client.data("the rest", true);
    assert_eq!(client.written(), "the rest");
    assert!(client.http1.must_close() && client.http1.is_drained());
}

#[test]
fn what_follows_a_connect_that_is_refused_is_no_request() {
    let mut server = Endpoint::server();
    server.feed(b"CONNECT db:5432 HTTP/1.1\r\nHost: a\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
    server.take();
    server.respond(&[(":status", "403")], true);
    server.feed(b"");
    assert_eq!(server.take(), [content("", true)], "the request comes to its end, and nothing more");
    assert_eq!(server.written(), "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    assert!(server.http1.must_close() && server.http1.is_drained());
}

#[test]
fn a_change_of_protocol_is_a_request_and_a_response_that_both_say_so() {
    let mut server = Endpoint::server();
    server.feed(format!("{UPGRADE}frame").as_bytes());
    assert_eq!(server.take(), [headers(Request, &upgrade_request(), false)]);
    server.respond(&[(":status", "200"), ("leno-upgrade", "websocket")], false);
    assert_eq!(server.written(), SWITCHED);
    server.feed(b" two");
    assert_eq!(server.take(), [content("frame two", false)]);

    let mut client = Endpoint::new(Role::Client, Limits::client());
    client.request(&upgrade_request(), false).expect("a new connection takes a request");
    let wire = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    assert_eq!(client.written(), wire);
    client.feed(format!("{SWITCHED}frame").as_bytes());
    let accepted = [(":status", "200"), ("leno-upgrade", "websocket")];
    assert_eq!(client.take(), [headers(Response, &accepted, false), content("frame", false)]);
    client.data("back", false);
    assert_eq!(client.written(), "back");
}

#[test]
fn an_upgrade_that_is_refused_is_an_ordinary_exchange() {
    let mut server = Endpoint::server();
    server.feed(format!("{UPGRADE}GET / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    server.take();
    server.respond(&[(":status", "200"), ("content-length", "2")], false);
    server.data("no", true);
    assert_eq!(server.written(), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno");
    assert!(!server.http1.is_paused());
    server.feed(b"");
    assert_eq!(server.take(), [content("", true), headers(Request, GET, true)]);

    let mut client = Endpoint::client(&upgrade_request(), false);
    client.data("never sent", true);
    client.feed(b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: other\r\nContent-Length: 2\r\n\r\nno");
    let fields = [(":status", "426"), ("content-length", "2")];
    assert_eq!(client.take(), [headers(Response, &fields, false), content("no", true)]);
    assert_eq!(client.http1.queued_bytes(), 0);
    client.request(GET, true).expect("the connection is used again");
    assert_eq!(client.written(), "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
}

#[test]
fn h2c_is_not_upgraded_to() {
    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n");
    assert_eq!(server.take(), [headers(Request, GET, true)]);
}

#[test]
fn nobody_is_switched_who_did_not_ask() {
    let mut server = Endpoint::server();
    server.feed(b"GET / HTTP/1.1\r\nHost: a\r\nLeno-Upgrade: websocket\r\n\r\n");
    assert_eq!(server.take(), [headers(Request, GET, true)], "the sign comes from nobody but us");
    server.respond(&[(":status", "200"), ("leno-upgrade", "websocket")], false);
    assert_eq!(server.written(), "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");

    let mut client = Endpoint::client(GET, true);
    client.feed(SWITCHED.as_bytes());
    assert_eq!(client.error.map(|error| error.status), Some(502));
}

#[test]
fn a_tunnel_that_is_reset_is_aborted() {
    let mut server = Endpoint::server();
    server.feed(b"CONNECT db:5432 HTTP/1.1\r\nHost: a\r\n\r\n");
    server.respond(OK, false);
    server.http1.reset(server.key, ErrorCode::CONNECT_ERROR);
    assert!(server.http1.must_close() && server.http1.must_abort() && !server.http1.ends_output());
}

#[test]
fn a_client_that_has_closed_its_side_before_the_tunnel_is_accepted_ends_it_then() {
    let mut server = Endpoint::server();
    server.feed(b"CONNECT db:5432 HTTP/1.1\r\nHost: a\r\n\r\n");
    server.end();
    assert_eq!(server.take(), [headers(Request, CONNECT, false)]);
    server.respond(OK, false);
    server.feed(b"");
    assert_eq!(server.take(), [content("", true)]);
}
