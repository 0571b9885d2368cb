use super::*;
use crate::downstream::client::Speaks;
use crate::effect::Effect;
use crate::fixtures::{client, connect_endpoint, is_open};

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
