use std::time::Duration;

use leno_http2::fields::Known;

use crate::downstream::client::Speaks;
use crate::downstream::origin::{Door, Origin};
use crate::effect::Effect;
use crate::fixtures::{call, connect, mesh_of, outbound, relay, service};
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

/// Lets ns/shop/sa/web tap the workload.
const TAPS: &str = "
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: taps, namespace: shop}
spec: {ports: [4190], allow: [{identities: [ns/shop/sa/web]}]}
";

#[test]
fn a_drain_ends_open_taps_and_lets_no_tap_begin_and_other_calls_stay() {
    let mut relay = relay(1, mesh_of(TAPS.to_owned() + &service("cart", &["10.0.0.9"])), false);
    relay.settings.tap_port = Some(4190);
    let origin = |port| {
        let local = (std::net::Ipv4Addr::new(10, 0, 0, 9), port).into();
        let peer = "10.0.1.1:40000".parse().expect("an address");
        Origin { door: Door::Inbound, peer, local, original_destination: Some(local) }
    };
    let web = || Some("spiffe://example.org/ns/shop/sa/web".parse().expect("an id"));
    let request = |path: &str| format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").into_bytes();
    let tap = call(&mut relay, 0, origin(4190), web(), request("/tap"));
    call(&mut relay, 1, origin(8080), web(), request("/orders"));
    assert_eq!(relay.calls.iter().count(), 2);
    relay.begin_drain(relay.now + Duration::from_secs(60));
    assert_eq!(
        relay.calls.iter().map(|(_, call)| call.request.get(Known::Path)).collect::<Vec<_>>(),
        [Some(&b"/orders"[..])]
    );
    let answer = |relay: &mut crate::Relay, client| {
        let link = relay.link(LinkId::Client(client)).expect("it is open");
        String::from_utf8_lossy(link.codec.output()).into_owned()
    };
    assert!(answer(&mut relay, tap).contains("its taps with it"), "{}", answer(&mut relay, tap));
    let late = call(&mut relay, 2, origin(4190), web(), request("/tap"));
    assert!(answer(&mut relay, late).contains("its taps with it"), "{}", answer(&mut relay, late));
}

#[test]
fn a_request_that_is_on_its_way_when_the_drain_begins_is_answered() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let origin = outbound();
    let [late, idle] = [0, 1].map(|number| {
        let client = connect(&mut relay, number, origin, None, (Speaks::Http1, Vec::new()));
        relay.begin_read(LinkId::Client(client));
        client
    });
    relay.begin_drain(relay.now + Duration::from_secs(60));
    relay.receive(LinkId::Client(late), b"POST / HTTP/1.1\r\nhost: cart.shop\r\ncontent-length: 0\r\n\r\n");
    relay.dispatch();
    assert_eq!(relay.calls.iter().count(), 1);
    let begun = relay.now;
    while relay.link(LinkId::Client(idle)).is_some() {
        relay.set_now(relay.now + SWEEP_EVERY);
        relay.sweep();
        while let Some(id) = relay.next_dirty() {
            relay.flushed(id);
        }
        assert!(
            relay.now - begun < GOAWAY_GRACE + Duration::from_secs(2),
            "a client without a request keeps its connection open"
        );
    }
    assert!(relay.link(LinkId::Client(late)).is_some());
}
