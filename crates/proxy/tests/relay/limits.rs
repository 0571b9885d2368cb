//! The relay's behavior at its limits, and just beyond them.

use std::net::TcpStream;
use std::time::Duration;

use leno_http2::frame::kind;

use crate::peer::{Frame, Peer, Server, call, call_with, data, headers, open_call, rst_stream, settings};
use crate::proxy::{CallInFlight, Proxy};

const REFUSED_STREAM: u32 = 7;

#[test]
fn content_beyond_what_may_be_kept_is_not_sent_twice() {
    let request = [open_call(1), data(1, &[0; 1_001], true)].concat();
    let mut call = CallInFlight::start_with(&request, "", &[("max_replay_bytes_per_call", "1000")]);
    call.endpoint.expect(kind::DATA);
    call.endpoint.send(&rst_stream(call.stream, REFUSED_STREAM));
    assert_eq!(call.client.expect(kind::HEADERS).field("leno-proxy-error"), "refused");
}

/// The size of a header section (RFC 9113 section 6.5.2).
fn size(section: &Frame) -> u32 {
    section.fields.iter().map(|(name, value)| (name.len() + value.len() + 32) as u32).sum()
}

/// Sends a call with a deadline to an endpoint that accepts header sections of this size. The call waits for the
/// connection, so the proxy writes the time that is left, which is longer than the client's text.
fn call_to_endpoint_that_accepts(max_header_list_bytes: u32) -> (Proxy, Peer, Peer) {
    const MAX_HEADER_LIST_SIZE: u16 = 6;
    let server = Server::start();
    let proxy = Proxy::start(&[server.address()]);
    let mut client = proxy.connect();
    client.send(&call_with(1, "grpc-timeout", "90S"));
    let mut endpoint = server.accept_silently();
    endpoint.send(&settings(&[(MAX_HEADER_LIST_SIZE, max_header_list_bytes)]));
    (proxy, client, endpoint)
}

#[test]
fn the_size_of_a_request_is_its_size_after_the_proxys_changes() {
    let (_proxy, _client, mut endpoint) = call_to_endpoint_that_accepts(16_384);
    let bytes = size(&endpoint.expect(kind::HEADERS));
    let (_proxy, _client, mut endpoint) = call_to_endpoint_that_accepts(bytes);
    assert_eq!(size(&endpoint.expect(kind::HEADERS)), bytes);
    let (_proxy, mut client, _endpoint) = call_to_endpoint_that_accepts(bytes - 1);
    let error = client.expect(kind::HEADERS);
    assert_eq!((error.field("grpc-status"), error.field("leno-proxy-error")), ("8", "header-list-too-large"));
}

#[test]
fn a_path_for_which_some_servers_close_the_connection_is_not_sent_to_a_server_of_http2() {
    let server = Server::start();
    let proxy = Proxy::start(&[server.address()]);
    let mut client = proxy.connect();
    let path = |path| [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "echo.default:80")];
    client.send(&headers(1, &path("/q?query=up{job=\"a\"}"), true));
    let mut endpoint = server.accept();
    let error = client.expect(kind::HEADERS);
    assert_eq!((error.field(":status"), error.field("leno-proxy-error")), ("400", "unusual-path"));
    client.send(&headers(3, &path("/q?query=up{job=%22a%22}"), true));
    assert_eq!(endpoint.expect(kind::HEADERS).field(":path"), "/q?query=up{job=%22a%22}");
}

#[test]
fn interim_responses_are_relayed_up_to_a_limit_and_then_the_call_fails() {
    let mut relayed = CallInFlight::start_with(&call(1), "", &[("max_interim_responses", "3")]);
    let interim = headers(relayed.stream, &[(":status", "103"), ("link", "</a>")], false);
    relayed.endpoint.send(&interim.repeat(4));
    for _ in 0..3 {
        assert_eq!(relayed.client.expect(kind::HEADERS).field(":status"), "103");
    }
    assert_eq!(relayed.client.expect(kind::HEADERS).field("leno-proxy-error"), "protocol-error");
    assert_eq!(relayed.proxy.metrics.abuse_count("interim_responses"), 1);
    assert_eq!(relayed.endpoint.expect(kind::RST_STREAM).stream, relayed.stream);
}

#[test]
fn a_worker_opens_no_more_sockets_than_its_limit_and_goes_on_when_one_is_free() {
    let server = Server::start();
    let proxy = Proxy::start_with(&[server.address()], "", &[("max_sockets", "2")]);
    let silent = [(); 2].map(|()| TcpStream::connect(proxy.address()).expect("the proxy listens"));
    let mut client = proxy.connect();
    client.send(&call(1));
    // Long enough for several sweeps: after each, the worker tries again to accept the client.
    std::thread::sleep(Duration::from_millis(500));
    assert!(server.accept_now().is_none() && !client.has_input(), "the silent clients have all sockets");
    drop(silent);
    let mut endpoint = server.accept();
    let stream = endpoint.expect(kind::HEADERS).stream;
    endpoint.send(&headers(stream, &[(":status", "200")], true));
    assert_eq!(client.expect(kind::HEADERS).field(":status"), "200");
}

#[test]
fn a_call_for_which_the_worker_has_no_socket_fails_with_the_limit_that_is_reached() {
    let server = Server::start();
    let proxy = Proxy::start_with(&[server.address()], "", &[("max_sockets", "1")]);
    let mut client = proxy.connect();
    client.send(&call(1));
    let answer = client.expect(kind::HEADERS);
    assert_eq!(answer.field("leno-proxy-error"), "no-socket");
    assert!(answer.field("grpc-message").contains("max_sockets"), "{answer:?}");
}
