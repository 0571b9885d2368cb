use std::time::Duration;

use super::*;
use crate::downstream::client::Speaks;
use crate::downstream::origin::{Door, Origin};
use crate::fixtures::{call, connect, connect_endpoint, flush, http2_caller, mesh_of, outbound, relay, service, sweep};
use crate::link::LinkId;

const ASKED: &str = "GET / HTTP/1.1\r\nhost: cart.shop:80\r\n\r\n";
const ENDPOINTS: [&str; 3] = ["10.0.0.7", "10.0.0.8", "10.0.0.9"];

fn response(status: &str, fields: &str) -> String {
    format!("HTTP/1.1 {status} -\r\n{fields}content-length: 0\r\n\r\n")
}

/// Returns a relay whose first client has got this response to this request, the client, and the connection to the
/// server.
fn answered(endpoints: &[&str], request: &str, response: &str) -> (Relay, ClientId, UpstreamId) {
    let mut relay = relay(1, mesh_of(service("cart", endpoints)), false);
    let client = call(&mut relay, 0, outbound(), None, request.as_bytes().to_vec());
    let upstream = connect_endpoint(&mut relay);
    relay.receive(LinkId::Endpoint(upstream), response.as_bytes());
    flush(&mut relay, LinkId::Client(client));
    (relay, client, upstream)
}

/// Returns how many calls were sent on a connection.
fn calls_on(relay: &Relay, upstream: UpstreamId) -> u64 {
    relay.pools.upstream(upstream).expect("it is open").calls
}

#[test]
fn a_connection_with_ntlm_carries_the_calls_of_its_client_and_no_others() {
    let (mut relay, alice, upstream) = answered(&ENDPOINTS, ASKED, &response("401", "www-authenticate: NTLM\r\n"));
    for number in 1..=6 {
        call(&mut relay, number, outbound(), None, ASKED.as_bytes().to_vec());
    }
    assert_eq!(calls_on(&relay, upstream), 1);
    // The balancer alone would choose different endpoints.
    for calls in 2..=6 {
        relay.receive(LinkId::Client(alice), ASKED.as_bytes());
        relay.dispatch();
        flush(&mut relay, LinkId::Endpoint(upstream));
        assert_eq!(calls_on(&relay, upstream), calls);
        relay.receive(LinkId::Endpoint(upstream), response("200", "").as_bytes());
        flush(&mut relay, LinkId::Client(alice));
    }
    relay.close_client(alice);
    call(&mut relay, 7, outbound(), None, ASKED.as_bytes().to_vec());
    assert_eq!(calls_on(&relay, upstream), 6, "the server still takes it for its client");
    sweep(&mut relay, Duration::from_secs(1));
    assert!(relay.pools.upstream(upstream).is_none());
}

#[test]
fn only_schemes_that_authenticate_a_connection_make_it_private() {
    let credentials = |value: &str| ASKED.replace("\r\n\r\n", &format!("\r\nauthorization: {value}\r\n\r\n"));
    for (request, response, is_private) in [
        (ASKED.to_owned(), response("401", "WWW-Authenticate: Basic realm=\"a, b\", negotiate\r\n"), true),
        (ASKED.to_owned(), response("407", "proxy-authenticate: NTLM TlRMTVNTUAAC\r\n"), true),
        (ASKED.to_owned(), response("401", "www-authenticate: Basic realm=\"NTLM\"\r\n"), false),
        (credentials("Negotiate YII="), response("200", ""), true),
        (credentials("Bearer NTLM"), response("200", ""), false),
    ] {
        let (mut relay, _, upstream) = answered(&["10.0.0.9"], &request, &response);
        call(&mut relay, 1, outbound(), None, ASKED.as_bytes().to_vec());
        assert_eq!(calls_on(&relay, upstream) == 1, is_private, "{request}{response}");
    }
}

#[test]
fn a_connection_with_ntlm_carries_no_further_call_of_a_proxy_that_forwards_many_clients() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    let application = "10.0.0.9:8080".parse().expect("an address");
    let origin = Origin { door: Door::Inbound, original_destination: Some(application), ..outbound() };
    let proxy = Some("spiffe://example.org/ns/shop/sa/web".parse().expect("an id"));
    let request =
        [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/"), ("leno-orig-proto", "HTTP/1.1")];
    let (mut caller, _) = http2_caller(relay.now, &request);
    let client = connect(&mut relay, 0, origin, proxy, (Speaks::Http2, caller.output().to_vec()));
    relay.begin_read(LinkId::Client(client));
    relay.dispatch();
    let upstream = connect_endpoint(&mut relay);
    relay.receive(LinkId::Endpoint(upstream), response("401", "www-authenticate: NTLM\r\n").as_bytes());
    assert!(relay.pools.upstream(upstream).is_none_or(|upstream| upstream.retired));
}
