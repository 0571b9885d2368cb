use crate::fixtures::{call, mesh_of, outbound, relay, service};
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
