use leno_model::spiffe::SpiffeId;

use super::*;
use crate::downstream::client::ClientId;
use crate::downstream::origin::{Door, Origin};
use crate::fixtures::{call, mesh_of, relay, service};
use crate::metrics::{Direction, TargetLabel, TlsLabel, TrafficLabels};

const APPLICATION: &str = "10.0.0.9:8080";

fn workload(name: &str) -> SpiffeId {
    format!("spiffe://example.org/ns/shop/sa/{name}").parse().expect("an id")
}

/// A workload calls the application on a new connection with this number, and its call stays in flight.
fn call_of(relay: &mut Relay, number: u32, name: &str) -> ClientId {
    let (peer, local) = ("10.0.1.1:40000".parse().expect("an address"), APPLICATION.parse().expect("an address"));
    let origin = Origin { door: Door::Inbound, peer, local, original_destination: Some(local) };
    call(relay, number, origin, Some(workload(name)), b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec())
}

/// Returns whether the series of a workload's calls has a holder besides the metrics themselves.
fn has_series(relay: &Relay, name: &str) -> bool {
    let labels = TrafficLabels {
        direction: Direction::Inbound,
        target: TargetLabel::Port(8080),
        server: None,
        tls: TlsLabel::Mutual(workload(name)),
    };
    // Two of the holders are the metrics and this test.
    Arc::strong_count(&relay.metrics.traffic(&labels)) > 2
}

#[test]
fn a_busy_server_releases_the_series_of_callers_that_have_left() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let clients = [(0, "web"), (1, "cart"), (2, "batch")].map(|(number, name)| call_of(&mut relay, number, name));
    relay.release_traffic();
    let held = |relay: &Relay| ["web", "cart", "batch"].map(|name| has_series(relay, name));
    assert_eq!(held(&relay), [true; 3]);

    relay.close_client(clients[1]);
    relay.now += RELEASE_EVERY;
    relay.release_traffic();
    assert_eq!(held(&relay), [true, false, true]);

    // The next caller gets the free index, and the other callers keep their indexes.
    let cluster = relay.targets.find(&TargetKey::Local(APPLICATION.parse().expect("an address"))).expect("a cluster");
    let place = |relay: &Relay, client| {
        let latest = relay
            .downstreams
            .get(client)
            .and_then(|client: &crate::downstream::client::Client| client.latest_target.as_ref());
        latest.and_then(|latest| latest.traffic)
    };
    let before = [0, 2].map(|number: usize| place(&relay, clients[number]));
    let late = call_of(&mut relay, 3, "late");
    assert_eq!((before, place(&relay, late)), ([Some(0), Some(2)], Some(1)));
    assert_eq!([0, 2].map(|number: usize| place(&relay, clients[number])), before);
    let state = relay.targets.get(cluster).expect("it has calls");
    let counted = |place: Option<u32>| state.traffic(place.expect("a place")).is_some();
    assert!(before.into_iter().all(counted));
}
