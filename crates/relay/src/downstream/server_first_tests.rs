use super::*;
use crate::downstream::client::Speaks;
use crate::downstream::origin::Origin;
use crate::fixtures::{connect, connect_endpoint, mesh_of, outbound, relay, service};
use crate::link::LinkId;

fn destination(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

#[test]
fn a_destination_is_known_until_it_is_forgotten_or_was_not_used_for_long() {
    let now = Instant::now();
    let mut known = ServerFirst::default();
    known.remember(destination(1), now);
    known.remember(destination(2), now);
    known.forget(destination(2));
    assert!(known.knows(destination(1), now + REMEMBERED_FOR - Duration::from_secs(1)));
    assert!(!known.knows(destination(1), now + REMEMBERED_FOR));
    assert!(!known.knows(destination(2), now));
}

#[test]
fn the_destination_that_was_used_longest_ago_is_forgotten_first() {
    let now = Instant::now();
    let mut known = ServerFirst::default();
    for (age, port) in (0..MAX_REMEMBERED as u64).zip(1..) {
        known.remember(destination(port), now + Duration::from_millis(age));
    }
    let later = now + Duration::from_secs(1);
    known.remember(destination(1), later);
    known.remember(destination(9_999), later);
    assert_eq!(known.last_used.len(), MAX_REMEMBERED);
    assert!(known.knows(destination(1), later) && known.knows(destination(9_999), later));
    assert!(!known.knows(destination(2), later));
}

#[test]
fn the_end_of_a_client_that_has_sent_nothing_reaches_a_server_that_still_may_speak() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let origin = Origin { original_destination: Some(destination(13)), ..outbound() };
    let client = LinkId::Client(connect(&mut relay, 0, origin, None, (Speaks::Nothing, Vec::new())));
    assert!(relay.begin_read(client).is_some());
    relay.receive_end(client);
    relay.dispatch();
    let server = LinkId::Endpoint(connect_endpoint(&mut relay));
    assert!(relay.link(server).expect("it is open").is_finished());
    relay.receive(server, b"Thursday\r\n");
    assert_eq!(relay.link(client).expect("it is open").output(), b"Thursday\r\n");
}
