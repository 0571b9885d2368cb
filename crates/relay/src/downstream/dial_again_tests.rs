use super::*;
use crate::downstream::client::{ClientId, Speaks};
use crate::downstream::origin::Origin;
use crate::fixtures::{begin_connections, call, connect, http2_caller, mesh_of, outbound, read, relay, service};
use crate::link::LinkId;

/// An address that belongs to no Service.
const GONE: &str = "10.0.0.7:50051";

fn to(address: &str) -> Origin {
    Origin { original_destination: Some(address.parse().expect("an address")), ..outbound() }
}

fn refuse_connections(relay: &mut Relay) {
    for (upstream, _) in begin_connections(relay) {
        relay.close_upstream(upstream, "nothing listens");
    }
    relay.dispatch();
}

/// Makes an HTTP/1 call to `address` on a connection of this age, lets nothing listen there, and returns the answer.
fn answer_of_dead(address: &str, age: Duration) -> String {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let client = connect(&mut relay, 0, to(address), None, (Speaks::Http1, Vec::new()));
    relay.begin_read(LinkId::Client(client));
    relay.set_now(relay.now + age);
    relay.receive(LinkId::Client(client), b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    relay.dispatch();
    refuse_connections(&mut relay);
    let link = relay.link(LinkId::Client(client)).expect("it is open");
    String::from_utf8_lossy(link.codec.output()).to_ascii_lowercase()
}

#[test]
fn a_connection_to_an_address_that_has_died_ends_so_that_the_application_dials_again() {
    let answer = answer_of_dead(GONE, DIAL_AGAIN_AFTER);
    assert!(answer.starts_with("http/1.1 502 ") && answer.contains("connection: close"), "{answer}");
    // The application has just dialled: it would only dial the same address again.
    let answer = answer_of_dead(GONE, DIAL_AGAIN_AFTER / 2);
    assert!(answer.starts_with("http/1.1 502 ") && !answer.contains("connection: close"), "{answer}");
}

#[test]
fn a_grpc_client_of_an_address_that_has_died_gets_goaway() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let request = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "cart.shop"),
        (":path", "/a.B/C"),
        ("content-type", "application/grpc"),
    ];
    let (mut caller, _) = http2_caller(relay.now, &request);
    let client: ClientId = connect(&mut relay, 0, to(GONE), None, (Speaks::Http2, caller.output().to_vec()));
    relay.set_now(relay.now + DIAL_AGAIN_AFTER);
    relay.begin_read(LinkId::Client(client));
    relay.dispatch();
    refuse_connections(&mut relay);
    let output = relay.link(LinkId::Client(client)).expect("it is open").codec.output().to_vec();
    assert!(read(&mut caller, relay.now, &output).is_some(), "the call is answered");
    assert!(caller.goaway_received().is_some(), "the client opens no more calls here");
}

#[test]
fn a_connection_to_a_service_stays_although_its_endpoint_has_died() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let client = call(&mut relay, 0, outbound(), None, b"GET / HTTP/1.1\r\nhost: cart.shop\r\n\r\n".to_vec());
    relay.set_now(relay.now + DIAL_AGAIN_AFTER);
    refuse_connections(&mut relay);
    let link = relay.link(LinkId::Client(client)).expect("it is open");
    let answer = String::from_utf8_lossy(link.codec.output()).to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 502 ") && !answer.contains("connection: close"), "{answer}");
}
