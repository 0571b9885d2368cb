use leno_model::discovery::Subject;
use leno_model::protocol::Protocol;
use prost::Message;

use super::{Destination, read, write, write_endpoint};
use crate::fixtures::{cluster, mesh};
use crate::name::{NOWHERE, listener_subject};
use crate::pb::http::HttpConnectionManager;
use crate::pb::http::http_connection_manager::RouteSpecifier;
use crate::pb::listener::{FilterChain, Listener, filter};
use crate::pb::tcp::TcpProxy;
use crate::pb::tcp::tcp_proxy::ClusterSpecifier;
use crate::proto::from_any;

fn by_name(name: &str) -> Listener {
    let at = match listener_subject(name, "shop").expect("a name") {
        Subject::Address(at) => Some(at),
        _ => None,
    };
    write(name, at, &cluster("echo"), None)
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
        assert_eq!((lead.name.as_str(), lead.destination), (name, Destination::Cluster(cluster("echo").key)));
    }
}

#[test]
fn the_first_bytes_tell_where_nothing_is_said_of_the_protocol() {
    let at = "10.96.0.10:50051".parse().expect("an address");
    let of = |protocol| {
        let cluster = leno_model::mesh::Cluster { protocol, ..cluster("echo") };
        let listener = write("10.96.0.10:50051", Some(at), &cluster, None);
        // After the time-out, detection ends and the server may speak first.
        assert_eq!(listener.continue_on_listener_filters_timeout, protocol == Protocol::Detect);
        assert_eq!(
            listener.listener_filters_timeout.map(|limit| limit.seconds),
            (protocol == Protocol::Detect).then_some(10)
        );
        (listener.listener_filters.len(), listener.filter_chains.len(), listener.default_filter_chain.is_some())
    };
    assert_eq!(of(Protocol::Detect), (1, 1, true));
    assert_eq!(of(Protocol::Http2), (0, 0, true));
    assert_eq!(of(Protocol::Opaque), (0, 0, true));
}

#[test]
fn the_address_of_one_endpoint_leads_to_it_alone() {
    let written = write_endpoint("10.244.1.1:50061", &cluster("echo").key);
    let lead = read(&written.encode_to_vec()).expect("ours");
    assert_eq!(lead.destination, Destination::Endpoint(cluster("echo").key));
}

#[test]
fn a_listener_that_leads_nowhere_is_an_error() {
    let listener = Listener { name: "a".to_owned(), ..Default::default() };
    let error = read(&listener.encode_to_vec()).expect_err("it leads nowhere");
    assert_eq!(error.to_string(), "a: cluster: is missing in the metadata");
}

/// Returns the Listener of the Service echo's address, for clients in `shop`. A route of this kind and spec applies to
/// echo.
fn routed(kind: &str, spec: &str, app_protocol: &str) -> Listener {
    let mesh = mesh(&format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: echo, namespace: shop}}\nspec: {{clusterIP: 10.96.0.10, \
         ports: [{{port: 80, appProtocol: {app_protocol}}}]}}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\n\
         metadata: {{name: r, namespace: shop}}\nspec:\n  parentRefs: [{{group: '', kind: Service, name: echo}}]\n  {spec}\n"
    ));
    let at = "10.96.0.10:80".parse().expect("an address");
    let cluster = mesh.cluster_by_address(at).expect("echo");
    write("10.96.0.10:80", Some(at), cluster, mesh.routes(&cluster.key, "shop").map(AsRef::as_ref))
}

/// Returns the clusters and weights in a chain that relays bytes; `None` if the chain relays HTTP.
fn destinations(chain: &FilterChain) -> Option<Vec<(String, u32)>> {
    let Some(filter::ConfigType::TypedConfig(config)) = &chain.filters[0].config_type else { panic!("{chain:?}") };
    match from_any::<TcpProxy>(config)?.cluster_specifier.expect("a cluster") {
        ClusterSpecifier::Cluster(name) => Some(vec![(name, 1)]),
        ClusterSpecifier::WeightedClusters(all) => {
            Some(all.clusters.into_iter().map(|cluster| (cluster.name, cluster.weight)).collect())
        }
    }
}

const BOTH: &str = "rules: [{backendRefs: [{name: echo, port: 80, weight: 9}, {name: nobody, port: 1, weight: 1}, {name: echo, port: 80, weight: 0}]}]";

#[test]
fn a_tcp_route_shares_connections_out_whatever_is_spoken() {
    let shares = [("echo.shop:80".to_owned(), 9), (NOWHERE.to_owned(), 1)];
    for protocol in ["http", "tcp", "''"] {
        let listener = routed("TCPRoute", BOTH, protocol);
        assert!(listener.listener_filters.is_empty() && listener.filter_chains.is_empty(), "{protocol}");
        let chain = listener.default_filter_chain.expect("one for all");
        assert_eq!(destinations(&chain).expect("bytes"), shares, "{protocol}");
    }
    let none = routed("TCPRoute", "rules: [{backendRefs: [{name: echo, port: 80, weight: 0}]}]", "tcp");
    assert_eq!(destinations(&none.default_filter_chain.expect("one for all")), Some(vec![(NOWHERE.to_owned(), 1)]));
}

#[test]
fn a_tls_route_takes_its_servers_and_refuses_others() {
    let spec = format!("hostnames: [a.example.org, '*.example.org', a.example.org]\n  {BOTH}");
    let listener = routed("TLSRoute", &spec, "''");
    assert!(listener.continue_on_listener_filters_timeout && listener.listener_filters_timeout.is_some());
    let inspectors: Vec<_> = listener.listener_filters.iter().map(|filter| filter.name.rsplit('.').next()).collect();
    assert_eq!(inspectors, [Some("tls_inspector"), Some("http_inspector")]);
    let known_by = |chain: &FilterChain| {
        let matches = chain.filter_chain_match.clone().expect("a match");
        (matches.transport_protocol, matches.server_names.join(" "))
    };
    let tls: Vec<_> = listener.filter_chains.iter().filter(|chain| known_by(chain).0 == "tls").collect();
    let names: Vec<_> = tls.iter().map(|chain| known_by(chain).1).collect();
    assert_eq!(names, ["a.example.org", "*.example.org", ""], "each once");
    assert_eq!(destinations(tls[0]).expect("bytes").len(), 2);
    assert_eq!(destinations(tls[2]), Some(vec![(NOWHERE.to_owned(), 1)]));
    // Connections without TLS keep their usual chain.
    assert_eq!(listener.filter_chains.len(), 4);
    assert_eq!(
        destinations(&listener.default_filter_chain.expect("one for the rest")),
        Some(vec![("echo.shop:80".to_owned(), 1)])
    );
    let without_names = routed("TLSRoute", BOTH, "tcp");
    assert_eq!(without_names.filter_chains.len(), 1, "all TLS is its own");
    assert!(without_names.continue_on_listener_filters_timeout, "a server that speaks first is heard in the end");
}
