use leno_http2::Event;
use leno_model::mesh::Mesh;

use super::*;
use crate::downstream::client::Speaks;
use crate::downstream::origin::Origin;
use crate::effect::Effect;
use crate::fixtures::{TO_CART, call, connect, http2_caller, inbound, mesh_of, outbound, relay, service};
use crate::link::LinkId;
use crate::link::opaque::Contents;

#[test]
fn an_upgrade_to_http_is_recognised_in_any_case_and_among_others() {
    for asked in [&b"h2c"[..], b"H2C", b"websocket, h2c", b" h2c ,foo", b"h2c-14", b"HTTP/2.0", b"foo,tls/1.2"] {
        assert!(asks_for_http(asked), "{}", asked.escape_ascii());
    }
    for asked in [&b"websocket"[..], b"WebSocket/13", b"httpx", b"h", b""] {
        assert!(!asks_for_http(asked), "{}", asked.escape_ascii());
    }
}

#[test]
fn no_caller_opens_a_tunnel_of_http2_by_the_field_with_which_proxies_carry_upgrades() {
    let mut relay = relay(1, Mesh::empty(), false);
    let address = "10.0.0.9:8080".parse().expect("an address");
    let origin = Origin { door: Door::Inbound, peer: address, local: address, original_destination: Some(address) };
    let proxy = Some("spiffe://example.org/ns/shop/sa/web".parse().expect("an id"));
    for (number, identity, upgrade, carried) in [
        (0, proxy.clone(), "websocket", Some("websocket")),
        (1, proxy.clone(), "h2c", None),
        (2, proxy, "websocket, H2C", None),
        (3, None, "websocket", None),
    ] {
        let client = connect(&mut relay, number, origin, identity, (Speaks::Http2, Vec::new()));
        let client = relay.downstreams.get(client).expect("it is open");
        let mut request = FieldSection::new();
        for (name, value) in [(":method", "GET"), ("leno-orig-proto", "HTTP/1.1"), ("leno-upgrade", upgrade)] {
            request.push(name.as_bytes(), value.as_bytes());
        }
        protocol_of(client, &mut request);
        assert_eq!(request.get(Known::LenoUpgrade), carried.map(str::as_bytes), "{upgrade}");
    }
}

#[test]
fn identities_that_come_from_elsewhere_are_taken_off() {
    let mut fields = FieldSection::new();
    for (name, value) in [
        ("leno-client-id", "forged"),
        ("x-request-id", "1"),
        ("l5d-client-id", "forged"),
        ("leno-client-id", "again"),
        ("x-forwarded-client-cert", "forged"),
        ("leno_client_id", "forged"),
        ("leno-client_id", "forged"),
        ("leno.client.id", "forged"),
        ("leno+client~id", "forged"),
        ("x.forwarded.client.cert", "forged"),
        ("l5d_client_id", "forged"),
        ("x_forwarded_client_cert", "forged"),
    ] {
        fields.push(name.as_bytes(), value.as_bytes());
    }
    strip_identities(&mut fields);
    assert_eq!(fields.iter().map(|field| field.name).collect::<Vec<_>>(), [b"x-request-id"]);
}

#[test]
fn the_clients_address_is_written_as_one_field_line() {
    let client = "::ffff:10.0.0.7".parse().expect("an address");
    for (how, expected) in [
        (ForwardedFor::Keep, &["1.1.1.1", "", "2.2.2.2, 3.3.3.3"][..]),
        (ForwardedFor::Append, &["1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.7"]),
        (ForwardedFor::Set, &["10.0.0.7"]),
    ] {
        let mut fields = FieldSection::new();
        for value in ["1.1.1.1", "", "2.2.2.2, 3.3.3.3"] {
            fields.push(b"x-forwarded-for", value.as_bytes());
        }
        let twins = [&b"x_forwarded_for"[..], b"x.forwarded.for"];
        twins.iter().for_each(|twin| fields.push(twin, b"10.0.0.8"));
        how.write(client, &mut fields);
        let is_twin = |line: &FieldLine<'_>| twins.contains(&line.name);
        let kept = if how == ForwardedFor::Keep { twins.len() } else { 0 };
        assert_eq!(fields.iter().filter(is_twin).count(), kept, "{how:?}");
        let lines = fields.iter().filter(|line| !is_twin(line));
        let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.value).into_owned()).collect();
        assert_eq!(lines, expected, "{how:?}");
    }
}

/// Returns the `:authority` that the server gets if an HTTP/2 client sends these fields to 10.0.0.7:80.
fn forwarded_authority(sent: &[(&str, &str)]) -> Option<String> {
    let mut relay = relay(1, Mesh::empty(), false);
    let here = "127.0.0.1:4140".parse().expect("an address");
    let destination = "10.0.0.7:80".parse().expect("an address");
    let origin = Origin { door: Door::Outbound, peer: here, local: here, original_destination: Some(destination) };
    let request = [&[(":method", "GET"), (":scheme", "http"), (":path", "/")][..], sent].concat();
    let (mut caller, _) = http2_caller(relay.now, &request);
    let client = connect(&mut relay, 0, origin, None, (Speaks::Http2, caller.output().to_vec()));
    relay.begin_read(LinkId::Client(client));
    let (_, call) = relay.calls.iter().next().expect("a call");
    call.request.get(Known::Authority).map(|authority| String::from_utf8_lossy(authority).into_owned())
}

