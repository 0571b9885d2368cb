use std::sync::Arc;

use leno_http2::{Connection, Role};

use super::*;
use crate::downstream::client::Speaks;
use crate::fixtures::{begin_connections, connect, fields, flush, inbound, mesh_of, relay, service};
use crate::link::LinkId;

#[test]
fn many_streams_have_equal_shares_of_half_of_the_limit() {
    for (streams, bytes) in [(0, 8 << 20), (1, 8 << 20), (256, 32 << 10), (2_048, 4 << 10), (10_000, 4 << 10)] {
        assert_eq!(equal_share(16 << 20, streams), bytes, "{streams} streams");
    }
}

#[test]
fn responses_of_http1_servers_wait_within_their_shares_and_none_is_reset() {
    const LIMIT: usize = 65_536;
    const CALLS: usize = 4;
    let request = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "cart.shop"),
        (":path", "/"),
        ("leno-orig-proto", "HTTP/1.1"),
    ];
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    Arc::make_mut(&mut relay.limits).relay.max_buffered_bytes_per_client = LIMIT as u32;
    let now = relay.now;
    let mut caller = Connection::new(Role::Client, Arc::new(leno_http2::Limits::client()), now);
    for _ in 0..CALLS {
        caller.open(now, 0, &fields(&request), true).expect("a stream");
    }
    let id = "spiffe://example.org/ns/shop/sa/web".parse().expect("an id");
    let client = LinkId::Client(connect(&mut relay, 0, inbound(), Some(id), (Speaks::Http2, caller.output().to_vec())));
    assert!(relay.begin_read(client).is_some());
    relay.dispatch();
    let upstreams: Vec<_> = begin_connections(&mut relay).into_iter().map(|(id, _)| id).collect();
    assert_eq!(upstreams.len(), CALLS);
    for &id in &upstreams {
        relay.connected(id);
        flush(&mut relay, LinkId::Endpoint(id));
    }
    for &id in &upstreams {
        let upstream = LinkId::Endpoint(id);
        relay.receive(upstream, b"HTTP/1.1 200 OK\r\ncontent-length: 64000\r\n\r\n");
        assert_eq!(
            relay.begin_read(upstream),
            Some(LIMIT / 2 / CALLS),
            "the relay does not read what it would have to keep"
        );
        relay.receive(upstream, &[0; 64_000]);
    }
    let queued_bytes = relay.link(client).expect("it is open").codec.queued_bytes();
    assert!((1..=LIMIT / 2).contains(&queued_bytes), "{queued_bytes}");
    assert_eq!(relay.calls.len(), CALLS);
}
