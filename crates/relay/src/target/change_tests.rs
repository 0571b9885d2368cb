use leno_model::mesh::Draft;

use super::*;
use crate::downstream::client::ClientId;
use crate::downstream::origin::{Door, Origin};
use crate::effect::Effect;
use crate::fixtures::{begin_connections, call, mesh_of, relay, service};

/// An address without a Service.
const ADDRESS: &str = "10.0.0.7:80";

/// Makes a call of the application to a Service or to an address, on the connection with this number.
fn call_to(relay: &mut Relay, number: u32, host: &str) -> ClientId {
    let here = "127.0.0.1:4140".parse().expect("an address");
    let origin = Origin { door: Door::Outbound, peer: here, local: here, original_destination: host.parse().ok() };
    call(relay, number, origin, None, format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n").into_bytes())
}

/// Returns whether the next call of a client to the same authority needs no lookup.
fn remembers_target(relay: &Relay, client: ClientId) -> bool {
    let latest = relay.downstreams.get(client).expect("it is open").latest_target.as_ref();
    latest.is_some_and(|latest| latest.mesh_version == relay.targets.version())
}

/// Returns a relay with a client that calls a Service, and a client that calls an address.
fn relay_with_two_clients() -> (Relay, [ClientId; 2]) {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let clients = [(0, "cart.shop:80"), (1, ADDRESS)].map(|(number, host)| call_to(&mut relay, number, host));
    assert_eq!(clients.map(|client| remembers_target(&relay, client)), [true, true]);
    (relay, clients)
}

/// Establishes the connections to endpoints that the relay has requested, except those to [`ADDRESS`], which fail.
fn establish_connections(relay: &mut Relay) {
    for (upstream, address) in begin_connections(relay) {
        match address.to_string() == ADDRESS {
            true => relay.close_upstream(upstream, "nothing listens"),
            false => relay.connected(upstream),
        }
    }
    relay.serve_waiting();
}

#[test]
fn a_removed_service_with_a_call_does_not_report_for_the_service_that_replaces_it() {
    let cart = || mesh_of(service("cart", &["10.0.0.9"]));
    let mut relay = relay(1, cart(), false);
    // The address has the first place among the clusters. The new Service then gets this place, so that a sweep reaches
    // the removed Service last.
    let of_address = call_to(&mut relay, 0, ADDRESS);
    call_to(&mut relay, 1, "cart.shop:80");
    relay.close_client(of_address);
    establish_connections(&mut relay);
    relay.forget_idle_addresses();
    relay.set_mesh(&Arc::new(mesh_of(service("other", &["10.0.0.8"]))));
    relay.set_mesh(&Arc::new(cart()));
    call_to(&mut relay, 2, "cart.shop:80");
    establish_connections(&mut relay);
    let standings: Vec<_> = relay.targets.iter().map(|(_, state)| state.standing()).collect();
    assert_eq!(standings, [Standing::Known, Standing::Removed]);
    for _ in 0..10 {
        relay.set_now(relay.now + crate::SWEEP_EVERY);
        relay.sweep();
    }
    let key = ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 };
    assert_eq!(relay.metrics.endpoints(&key).ready.get(), 1);
}

/// Returns the identity of the proxy to which calls to [`ADDRESS`] go; `None` if they go in clear.
fn proxy_at_address(relay: &Relay) -> Option<String> {
    let target = TargetKey::Address(ADDRESS.parse().expect("an address"));
    let state = relay.targets.get(relay.targets.find(&target)).expect("it has a call");
    state.cluster.endpoints[0].proxy.as_ref().map(|proxy| proxy.identity.to_string())
}

/// Returns the cluster of a Service whose only endpoint has a proxy, and the address [`ADDRESS`].
fn proxied() -> Arc<Cluster> {
    let proxied = "annotations: {leno.dev/identity: ns/other/sa/other, leno.dev/inbound-port: '30666'}, labels:";
    let manifests = service("other", &["10.0.0.7"]).replace("8080", "80").replace("labels:", proxied);
    Arc::clone(&mesh_of(manifests).clusters()[0])
}

