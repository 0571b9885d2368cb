use leno_model::discovery::Subject;
use leno_model::protocol::Protocol;
use prost::Message;

use super::{Target, read, write, write_endpoint};
use crate::fixtures::cluster;
use crate::name::listener_subject;
use crate::pb::http::HttpConnectionManager;
use crate::pb::http::http_connection_manager::RouteSpecifier;
use crate::pb::listener::Listener;
use crate::proto::from_any;

fn by_name(name: &str) -> Listener {
    let at = match listener_subject(name, "shop").expect("a name") {
        Subject::Address(at) => Some(at),
        _ => None,
    };
    write(name, at, &cluster("echo"))
}

#[test]
fn a_name_is_answered_with_an_api_and_an_address_with_a_socket() {
    let api = by_name("echo.shop:50051");
    assert!(api.address.is_none());
    let manager = api.api_listener.and_then(|api| api.api_listener).expect("an API");
    let manager: HttpConnectionManager = from_any(&manager).expect("that routes HTTP");
    let Some(RouteSpecifier::Rds(rds)) = manager.route_specifier else { panic!("no routes") };
    assert_eq!(rds.route_config_name, "echo.shop:50051");

    let socket = by_name("10.96.0.10:50051");
    assert!(socket.api_listener.is_none() && socket.address.is_some());
    assert_eq!(socket.bind_to_port.map(|bind| bind.value), Some(false), "interception brings the connections");
}

#[test]
fn a_listener_has_the_name_that_it_was_asked_for_by() {
    for name in ["echo:50051", "ECHO.shop.svc.cluster.local:50051", "10.96.0.10:50051"] {
        let lead = read(&by_name(name).encode_to_vec()).expect("ours");
        assert_eq!((lead.name.as_str(), lead.target), (name, Target::Cluster(cluster("echo").key)));
    }
}

#[test]
fn the_first_bytes_tell_where_nothing_is_said_of_the_protocol() {
    let at = "10.96.0.10:50051".parse().expect("an address");
    let of = |protocol| {
        let cluster = leno_model::mesh::Cluster { protocol, ..cluster("echo") };
        let listener = write("10.96.0.10:50051", Some(at), &cluster);
        (listener.listener_filters.len(), listener.filter_chains.len(), listener.default_filter_chain.is_some())
    };
    assert_eq!(of(Protocol::Detect), (1, 1, true));
    assert_eq!(of(Protocol::Http2), (0, 1, false));
    assert_eq!(of(Protocol::Opaque), (0, 1, false));
}

#[test]
fn the_address_of_one_endpoint_leads_to_it_alone() {
    let written = write_endpoint("10.244.1.1:50061", &cluster("echo").key);
    let lead = read(&written.encode_to_vec()).expect("ours");
    assert_eq!(lead.target, Target::Endpoint(cluster("echo").key));
}

#[test]
fn a_listener_that_leads_nowhere_is_an_error() {
    let listener = Listener { name: "a".to_owned(), ..Default::default() };
    let error = read(&listener.encode_to_vec()).expect_err("it leads nowhere");
    assert_eq!(error.to_string(), "a: cluster: is missing in the metadata");
}
