use super::*;
use crate::downstream::origin::{Door, Origin};
use crate::fixtures::{begin_connections, call, mesh_of, outbound, relay, service};
use crate::link::LinkId;

/// Returns the first line and the `host` of the request that an HTTP/1 server gets, if a client sends `request` on a
/// connection to `destination`. Returns the answer of the proxy if the server gets no request.
fn head_at_server(door: Door, destination: Option<&str>, request: &str) -> String {
    let manifests = service("cart", &["10.0.0.9"]);
    let mut relay = relay(1, mesh_of(manifests), false);
    let original_destination = destination.map(|address| address.parse().expect("an address"));
    let origin = Origin { door, original_destination, ..outbound() };
    let identity = (door == Door::Inbound).then(|| "spiffe://example.org/ns/shop/sa/web".parse().expect("an id"));
    let client = call(&mut relay, 0, origin, identity, request.as_bytes().to_vec());
    let id = match begin_connections(&mut relay).first() {
        Some(&(upstream, _)) => {
            relay.connected(upstream);
            LinkId::Endpoint(upstream)
        }
        None => LinkId::Client(client),
    };
    let output = relay.link(id).expect("it is open").output().to_vec();
    let text = String::from_utf8(output).expect("text").to_lowercase();
    text.split("\r\n").take(2).collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_request_keeps_its_absolute_form_only_where_the_server_may_be_a_forward_proxy() {
    let absolute = "GET http://Example.com/a HTTP/1.1\r\nhost: other\r\n\r\n";
    let squid = Some("10.0.0.7:3128");
    let kept = "get http://example.com/a http/1.1 | host: example.com";
    assert_eq!(head_at_server(Door::Outbound, squid, absolute), kept);
    let ftp = absolute.replace("http://", "ftp://");
    assert_eq!(head_at_server(Door::Outbound, squid, &ftp), kept.replace("http://", "ftp://"));
    // Without a destination, this proxy is the forward proxy.
    let to_cart = absolute.replace("Example.com", "cart.shop");
    assert_eq!(head_at_server(Door::Outbound, None, &to_cart), "get /a http/1.1 | host: cart.shop");
    assert_eq!(head_at_server(Door::Inbound, squid, absolute), "get /a http/1.1 | host: example.com");
    assert!(head_at_server(Door::Inbound, squid, &ftp).starts_with("http/1.1 400 "));
}

/// The `:authority` and the `host` of a request with these fields, after [`use_usual_authority`].
fn made_usual(fields: &[(&str, &str)]) -> [Option<String>; 2] {
    let mut request = FieldSection::new();
    fields.iter().for_each(|(name, value)| request.push(name.as_bytes(), value.as_bytes()));
    use_usual_authority(&mut request, "cart");
    [Known::Authority, Known::Host]
        .map(|known| request.get(known).map(|value| String::from_utf8_lossy(value).into_owned()))
}

#[test]
fn an_authority_that_some_servers_reject_is_replaced_and_such_a_host_is_removed() {
    let text = |value: &str| Some(value.to_owned());
    for unusual in ["extension/auth|server", "%2Ftmp%2Fsocket", ""] {
        assert_eq!(made_usual(&[(":authority", unusual)]), [text("cart"), None]);
        assert_eq!(made_usual(&[(":authority", unusual), ("host", "b")]), [text("cart"), text("b")]);
        assert_eq!(made_usual(&[(":authority", "a"), ("host", unusual)]), [text("a"), None]);
    }
    assert_eq!(made_usual(&[(":authority", "a:80"), ("host", "b")]), [text("a:80"), text("b")]);
}