#[test]
fn a_request_without_an_authority_gets_its_host_or_the_name_of_its_target() {
    for (sent, authority) in [
        (&[("host", "cart.shop:8080")][..], "cart.shop:8080"),
        (&[(":authority", "cart.shop"), ("host", "web.shop")], "cart.shop"),
        (&[("host", "a@b")], "10.0.0.7"),
        (&[("host", "a b")], "10.0.0.7"),
        (&[("host", "")], "10.0.0.7"),
        (&[], "10.0.0.7"),
    ] {
        assert_eq!(forwarded_authority(sent).as_deref(), Some(authority), "{sent:?}");
    }
}

/// Returns the target of a call to the own address of an endpoint of the headless Service `cart`.
fn target_of_endpoint(speaks: Speaks, first: Vec<u8>) -> String {
    let manifests = service("cart", &["10.0.0.7", "10.0.0.8"]).replace("spec: {", "spec: {clusterIP: None, ");
    let mut relay = relay(1, mesh_of(manifests), false);
    let destination = "10.0.0.7:8080".parse().expect("an address");
    let origin = Origin { original_destination: Some(destination), ..outbound() };
    let client = connect(&mut relay, 0, origin, None, (speaks, first));
    relay.begin_read(LinkId::Client(client));
    let (_, call) = relay.calls.iter().next().expect("a call");
    relay.targets.get(call.cluster.expect("a cluster")).expect("its state").target.to_string()
}

#[test]
fn only_http2_calls_to_an_endpoint_of_a_headless_service_are_balanced() {
    let (mut caller, _) = http2_caller(std::time::Instant::now(), &TO_CART);
    assert_eq!(target_of_endpoint(Speaks::Http2, caller.output().to_vec()), "cart.shop:80");
    let scrape = b"GET /metrics HTTP/1.1\r\nhost: 10.0.0.7:8080\r\n\r\n".to_vec();
    assert_eq!(target_of_endpoint(Speaks::Http1, scrape), "10.0.0.7:8080");
    let opaque = Speaks::Opaque(Contents::Unknown);
    assert_eq!(target_of_endpoint(opaque, b"PING\r\n".to_vec()), "10.0.0.7:8080");
}

#[test]
fn no_tunnel_leads_to_a_port_that_speaks_http_only() {
    let mut relay = relay(1, Mesh::empty(), false);
    relay.settings.http_ports = "4190".parse().expect("a port");
    let sought = Sought { door: Door::Tunnel, target: None, local: [10, 0, 0, 9].into(), is_http2: true };
    let leads = |authority: &[u8]| relay.find_target(&sought, authority).is_ok();
    assert!(leads(b"10.0.0.9:8080") && !leads(b"10.0.0.9:4190"));
}

/// Returns whether the relay asks for a connection to an endpoint.
fn connects(relay: &mut Relay) -> bool {
    relay.take_effects().iter().any(|effect| matches!(effect, Effect::Connect { .. }))
}

/// In a tunnel, the application could read requests that the relay has not seen.
#[test]
fn no_client_opens_a_tunnel_to_the_application_by_connect() {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.9"])), false);
    for (number, fields) in [(0, ""), (1, "content-type: application/grpc\r\n")] {
        let request = format!("CONNECT cart:80 HTTP/1.1\r\nhost: cart:80\r\n{fields}\r\n");
        let smuggled = "GET /admin HTTP/1.1\r\nhost: cart\r\nleno-client-id: forged\r\n\r\n";
        let stranger = LinkId::Client(call(&mut relay, number, inbound(), None, (request + smuggled).into_bytes()));
        let output = relay.link(stranger).expect("its answer waits").output();
        let answer = String::from_utf8_lossy(output).into_owned();
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("leno-proxy-error: no-tunnel"), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        assert!(relay.calls.len() == 0 && !connects(&mut relay));
    }

    let proxy = Some("spiffe://example.org/ns/shop/sa/web".parse().expect("an id"));
    let request = [(":method", "CONNECT"), (":authority", "cart:80"), ("leno-orig-proto", "HTTP/1.1")];
    let (mut caller, _) = http2_caller(relay.now, &request);
    let client = connect(&mut relay, 2, inbound(), proxy, (Speaks::Http2, caller.output().to_vec()));
    relay.begin_read(LinkId::Client(client));
    relay.dispatch();
    let answer = relay.link(LinkId::Client(client)).expect("it is open").output().to_vec();
    let (mut input, mut fields, mut status) = (&answer[..], FieldSection::new(), None);
    while let Some(event) = caller.receive(relay.now, &mut input, &mut fields).expect("valid frames") {
        if matches!(event, Event::Headers { .. }) {
            status = fields.get(Known::Status).map(<[u8]>::to_vec);
        }
    }
    assert_eq!(status.as_deref(), Some(&b"405"[..]));
    assert!(relay.calls.len() == 0 && !connects(&mut relay));
}

#[test]
fn the_application_itself_and_clients_of_an_opaque_port_may_tunnel() {
    let connect_request = b"CONNECT cart:80 HTTP/1.1\r\nhost: cart:80\r\n\r\n";
    let squid = Some("10.0.0.7:3128".parse().expect("an address"));
    for (origin, speaks) in [
        (Origin { original_destination: squid, ..outbound() }, Speaks::Http1),
        (inbound(), Speaks::Opaque(Contents::Unknown)),
    ] {
        let mut relay = relay(1, Mesh::empty(), false);
        let client = connect(&mut relay, 0, origin, None, (speaks, connect_request.to_vec()));
        relay.begin_read(LinkId::Client(client));
        relay.dispatch();
        assert!(relay.calls.len() == 1 && connects(&mut relay));
    }
}
