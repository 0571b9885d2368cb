//! The list of the calls in flight.

use std::time::Duration;

use leno_http2::frame::kind;
use leno_relay::Progress;

use crate::peer::{Peer, Server, call, data, headers, message, open_call};
use crate::proxy::{CallInFlight, Proxy, eventually};

/// The size of a client's window (RFC 9113 section 6.9.2), in bytes.
const WINDOW: usize = 65_535;

fn open_response(stream: u32) -> Vec<u8> {
    headers(stream, &[(":status", "200"), ("content-type", "application/grpc")], false)
}

#[test]
fn a_call_is_listed_until_it_ends_with_how_far_it_is() {
    let CallInFlight { proxy, server, mut client, mut endpoint, stream } = CallInFlight::start(&open_call(1));
    let open = proxy.open_calls(Duration::ZERO);
    let [call] = &open.calls[..] else { panic!("{open:?}") };
    assert_eq!((call.method.as_str(), call.target.as_deref()), ("a.B/C", Some("echo.default:80")));
    assert_eq!((call.progress, call.endpoint, call.attempts), (Progress::Sent, Some(server.address()), 1));
    assert_eq!(call.client, client.socket.local_addr().expect("it is connected"));
    assert!(proxy.open_calls(Duration::from_secs(3_600)).calls.is_empty(), "it has not been open for an hour");

    endpoint.send(&[open_response(stream), data(stream, &[message(3), message(4)].concat(), false)].concat());
    client.expect(kind::DATA);
    client.send(&data(1, &message(5), false));
    endpoint.expect(kind::DATA);
    let open = proxy.open_calls(Duration::ZERO);
    let call = &open.calls[0];
    assert_eq!((call.progress, call.request_messages, call.response_messages), (Progress::Answering, 1, 2));
    assert_eq!((call.request_bytes, call.response_bytes), (10, 17));
    assert_eq!((call.request_queued_bytes, call.response_queued_bytes), (0, 0));
    assert_eq!(call.method, "a.B/C", "the metrics know the name after the request is forgotten");

    endpoint.send(&headers(stream, &[("grpc-status", "0")], true));
    client.expect(kind::HEADERS);
    assert_eq!(proxy.open_calls(Duration::ZERO).calls[0].progress, Progress::Answered);
    client.send(&data(1, b"", true));
    eventually("the call is over", || proxy.open_calls(Duration::ZERO).calls.is_empty());
}

#[test]
fn content_that_the_client_does_not_take_is_counted() {
    let CallInFlight { proxy, mut client, mut endpoint, stream, .. } = CallInFlight::start(&call(1));
    endpoint.send(&open_response(stream));
    client.expect(kind::HEADERS);
    // The client never sends WINDOW_UPDATE.
    endpoint.send(&data(stream, &[7; 16_000], false));
    for part in vec![7; WINDOW - 15_000].chunks(16_000) {
        endpoint.send(&data(stream, part, false));
    }
    eventually("1,000 bytes wait for the client", || {
        proxy.open_calls(Duration::ZERO).calls[0].response_queued_bytes == 1_000
    });
}

#[test]
fn a_call_without_a_connection_waits() {
    let server = Server::start();
    let proxy = Proxy::start(&[server.address()]);
    let mut client: Peer = proxy.connect();
    client.send(&open_call(1));
    eventually("the call waits for the server's SETTINGS", || {
        proxy.open_calls(Duration::ZERO).calls.first().is_some_and(|call| call.progress == Progress::Waiting)
    });
    client.send(&data(1, b"hello", false));
    eventually("its content waits too", || proxy.open_calls(Duration::ZERO).calls[0].request_queued_bytes == 5);
    assert_eq!(proxy.open_calls(Duration::ZERO).calls[0].endpoint, None);
}
