use std::net::SocketAddr;

use leno_model::mesh::Mesh;

use super::*;
use crate::Speaks;
use crate::downstream::origin::{Door, Origin};
use crate::fixtures::{connect, relay};

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

/// Adds an HTTP/2 client with this address that holds `bytes`.
fn client(relay: &mut Relay, number: u32, address: [u8; 4], bytes: usize) -> ClientId {
    let peer = SocketAddr::from((address, 40_000));
    let application = SocketAddr::from(([10, 0, 0, 9], 8080));
    let origin = Origin { door: Door::Inbound, peer, local: application, original_destination: Some(application) };
    let id = connect(relay, number, origin, None, (Speaks::Http2, Vec::new()));
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
