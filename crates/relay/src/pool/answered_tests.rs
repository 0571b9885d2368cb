use super::*;
use crate::downstream::client::Speaks;
use crate::fixtures::{begin_to_connect, call, client, connect_endpoint, flush, is_open, outbound, sweep};

/// Size of the content of a request.
const BYTES: usize = 60_000;

/// Returns an HTTP/1 request with content.
fn upload() -> Vec<u8> {
    let mut request = format!("PUT / HTTP/1.1\r\nhost: cart.shop:80\r\ncontent-length: {BYTES}\r\n\r\n").into_bytes();
    request.resize(request.len() + BYTES, b'x');
    request
}

/// Returns a relay, and its connection to an HTTP/1 server that has answered a request before it has read the request's
/// content. The server does not end the connection.
fn answered_early() -> (Relay, UpstreamId) {
    let (mut relay, id) = client(Speaks::Http1);
    let client = LinkId::Client(id);
    let request = upload();
    let (head, content) = request.split_at(request.len() - BYTES);
    relay.receive(client, head);
    relay.dispatch();
    let upstream = connect_endpoint(&mut relay);
    relay.receive(client, content);
    relay.receive(LinkId::Endpoint(upstream), b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    flush(&mut relay, client);
    assert_eq!(relay.calls.len(), 0, "request and response are complete");
    (relay, upstream)
}

#[test]
fn the_rest_of_an_answered_request_is_sent_and_no_call_follows_on_its_connection() {
    let (mut relay, upstream) = answered_early();
    let endpoint = LinkId::Endpoint(upstream);
    call(&mut relay, 1, outbound(), None, b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n".to_vec());
    assert!(begin_to_connect(&mut relay) != upstream);
    // The server reads the rest before the other connection is established.
    assert_eq!(relay.link(endpoint).expect("the rest waits").output().len(), BYTES);
    relay.mark_dirty(endpoint);
    flush(&mut relay, endpoint);
    assert!(!is_open(&mut relay, endpoint), "the server may take the rest for the next request");
}

#[test]
fn a_connection_is_closed_if_its_server_leaves_the_rest_of_an_answered_request_unread() {
    let (mut relay, upstream) = answered_early();
    let endpoint = LinkId::Endpoint(upstream);
    sweep(&mut relay, FINISH_WITHIN - Duration::from_secs(1));
    assert!(is_open(&mut relay, endpoint));
    sweep(&mut relay, Duration::from_secs(2));
    assert!(!is_open(&mut relay, endpoint));
}
