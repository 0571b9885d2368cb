use std::sync::Arc;

use leno_http2::{Connection, ErrorCode, Event, FieldSection, Role, Section};

use crate::downstream::client::Speaks;
use crate::fixtures::{
    TO_CART, begin_to_connect, call, connect, establish_http2, fields, mesh_of, outbound, read, relay, service,
};
use crate::link::LinkId;

/// A request whose content is not complete.
const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nhost: cart.shop:80\r\ncontent-length: 4\r\n\r\nab";

#[test]
fn a_request_that_becomes_complete_while_its_call_waits_is_no_longer_open() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let origin = outbound();
    let client = call(&mut relay, 0, origin, None, REQUEST.to_vec());
    let counts = |relay: &crate::Relay| relay.calls.iter().map(|(_, call)| call.counts_as_open).collect::<Vec<_>>();
    assert_eq!(counts(&relay), [true], "the connection to the endpoint is not established yet");
    relay.receive(LinkId::Client(client), b"cd");
    assert_eq!(counts(&relay), [false]);
}

#[test]
fn a_tunnel_stays_a_tunnel_when_its_request_is_dropped() {
    let origin = outbound();
    for (fields, is_tunnel) in [("connection: upgrade\r\nupgrade: chat\r\n", true), ("", false)] {
        let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
        let request = format!("GET / HTTP/1.1\r\nhost: cart.shop:80\r\n{fields}\r\n");
        call(&mut relay, 0, origin, None, request.into_bytes());
        let (id, _) = relay.calls.iter().next().expect("a call");
        relay.stop_replay(id);
        let call = relay.calls.get(id).expect("the same call");
        assert!(call.request.is_empty());
        assert_eq!(call.is_tunnel, is_tunnel, "{fields}");
    }
}

#[test]
fn a_client_gets_all_content_before_a_reset_without_an_error() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let now = relay.now;
    // Most content waits in the relay for the client's window.
    let limits = leno_http2::Limits { initial_window_bytes: 1, ..leno_http2::Limits::client() };
    let mut caller = Connection::new(Role::Client, Arc::new(limits), now);
    caller.open(now, 0, &fields(&TO_CART), true).expect("a stream");
    let asked = caller.output().to_vec();
    caller.advance_output(asked.len());
    let client = LinkId::Client(connect(&mut relay, 0, outbound(), None, (Speaks::Http2, asked)));
    assert!(relay.begin_read(client).is_some());
    relay.dispatch();
    let upstream = begin_to_connect(&mut relay);
    let mut server = establish_http2(&mut relay, upstream);
    relay.dispatch();
    relay.serve_waiting();
    let endpoint = LinkId::Endpoint(upstream);
    let link = relay.link(endpoint).expect("it is open");
    let request = link.output().to_vec();
    link.note_written(request.len());
    let stream = read(&mut server, now, &request).expect("a request");
    server.send_headers(stream, Section::Response, &fields(&[(":status", "200")]), false);
    server.send_data(stream, &[0; 10], false);
    server.reset(stream, ErrorCode::NO_ERROR);
    assert!(relay.begin_read(endpoint).is_some());
    relay.receive(endpoint, server.output());
    assert_eq!(relay.calls.len(), 0);

    let (mut section, mut received, mut reset) = (FieldSection::new(), 0, None);
    while reset.is_none() {
        let link = relay.link(client).expect("it is open");
        let output = link.output().to_vec();
        assert!(!output.is_empty(), "{received} bytes, and no reset");
        link.note_written(output.len());
        link.note_flushed(now, false);
        relay.flushed(client);
        let mut input = &output[..];
        while let Some(event) = caller.receive(now, &mut input, &mut section).expect("valid frames") {
            match event {
                Event::Data { stream, bytes, .. } => {
                    received += bytes.len();
                    caller.release(stream, bytes.len());
                }
                Event::Reset { code, .. } => reset = Some(code),
                _ => {}
            }
        }
        let credit = caller.output().to_vec();
        caller.advance_output(credit.len());
        relay.receive(client, &credit);
    }
    assert_eq!((received, reset), (10, Some(ErrorCode::NO_ERROR)));
}
