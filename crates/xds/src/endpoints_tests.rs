use leno_model::mesh::{Cluster, Endpoint};
use leno_model::protocol::Protocol;
use leno_model::spiffe::TrustDomain;
use prost::Message;

use super::{read, write};
use crate::fixtures::{ENVOY, cluster, endpoint, meshed};
use crate::pb::core::HealthStatus;
use crate::pb::endpoint::lb_endpoint::HostIdentifier;
use crate::proto::from_address;
use crate::view::{Dialect, View};

fn in_zone(zone: &str, address: &str) -> Endpoint {
    Endpoint { zone: Some(zone.into()), ..endpoint(address) }
}

#[test]
fn a_zone_has_a_weight_by_its_ready_endpoints_and_none_without_one() {
    let mut echo = cluster("echo");
    echo.endpoints = vec![in_zone("a", "10.244.1.1:80"), in_zone("a", "10.244.1.2:80"), in_zone("b", "10.244.1.3:80")];
    echo.unready_endpoints = vec![in_zone("a", "10.244.1.4:80"), in_zone("c", "10.244.1.5:80")];
    let written = write(&echo, ENVOY);
    let weight = |zone: &str| {
        let of_zone = |locality: &&crate::pb::endpoint::LocalityLbEndpoints| {
            locality.locality.as_ref().is_some_and(|locality| locality.zone == zone)
        };
        let locality = written.endpoints.iter().find(of_zone).expect("the zone is there");
        locality.load_balancing_weight.map(|weight| weight.value)
    };
    assert_eq!([weight("a"), weight("b"), weight("c")], [Some(2), Some(1), None]);
}

#[test]
fn an_endpoint_that_is_not_ready_is_said_to_be_unhealthy() {
    let mut echo = cluster("echo");
    echo.unready_endpoints = vec![endpoint("10.244.1.4:80")];
    let written = write(&echo, ENVOY);
    assert_eq!(written.endpoints[0].lb_endpoints[0].health_status, i32::from(HealthStatus::Unhealthy));
    let read = read(&written.encode_to_vec()).expect("ours");
    assert_eq!((read.ready, read.unready), (Vec::new(), echo.unready_endpoints));
}

#[test]
fn only_a_client_with_certificates_is_sent_to_a_proxys_own_port() {
    let mut cart = cluster("cart");
    cart.endpoints = vec![meshed("10.244.1.2:50061", Some(4143))];
    let trust_domain: TrustDomain = "cluster.local".parse().expect("a trust domain");
    let port = |cart: &Cluster, view| {
        let written = write(cart, view);
        let Some(HostIdentifier::Endpoint(endpoint)) = &written.endpoints[0].lb_endpoints[0].host_identifier else {
            panic!("no endpoint");
        };
        from_address(endpoint.address.as_ref().expect("an address")).expect("of a socket").port()
    };
    let secure = |dialect| View { dialect, mutual_tls: Some(&trust_domain) };
    assert_eq!(port(&cart, ENVOY), 50061);
    assert_eq!(port(&cart, secure(Dialect::Envoy)), 4143);
    assert_eq!(port(&cart, secure(Dialect::Grpc)), 4143);

    // A client that would connect without TLS gets the application's own port.
    cart.endpoints.push(endpoint("10.244.1.3:50061"));
    assert_eq!(port(&cart, secure(Dialect::Grpc)), 50061);
    cart.protocol = Protocol::Opaque;
    assert_eq!(port(&cart, secure(Dialect::Envoy)), 50061);
}

#[test]
fn an_address_that_is_there_twice_is_an_error() {
    let mut echo = cluster("echo");
    echo.endpoints = vec![endpoint("10.244.1.1:80")];
    echo.unready_endpoints = vec![endpoint("10.244.1.1:80")];
    let error = read(&write(&echo, ENVOY).encode_to_vec()).expect_err("gRPC would refuse it too");
    assert_eq!(error.to_string(), "echo.shop:50051: address: 10.244.1.1:80 is there twice");
}

#[test]
fn an_identity_that_is_none_is_an_error_and_not_an_endpoint_in_clear() {
    let mut cart = cluster("cart");
    cart.endpoints = vec![meshed("10.244.1.2:50061", None)];
    let bytes = write(&cart, ENVOY).encode_to_vec();
    let place = bytes.windows(6).position(|bytes| bytes == b"ns/sho").expect("the identity");
    let mut changed = bytes;
    changed[place] = b'*';
    let error = read(&changed).expect_err("no workload");
    assert_eq!(error.to_string(), "cart.shop:50051: identity: names no workload");
}
