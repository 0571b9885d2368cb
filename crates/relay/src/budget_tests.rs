use std::net::SocketAddr;

use leno_http2::StreamKey;
use leno_model::mesh::Mesh;
use leno_model::spiffe::SpiffeId;

use super::*;
use crate::Speaks;
use crate::call::attempt::Stage;
use crate::downstream::origin::{Door, Origin};
use crate::fixtures::{call, connect, mesh_of, outbound, relay, service};
use crate::pool::upstream::UpstreamId;

const MIB: usize = 1 << 20;

#[test]
fn windows_are_held_above_half_of_the_budget_until_enough_was_given_back() {
    let mut budget = Budget::new(8 * MIB);
    assert_eq!(budget.tightness_changed(4 * MIB), None);
    assert_eq!(budget.tightness_changed(4 * MIB + 1), Some(true));
    assert_eq!(budget.tightness_changed(7 * MIB), None, "it is told once");
    assert_eq!(budget.tightness_changed(3 * MIB + 1), None, "a little less is not enough");
    assert_eq!(budget.tightness_changed(3 * MIB), Some(false));
}

#[test]
fn a_charge_replaces_the_one_before() {
    let mut budget = Budget::new(MIB);
    budget.charge(0, 10);
    budget.charge(0, 5);
    budget.charge(10, 30);
    assert_eq!(budget.charged_bytes, 35);
    budget.charge(30, 0);
    budget.charge(5, 0);
    assert_eq!(budget.charged_bytes, 0);
}

#[test]
fn what_is_not_measured_is_at_most_an_eighth_of_the_budget_together() {
    let budget = Budget::new(16 * MIB);
    assert_eq!(budget.negligible_bytes(0), 2 * MIB);
    assert_eq!(budget.negligible_bytes(100), 20_971);
    for connections in [1, 100, 8_000, 100_000] {
        assert!(budget.negligible_bytes(connections) * connections <= 2 * MIB);
    }
}

/// Adds an HTTP/2 client with this address, and without a certificate, that holds `bytes`.
fn client(relay: &mut Relay, number: u32, address: [u8; 4], bytes: usize) -> ClientId {
    holding(relay, number, caller(address), None, bytes)
}

/// Returns the origin of a connection from another workload with this address.
fn caller(address: [u8; 4]) -> Origin {
    let peer = SocketAddr::from((address, 40_000));
    let application = SocketAddr::from(([10, 0, 0, 9], 8080));
    Origin { door: Door::Inbound, peer, local: application, original_destination: Some(application) }
}

/// Adds an HTTP/2 client with this origin and identity that holds `bytes`.
fn holding(relay: &mut Relay, number: u32, origin: Origin, identity: Option<SpiffeId>, bytes: usize) -> ClientId {
    let id = connect(relay, number, origin, identity, (Speaks::Http2, Vec::new()));
    let link = relay.link(LinkId::Client(id)).expect("it is open");
    let before = std::mem::replace(&mut link.charged_bytes, bytes);
    relay.budget.charge(before, bytes);
    id
}

#[test]
fn small_connections_stay_when_another_account_holds_more() {
    let mut relay = relay(1, Mesh::empty(), false);
    relay.budget.max_bytes = 12 * MIB;
    let mut numbers = 1..;
    let mut add = |address, bytes| client(&mut relay, numbers.next().expect("a number"), address, bytes);
    let large = [[10, 0, 1, 1], [10, 0, 1, 2], [10, 0, 1, 3]].map(|address| add(address, 8 * MIB));
    let small: Vec<_> = (0..40).map(|number| add([10, 0, 1, 1 + number % 3], 10)).collect();
    let mut relief = Relief::default();
    while relay.relieve(&mut relief) {}
    let are_open = |ids: &[ClientId]| ids.iter().filter(|id| relay.downstreams.get(**id).is_some()).count();
    assert_eq!((are_open(&large), are_open(&small)), (1, 40));
}

#[test]
fn a_large_caller_stays_when_another_namespace_holds_more_with_many_identities() {
    let mut relay = relay(1, Mesh::empty(), false);
    relay.budget.max_bytes = 12 * MIB;
    let mut numbers = 1..;
    let mut add = |workload: &str, bytes| {
        let identity = format!("spiffe://example.org/ns/{workload}").parse().expect("a SPIFFE id");
        holding(&mut relay, numbers.next().expect("a number"), caller([10, 0, 1, 1]), Some(identity), bytes)
    };
    let gateway = add("edge/sa/gateway", 5 * MIB);
    let crowd: Vec<_> = (0..40).map(|number| add(&format!("crowd/sa/{number}"), MIB / 4)).collect();
    let mut relief = Relief::default();
    while relay.relieve(&mut relief) {}
    assert!(relay.downstreams.get(gateway).is_some());
    let closed = crowd.iter().filter(|id| relay.downstreams.get(**id).is_none()).count();
    assert!((15..=20).contains(&closed), "{closed} of the crowd are closed");
}

