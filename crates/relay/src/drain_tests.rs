use std::time::Duration;

use crate::downstream::client::Speaks;
use crate::downstream::origin::{Door, Origin};
use crate::effect::Effect;
use crate::fixtures::{connect, mesh_of, relay, service};
use crate::link::LinkId;
use crate::{GOAWAY_GRACE, SWEEP_EVERY};

#[test]
fn a_server_may_speak_first_during_a_drain_and_a_connection_without_bytes_ends_in_order() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let here = "127.0.0.1:4140".parse().expect("an address");
    let destination = "10.0.0.7:9001".parse().expect("an address");
    let origin = Origin { door: Door::Outbound, peer: here, local: here, original_destination: Some(destination) };
    relay.begin_drain(relay.now + Duration::from_secs(60));
    assert!(relay.may_guess(&origin));
    let client = connect(&mut relay, 0, origin, None, (Speaks::Nothing, Vec::new()));
    assert!(relay.begin_read(LinkId::Client(client)).is_some());
    relay.shut_down_if_draining(client);
    let begun = relay.now;
    while relay.link(LinkId::Client(client)).is_some() {
        relay.set_now(relay.now + SWEEP_EVERY);
        relay.sweep();
        assert!(relay.now - begun < GOAWAY_GRACE + Duration::from_secs(2));
    }
    assert!(relay.now - begun >= GOAWAY_GRACE);
    assert!(!relay.take_effects().iter().any(|effect| matches!(effect, Effect::Abort(_))));
}
