//! The RouteConfiguration resource: the cluster of each request.
//!
//! If a call's cluster is already known, the call's `:authority` does not matter: the cluster's configuration has one
//! virtual host for all authorities. Only the configuration of the whole mesh selects the cluster by authority. Proxies
//! that clients call directly use this configuration.

pub(crate) mod action;
mod domains;
mod matching;
mod read;
mod read_rule;

use leno_model::mesh::{ClusterKey, Mesh};
use leno_model::route::{Match, PathMatch, RouteKind, RouteTable};

use crate::name::RouteName;
use crate::pb::route::{Route, RouteAction, RouteConfiguration, VirtualHost, route, route_action};
use crate::proto::duration;
use crate::view::Dialect;

pub use read::{Routes, read};

/// Writes the routes of calls for the cluster. Without a table, all calls go to the cluster itself.
pub fn write(key: &ClusterKey, table: Option<&RouteTable>, dialect: Dialect) -> RouteConfiguration {
    RouteConfiguration {
        name: key.to_string(),
        virtual_hosts: vec![virtual_host(key, vec!["*".to_owned()], table, dialect)],
        ..Default::default()
    }
}

/// Writes the routes of all clusters for clients in `namespace`, under every spelling of each Service's authority.
/// `cluster_domain` is the cluster's DNS domain.
pub fn write_mesh(mesh: &Mesh, namespace: &str, cluster_domain: &str, dialect: Dialect) -> RouteConfiguration {
    let mut domains = domains::of_mesh(mesh, namespace, cluster_domain);
    let hosts = mesh.clusters().iter().map(|cluster| {
        let table = mesh.routes(&cluster.key, namespace);
        let domains = domains.remove(&cluster.key).unwrap_or_default();
        virtual_host(&cluster.key, domains, table.map(AsRef::as_ref), dialect)
    });
    RouteConfiguration { name: RouteName::Mesh.to_string(), virtual_hosts: hosts.collect(), ..Default::default() }
}

fn virtual_host(key: &ClusterKey, domains: Vec<String>, table: Option<&RouteTable>, dialect: Dialect) -> VirtualHost {
    let of_table = |table: &RouteTable| -> Vec<Route> {
        table.entries().iter().map(|entry| action::route(&entry.matches, &entry.rule, key.port, dialect)).collect()
    };
    let routes = match table.map(|table| (table.kind(), table)) {
        None => vec![to_the_cluster(key)],
        // A TLSRoute applies to no request. xDS for gRPC cannot express a rule that no request matches, so gRPC clients
        // get no TLSRoutes at all.
        Some((RouteKind::Tls, _)) if dialect == Dialect::Grpc => vec![to_the_cluster(key)],
        Some((RouteKind::Tls, table)) => of_table(table).into_iter().chain([to_the_cluster(key)]).collect(),
        Some((_, table)) => of_table(table),
    };
    VirtualHost { name: key.to_string(), domains, routes, ..Default::default() }
}

fn to_the_cluster(key: &ClusterKey) -> Route {
    let action = RouteAction {
        cluster_specifier: Some(route_action::ClusterSpecifier::Cluster(key.to_string())),
        // The client's own deadline limits a stream. Without the field, Envoy would end the stream after 15 s.
        timeout: Some(duration(std::time::Duration::ZERO)),
        ..Default::default()
    };
    let everything = Match { path: PathMatch::Prefix("".into()), ..Match::any() };
    Route {
        r#match: Some(matching::route_match(&everything, Dialect::Envoy)),
        action: Some(route::Action::Route(action)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
