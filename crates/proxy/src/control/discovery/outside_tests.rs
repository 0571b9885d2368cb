use leno_model::mesh::ClusterKey;
use leno_model::proxy::CLUSTER_NETWORKS;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(4);

fn outside(now: Instant) -> Outside {
    let networks = CLUSTER_NETWORKS.split(',').map(|network| network.parse().expect("a network"));
    Outside::new(networks.collect(), TIMEOUT, now)
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn ask(outside: &mut Outside, at: &str, now: Instant) {
    outside.note_question(&Subject::Address(address(at)), now);
}

#[test]
fn an_address_in_a_cluster_network_always_needs_its_answer() {
    let now = Instant::now();
    let mut outside = outside(now);
    for inside in ["10.1.2.3:80", "100.64.0.1:80", "172.31.0.1:80", "192.168.7.7:80", "[fd00::1]:80", "[fdff::1]:80"] {
        ask(&mut outside, inside, now);
    }
    let service = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
    outside.note_question(&Subject::Service(service), now);
    outside.note_question(&Subject::Inbound, now);
    assert_eq!(outside.due(), None);
    for at in ["52.95.110.1:443", "100.128.0.1:80", "172.32.0.1:80", "[2001:db8::1]:443", "169.254.169.254:80"] {
        ask(&mut outside, at, now);
        assert_eq!(outside.take_due(now + AWAY_AFTER), [address(at)]);
    }
}

#[test]
fn a_mapped_address_is_in_the_network_of_its_ipv4_address() {
    let now = Instant::now();
    let mut outside = outside(now);
    ask(&mut outside, "[::ffff:10.1.2.3]:80", now);
    assert_eq!(outside.due(), None);
}

#[test]
fn a_question_waits_shortly_for_a_stream_that_has_just_ended_and_not_for_one_that_is_long_gone() {
    let began = Instant::now();
    let mut outside = outside(began);
    outside.note_stream();
    let ended = began + Duration::from_secs(60);
    outside.note_end_of_stream(ended);
    // Failed attempts to connect do not prolong the wait.
    outside.note_end_of_stream(ended + Duration::from_secs(1));
    let asked = ended + Duration::from_millis(500);
    ask(&mut outside, "192.0.2.1:443", asked);
    assert_eq!(outside.due(), Some(ended + AWAY_AFTER));
    assert!(outside.take_due(asked).is_empty());
    assert_eq!(outside.take_due(ended + AWAY_AFTER), [address("192.0.2.1:443")]);
    assert_eq!(outside.due(), None);

    let later = ended + Duration::from_secs(10);
    ask(&mut outside, "192.0.2.2:443", later);
    assert_eq!(outside.take_due(later), [address("192.0.2.2:443")]);
}

#[test]
fn on_a_stream_that_may_be_dead_a_question_waits_almost_as_long_as_its_calls() {
    let now = Instant::now();
    let mut outside = outside(now);
    outside.note_stream();
    ask(&mut outside, "192.0.2.1:443", now);
    ask(&mut outside, "192.0.2.2:443", now + Duration::from_secs(1));
    assert_eq!(outside.due(), Some(now + ANSWER_MAX));
    assert_eq!(outside.take_due(now + ANSWER_MAX), [address("192.0.2.1:443")]);
    assert_eq!(outside.due(), Some(now + Duration::from_secs(1) + ANSWER_MAX));
}

#[test]
fn the_questions_are_bounded_and_the_first_assumption_of_an_absence_is_known() {
    let now = Instant::now();
    let mut outside = outside(now);
    for _ in 0..QUESTIONS_MAX + 10 {
        ask(&mut outside, "192.0.2.1:443", now);
    }
    assert_eq!(outside.take_due(now + AWAY_AFTER).len(), QUESTIONS_MAX);
    assert!(outside.begins_to_assume() && !outside.begins_to_assume());
    outside.note_stream();
    assert!(outside.begins_to_assume());
}
