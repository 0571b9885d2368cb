use super::*;
use crate::downstream::client::Speaks;
use crate::effect::Effect;
use crate::fixtures::{
    TO_CART, begin_to_connect, client, connect, connect_endpoint, establish_http2, http2_caller, is_open, mesh_of,
    outbound, relay, service,
};

#[test]
fn the_connection_of_a_cancelled_call_to_an_http1_server_is_reset_so_that_its_port_is_free_at_once() {
    let (mut relay, client) = client(Speaks::Http1);
    let client = LinkId::Client(client);
    relay.receive(client, b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n");
    relay.dispatch();
    let upstream = LinkId::Endpoint(connect_endpoint(&mut relay));
    let wire = relay.link(upstream).and_then(|link| link.wire()).expect("it is open");
    relay.receive_end(client);
    while let Some(id) = relay.next_dirty() {
        relay.flushed(id);
    }
    assert!(!is_open(&mut relay, upstream));
    assert!(relay.take_effects().iter().any(|effect| matches!(effect, Effect::Abort(of) if *of == wire)));
}

#[test]
fn a_server_that_closes_a_connection_with_many_resets_gets_fewer_from_then_on() {
    const ENHANCE_YOUR_CALM: u8 = 0xb;
    let goaway = [&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0][..], &[ENHANCE_YOUR_CALM]].concat();
    let burst = f64::from(STRICT_BURST);
    let is_strict_after = |excess: f64, pause: Duration| {
        let (mut relay, id, _) = call_over_http2();
        relay.pools.upstream_mut(id).expect("it is open").cancelled.excess = excess;
        relay.set_now(relay.now + pause);
        relay.receive(LinkId::Endpoint(id), &goaway);
        relay.reset_cancelled_of(id);
        relay.pools.upstream(id).expect("its call goes on").cancelled.allowed <= burst
    };
    assert!(!is_strict_after(burst, Duration::ZERO));
    assert!(is_strict_after(burst + 10.0, Duration::ZERO));
    assert!(!is_strict_after(burst + 10.0, Duration::from_secs(3)), "old resets do not count");
}

#[test]
fn each_reset_counts() {
    let (mut relay, id, stream) = call_over_http2();
    relay.cancel_upstream(id, stream, None);
    relay.set_now(relay.now + CANCEL_AFTER);
    relay.reset_cancelled_of(id);
    let excess = relay.pools.upstream(id).expect("it is open").cancelled.excess;
    assert!((0.9..=1.0).contains(&excess), "{excess}");
}

/// Returns a relay with a call in flight on a connection to an HTTP/2 endpoint, the connection, and the call's stream there.
fn call_over_http2() -> (Relay, UpstreamId, StreamKey) {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let (mut caller, _) = http2_caller(relay.now, &TO_CART);
    let client = connect(&mut relay, 0, outbound(), None, (Speaks::Http2, caller.output().to_vec()));
    assert!(relay.begin_read(LinkId::Client(client)).is_some());
    relay.dispatch();
    let id = begin_to_connect(&mut relay);
    establish_http2(&mut relay, id);
    relay.serve_waiting();
    let http2 = relay.pools.upstream_mut(id).and_then(|upstream| upstream.link.codec.http2()).expect("HTTP/2");
    let (stream, _) = http2.streams_above(0).first().copied().expect("the call is sent");
    (relay, id, stream)
}