/// The EndpointSlice of any Service that the application calls may list the address.
#[test]
fn calls_to_an_address_go_to_the_endpoint_of_the_service_that_the_answer_about_the_address_names() {
    let cluster = proxied();
    let address: SocketAddr = ADDRESS.parse().expect("an address");
    let mut draft = Draft::new("default");
    draft.set_cluster(&cluster.key, Some(cluster.clone()));
    draft.set_answered(&Subject::Address(address), true);
    let mut relay = relay(1, draft.mesh().clone(), true);
    draft.take();
    call_to(&mut relay, 0, ADDRESS);
    assert_eq!(proxy_at_address(&relay), None, "the answer names no Service");

    for (named, expected) in [(Some(&cluster.key), Some("ns/other/sa/other")), (None, None)] {
        draft.set_address(address, named, false);
        let (mesh, changes) = draft.take();
        relay.change_mesh(&mesh, &changes);
        assert_eq!(proxy_at_address(&relay).as_deref(), expected);
    }
}

/// Returns whether each connection that the relay has requested uses mutual TLS.
fn requested_connections(relay: &mut Relay) -> Vec<bool> {
    let effects = relay.take_effects().into_iter();
    let connections = effects.filter_map(|effect| match effect {
        Effect::Connect { tls, .. } => Some(tls.is_some()),
        _ => None,
    });
    connections.collect()
}

/// Another Service may begin to list the address of an endpoint with a proxy. The answer about the address then names
/// this Service before the proxy knows the Service's endpoints.
#[test]
fn a_call_that_waits_for_a_connection_stays_encrypted_while_a_new_answer_about_its_address_is_incomplete() {
    let address: SocketAddr = ADDRESS.parse().expect("an address");
    let subject = Subject::Address(address);
    let cluster = proxied();
    let alpha = Cluster { key: ClusterKey { service: "alpha".into(), ..cluster.key.clone() }, ..(*cluster).clone() };
    for is_whole in [false, true] {
        let mut draft = Draft::new("default");
        draft.set_cluster(&cluster.key, Some(cluster.clone()));
        draft.set_address(address, Some(&cluster.key), false);
        draft.set_answered(&subject, true);
        let mut relay = relay(1, draft.mesh().clone(), true);
        draft.take();
        call_to(&mut relay, 0, ADDRESS);
        assert_eq!(requested_connections(&mut relay), [true]);

        draft.set_address(address, Some(&alpha.key), false);
        draft.set_answered(&subject, false);
        for is_complete in [false, true] {
            if is_complete {
                draft.set_cluster(&alpha.key, Some(Arc::new(alpha.clone())));
                draft.set_answered(&subject, true);
            }
            let (mesh, changes) = draft.take();
            match is_whole {
                true => relay.set_mesh(&mesh),
                false => relay.change_mesh(&mesh, &changes),
            }
            relay.dispatch();
            assert!(requested_connections(&mut relay).is_empty(), "{is_whole} {is_complete}");
            assert_eq!(proxy_at_address(&relay).as_deref(), Some("ns/other/sa/other"), "{is_whole} {is_complete}");
        }
        assert_eq!(relay.calls.len(), 1);
    }
}

#[test]
fn an_address_that_the_control_plane_forgets_costs_other_clients_no_lookup() {
    let (mut relay, clients) = relay_with_two_clients();
    let mesh = relay.targets.mesh().clone();
    let address = Subject::Address(ADDRESS.parse().expect("an address"));
    relay.change_mesh(&mesh, &Changes { forgotten: [address].into(), ..Changes::default() });
    assert_eq!(clients.map(|client| remembers_target(&relay, client)), [true, false]);
}

#[test]
fn an_address_that_no_call_uses_costs_other_clients_no_lookup() {
    let (mut relay, [of_service, of_address]) = relay_with_two_clients();
    relay.take_effects();
    let gone = call_to(&mut relay, 2, "10.0.0.8:80");
    relay.close_client(gone);
    for (upstream, _) in begin_connections(&mut relay) {
        relay.close_upstream(upstream, "nothing listens");
    }
    let count = relay.targets.iter().count();
    relay.forget_idle_addresses();
    assert_eq!(relay.targets.iter().count(), count - 1, "only the address without calls is forgotten");
    assert!(remembers_target(&relay, of_service) && remembers_target(&relay, of_address));
}