#[test]
fn the_connections_of_equal_accounts_are_closed_in_turns_for_one_sum() {
    let mut relay = relay(1, Mesh::empty(), false);
    relay.budget.max_bytes = 8 * MIB;
    let mut numbers = 1..;
    let mut add = |address| client(&mut relay, numbers.next().expect("a number"), address, MIB / 16);
    let accounts = [[10, 0, 1, 1], [10, 0, 1, 2]].map(|address| (0..200).map(|_| add(address)).collect::<Vec<_>>());
    let left = |relay: &Relay| {
        [0, 1].map(|account: usize| accounts[account].iter().filter(|id| relay.downstreams.get(**id).is_some()).count())
    };
    for turn in 1..=2 {
        let mut relief = Relief::default();
        while relay.relieve(&mut relief) {}
        assert_eq!(relief.victims, VICTIMS_MAX);
        assert_eq!(left(&relay), [200 - turn * VICTIMS_MAX / 2; 2]);
        assert_eq!(relay.budget.sums, turn);
    }
}

#[test]
fn the_application_loses_connections_only_if_it_holds_more_than_half_of_the_budget() {
    for (bytes, is_spared) in [(3 * MIB, true), (6 * MIB, false)] {
        let mut relay = relay(1, Mesh::empty(), false);
        relay.budget.max_bytes = 8 * MIB;
        let own = holding(&mut relay, 1, outbound(), None, bytes);
        let callers = [[10, 0, 1, 1], [10, 0, 1, 2]].map(|address| client(&mut relay, 2, address, 5 * MIB / 2));
        let mut relief = Relief::default();
        while relay.relieve(&mut relief) {}
        let callers = callers.iter().filter(|id| relay.downstreams.get(**id).is_some()).count();
        assert_eq!((relay.downstreams.get(own).is_some(), callers), (is_spared, if is_spared { 1 } else { 2 }));
    }
}

#[test]
fn a_connection_that_has_ended_meanwhile_is_not_closed_again() {
    let mut relay = relay(1, Mesh::empty(), false);
    relay.budget.max_bytes = 8 * MIB;
    let [small, large, larger] =
        [(1, 4), (2, 5), (3, 6)].map(|(number, mib)| client(&mut relay, number, [10, 0, 1, 1], mib * MIB));
    let mut relief = Relief::default();
    assert!(relay.relieve(&mut relief));
    assert!(relay.downstreams.get(larger).is_none());
    relay.close_client(large);
    relay.budget.max_bytes = 4 * MIB;
    assert!(relay.relieve(&mut relief));
    assert!(relay.downstreams.get(small).is_none());
    assert!(!relay.relieve(&mut relief));
    assert_eq!(relief.victims, 2);
}

#[test]
fn content_is_charged_once_while_its_call_waits_and_twice_once_a_copy_is_kept() {
    const BYTES: usize = 10_000;
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let origin = outbound();
    let request = b"POST / HTTP/1.1\r\nhost: cart.shop:80\r\ncontent-length: 20000\r\n\r\n".to_vec();
    let link = LinkId::Client(call(&mut relay, 0, origin, None, request));
    relay.charge(link);
    let before = relay.held_bytes();
    relay.receive(link, &[0; BYTES]);
    relay.charge(link);
    let waiting = relay.held_bytes() - before;
    assert!((BYTES - 1_000..BYTES + 1_000).contains(&waiting), "{waiting} bytes");

    let id = relay.calls.iter().map(|(id, _)| id).next().expect("a call");
    let attempts = &mut relay.calls.get_mut(id).expect("a call").attempts;
    let sent = Stage::Sent(UpstreamId::numbered(0), StreamKey::numbered(1));
    attempts.iter_mut().for_each(|attempt| attempt.stage = sent);
    relay.calls.charge_body(id);
    assert_eq!(relay.held_bytes() - before, waiting + BYTES);
    relay.calls.end(id);
    assert_eq!(relay.calls.held_bytes(), 0);
}
