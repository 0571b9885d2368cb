use super::*;

const STRANGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

fn doors(outbound: u32, inbound: u32, identified: u32) -> Doors {
    Doors::new(&RelayLimits {
        max_outbound_connections: outbound,
        max_inbound_connections: inbound,
        max_identified_connections: identified,
        ..RelayLimits::default()
    })
}

fn id(account: &str) -> SpiffeId {
    format!("spiffe://example.org/ns/shop/sa/{account}").parse().expect("an id")
}

#[test]
fn silent_connections_of_others_take_no_place_of_the_own_applications() {
    let mut doors = doors(2, 2, 2);
    for index in 0..10 {
        doors.enter(Door::Inbound, STRANGER, WireId::numbered(index)).expect("a silent one yields");
    }
    for index in 10..12 {
        assert_eq!(doors.enter(Door::Outbound, STRANGER, WireId::numbered(index)), Ok(None));
    }
}

#[test]
fn the_oldest_silent_connection_yields_and_one_that_has_spoken_stays() {
    let mut doors = doors(1, 2, 1);
    doors.enter(Door::Inbound, OTHER, WireId::numbered(0)).expect("a place");
    doors.settle(WireId::numbered(0));
    doors.enter(Door::Tunnel, STRANGER, WireId::numbered(1)).expect("a place");
    let replaced = doors.enter(Door::Inbound, STRANGER, WireId::numbered(2));
    assert_eq!(replaced, Ok(Some(WireId::numbered(1))));
}

#[test]
fn a_client_with_a_certificate_leaves_its_place_to_strangers_and_counts_for_its_identity() {
    let mut doors = doors(1, 1, 3);
    for (index, account) in [(0, "web"), (1, "web"), (2, "web"), (3, "cart")] {
        let wire = WireId::numbered(index);
        doors.enter(Door::Inbound, STRANGER, wire).expect("a place");
        let replaced = doors.identify(wire, &id(account));
        assert_eq!(replaced, Ok((index == 3).then(|| WireId::numbered(0))), "the identity with the most yields");
    }
    doors.enter(Door::Inbound, STRANGER, WireId::numbered(4)).expect("a place");
    assert_eq!(doors.identify(WireId::numbered(4), &id("web")), Err(Full), "it holds the most itself");
}

#[test]
fn a_place_is_free_when_its_connection_has_ended() {
    let mut doors = doors(1, 1, 1);
    let first = WireId::numbered(0);
    doors.enter(Door::Outbound, STRANGER, first).expect("a place");
    doors.settle(first);
    assert_eq!(doors.enter(Door::Outbound, STRANGER, WireId::numbered(1)), Err(Full));
    doors.leave(first);
    assert!(doors.enter(Door::Outbound, STRANGER, WireId::numbered(1)).is_ok());
}
