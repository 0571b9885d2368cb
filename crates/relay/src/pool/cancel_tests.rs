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
    let allowed = |resets: u32| {
        let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
        let (mut caller, _) = http2_caller(relay.now, &TO_CART);
        connect(&mut relay, 0, outbound(), None, (Speaks::Http2, caller.output().to_vec()));
        relay.dispatch();
        let id = begin_to_connect(&mut relay);
        establish_http2(&mut relay, id);
        relay.pools.upstream_mut(id).expect("it is open").cancelled.resets = resets;
        relay.receive(LinkId::Endpoint(id), &goaway);
        relay.reset_cancelled_of(id);
        relay.pools.upstream(id).expect("its call goes on").cancelled.allowed
    };
    assert!(allowed(MANY_RESETS - 1) > f64::from(STRICT_BURST));
    assert!(allowed(MANY_RESETS) <= f64::from(STRICT_BURST));
}
