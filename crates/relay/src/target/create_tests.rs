use leno_model::mesh::ClusterKey;
use leno_model::spiffe::SpiffeId;

use super::*;
use crate::downstream::client::ClientId;
use crate::downstream::origin::{Door, Origin};
use crate::fixtures::{begin_connections, call, mesh_of, outbound, relay, service};
use crate::metrics::{Direction, NoTlsReason, TargetLabel, TlsLabel, TrafficLabels};

const APPLICATION: &str = "10.0.0.9:8080";

fn workload(name: &str) -> SpiffeId {
    format!("spiffe://example.org/ns/shop/sa/{name}").parse().expect("an id")
}

/// A workload calls the application on a new connection with this number, and its call stays in flight.
fn call_of(relay: &mut Relay, number: u32, name: &str) -> ClientId {
    call_at(relay, number, name, APPLICATION)
}

/// A workload calls the application at one of its addresses, as [`call_of`] does.
fn call_at(relay: &mut Relay, number: u32, name: &str, address: &str) -> ClientId {
    let (peer, local) = ("10.0.1.1:40000".parse().expect("an address"), address.parse().expect("an address"));
    let origin = Origin { door: Door::Inbound, peer, local, original_destination: Some(local) };
    call(relay, number, origin, Some(workload(name)), b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec())
}

/// Returns whether a series has a holder besides the metrics themselves.
fn is_held(relay: &Relay, labels: &TrafficLabels) -> bool {
    // Two of the holders are the metrics and this test.
    Arc::strong_count(&relay.metrics.traffic(labels)) > 2
}

/// Returns whether the series of a workload's calls has a holder besides the metrics themselves.
fn has_series(relay: &Relay, name: &str) -> bool {
    let labels = TrafficLabels {
        direction: Direction::Inbound,
        target: TargetLabel::Port(8080),
        server: None,
        tls: TlsLabel::Mutual(workload(name)),
    };
    is_held(relay, &labels)
}

/// Returns a mesh with the Service `cart`, whose endpoints are Pods of this ReplicaSet.
fn mesh_with(replica_set: &str, endpoints: &[&str]) -> Mesh {
    let annotations = format!("annotations: {{leno.dev/controller: replicaset/{replica_set}}}, labels:");
    mesh_of(service("cart", endpoints).replace("labels:", &annotations))
}

/// The application calls the Service `cart` on a new connection with this number, and its call stays in flight.
fn call_to_cart(relay: &mut Relay, number: u32) -> ClientId {
    let origin = outbound();
    call(relay, number, origin, None, b"GET / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n".to_vec())
}

/// Returns whether the series of calls to a ReplicaSet of the Service `cart` has a holder besides the metrics
/// themselves.
fn has_series_of_replica_set(relay: &Relay, name: &str) -> bool {
    let key = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
    let labels = TrafficLabels {
        direction: Direction::Outbound,
        target: TargetLabel::Service(key),
        server: Some(format!("replicaset/{name}").parse().expect("a controller")),
        tls: TlsLabel::None(NoTlsReason::NotInMesh),
    };
    is_held(relay, &labels)
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

#[test]
fn a_busy_client_releases_the_series_of_endpoints_that_have_left() {
    let mut relay = relay(1, mesh_with("cart-1", &["10.0.0.1"]), false);
    let held_after_a_while = |relay: &mut Relay| {
        relay.now += RELEASE_EVERY;
        relay.release_traffic();
        ["cart-1", "cart-2"].map(|name| has_series_of_replica_set(relay, name))
    };
    let first = call_to_cart(&mut relay, 0);
    assert_eq!(held_after_a_while(&mut relay), [true, false]);

    relay.set_mesh(&Arc::new(mesh_with("cart-2", &["10.0.0.2"])));
    let second = call_to_cart(&mut relay, 1);
    assert_eq!(held_after_a_while(&mut relay), [true, true], "the first call is still in flight");
    relay.close_client(first);
    assert_eq!(held_after_a_while(&mut relay), [false, true]);

    // The endpoint keeps its series when the Service changes, although no call is in flight.
    relay.close_client(second);
    relay.set_mesh(&Arc::new(mesh_with("cart-2", &["10.0.0.2", "10.0.0.3"])));
    assert_eq!(held_after_a_while(&mut relay), [false, true]);
}

#[test]
fn a_port_that_the_application_serves_is_named_for_each_of_its_addresses() {
    const ADDRESSES: [&str; 2] = [APPLICATION, "[fd00::9]:8080"];
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    // So many ports have names that the application's port gets a name only once the application has accepted a
    // connection.
    (20_000..30_000).for_each(|port| relay.ports.name(port));
    for (number, address) in (0..).zip(ADDRESSES) {
        call_at(&mut relay, number, "web", address);
    }
    let named = |relay: &Relay| {
        ADDRESSES.map(|address| {
            let target = TargetKey::Local(address.parse().expect("an address"));
            relay.targets.find(&target).and_then(|id| relay.targets.get(id)).expect("it has a call").is_named()
        })
    };
    assert_eq!(named(&relay), [false, false]);
    for (upstream, _) in begin_connections(&mut relay) {
        relay.connected(upstream);
    }
    assert_eq!(named(&relay), [true, true]);
}
