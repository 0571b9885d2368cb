use leno_model::mesh::Mesh;

use super::*;
use crate::downstream::client::{Accepted, Speaks};
use crate::downstream::origin::Door;
use crate::fixtures::relay;
use crate::link::LinkId;
use crate::slots::Id;

/// The origin of a connection that netfilter redirected, and about whose destination nothing is known.
fn unknown() -> Origin {
    let here = "127.0.0.1:4140".parse().expect("an address");
    let destination = "10.96.0.7:80".parse().expect("an address");
    Origin { door: Door::Outbound, peer: here, local: here, original_destination: Some(destination) }
}

fn questions(relay: &mut Relay) -> usize {
    relay.take_effects().iter().filter(|effect| matches!(effect, Effect::Ask(_))).count()
}

#[test]
fn each_connection_is_left_unread_and_each_call_on_it_fails_after_its_own_time() {
    let mut relay = relay(1, Mesh::empty().answering([]), true);
    let (origin, start) = (unknown(), relay.now);
    let pass_to = |relay: &mut Relay, ms| relay.set_now(start + Duration::from_millis(ms));
    assert!(relay.asks_first(&origin));
    pass_to(&mut relay, 3_000);
    let second = relay.now;
    assert!(relay.asks_first(&origin));
    assert_eq!(questions(&mut relay), 1, "both wait for the same answer");

    pass_to(&mut relay, 4_500);
    assert!(!relay.awaits_answer(&origin, start) && relay.awaits_answer(&origin, second));
    pass_to(&mut relay, 5_000);
    relay.sweep_questions();
    assert_eq!(questions(&mut relay), 1, "the second connection still waits, so the relay asks again");
    pass_to(&mut relay, 7_499);
    assert!(relay.awaits_answer(&origin, second));
    pass_to(&mut relay, 7_500);
    assert!(!relay.awaits_answer(&origin, second));

    let client = relay.add_client(Accepted {
        wire: Id::numbered(0),
        origin,
        target: origin.original_destination,
        peer_id: None,
        has_tls: false,
        speaks: Speaks::Http1,
        first: b"GET / HTTP/1.1\r\nhost: cart\r\n\r\n".to_vec(),
        opened: relay.now,
        held_since: Some(second),
    });
    relay.begin_read(LinkId::Client(client));
    pass_to(&mut relay, 7_999);
    relay.sweep_questions();
    assert_eq!(relay.calls.len(), 1);
    pass_to(&mut relay, 8_000);
    relay.sweep_questions();
    assert_eq!((relay.calls.len(), relay.questions.subjects().count()), (0, 0));
    let link = relay.link(LinkId::Client(client)).expect("it is open");
    let answer = String::from_utf8_lossy(link.codec.output()).into_owned();
    assert!(answer.contains("leno-proxy-error: unanswered") && answer.contains("within 5000 ms"), "{answer}");
}
