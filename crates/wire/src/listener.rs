//! What an address or a name leads to: the Listener resource.

use std::net::SocketAddr;

use leno_model::mesh::{Cluster, ClusterKey};
use leno_model::protocol::Protocol;
use prost::Message;

use crate::error::Unreadable;
use crate::facts::{CLUSTER, Facts, LEADS_TO};
use crate::limits::RESOURCE_MAX_BYTES;
use crate::name;
use crate::pb::core::TrafficDirection;
use crate::pb::http::{HttpConnectionManager, HttpFilter, Rds, http_connection_manager, http_filter};
use crate::pb::listener::{
    ApiListener, Filter, FilterChain, FilterChainMatch, Listener, ListenerFilter, filter, listener_filter,
};
use crate::pb::{Any, BoolValue, HttpInspector, Router, tcp};
use crate::proto::{address, ads, any, duration};

/// What a connection to a Listener's address, or a call to its name, is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any endpoint of the cluster.
    Cluster(ClusterKey),
    /// The one endpoint of the cluster whose address this is.
    Endpoint(ClusterKey),
}

/// The text of [`LEADS_TO`] for [`Target::Endpoint`].
const ENDPOINT: &str = "endpoint";

/// What a Listener says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The Listener's name, as it was asked for.
    pub name: String,
    /// Where it leads.
    pub target: Target,
}

/// Writes the Listener that was asked for as `name`, which leads to a cluster: by the address `at`, or by a Service's name.
///
/// A name of a Service is gRPC's way to ask: its Listener has no address, only an API. An address is what a proxy's
/// connections were going to: the Listener does not bind it, but is given what interception brings.
pub fn write(name: &str, at: Option<SocketAddr>, cluster: &Cluster) -> Listener {
    let key = cluster.key.to_string();
    let listener = Listener {
        name: name.to_owned(),
        metadata: Facts::default().with(CLUSTER, &key).metadata(),
        ..Default::default()
    };
    match at {
        None => Listener { api_listener: Some(ApiListener { api_listener: Some(any(&manager(&key))) }), ..listener },
        Some(at) => {
            let (http, bytes) =
                (|| http_chain(&manager(&key)), || chain("envoy.filters.network.tcp_proxy", any(&relay(&key))));
            let listener = Listener {
                address: Some(address(at)),
                bind_to_port: Some(BoolValue { value: false }),
                traffic_direction: TrafficDirection::Outbound.into(),
                ..listener
            };
            match cluster.protocol {
                Protocol::Http1 | Protocol::Http2 => Listener { filter_chains: vec![http()], ..listener },
                Protocol::Opaque => Listener { filter_chains: vec![bytes()], ..listener },
                Protocol::Detect => Listener {
                    listener_filters: vec![http_inspector()],
                    filter_chains: vec![FilterChain { filter_chain_match: Some(is_http()), ..http() }],
                    default_filter_chain: Some(bytes()),
                    ..listener
                },
            }
        }
    }
}

/// Writes the Listener of one endpoint's own address: for leno-proxy, which knows by it that the address is not to be
/// balanced. Others pass such connections through.
pub fn write_endpoint(name: &str, key: &ClusterKey) -> Listener {
    Listener {
        name: name.to_owned(),
        metadata: Facts::default().with(CLUSTER, key).with(LEADS_TO, ENDPOINT).metadata(),
        ..Default::default()
    }
}

/// Reads where a Listener leads.
///
/// # Errors
/// [`Unreadable`] if the bytes are no Listener of Leno's.
pub fn read(bytes: &[u8]) -> Result<Lead, Unreadable> {
    if bytes.len() > RESOURCE_MAX_BYTES {
        return Err(Unreadable::new("", "Listener", format!("has more than {RESOURCE_MAX_BYTES} bytes")));
    }
    let resource = Listener::decode(bytes).map_err(|error| Unreadable::new("", "Listener", error.to_string()))?;
    let bad = |field, what: &str| Unreadable::new(&resource.name, field, what);
    let facts = Facts::from_metadata(resource.metadata.as_ref());
    let cluster = facts.get(CLUSTER).ok_or_else(|| bad(CLUSTER, "is missing in the metadata"))?;
    let key = name::cluster_key(cluster).ok_or_else(|| bad(CLUSTER, "is not service.namespace:port"))?;
    let target = match facts.get(LEADS_TO) {
        None => Target::Cluster(key),
        Some(ENDPOINT) => Target::Endpoint(key),
        Some(_) => return Err(bad(LEADS_TO, "is not endpoint")),
    };
    Ok(Lead { name: resource.name, target })
}

/// Routes by the RouteConfiguration of a name; nothing ends a stream but the routes' timeouts.
pub(crate) fn manager(routes: &str) -> HttpConnectionManager {
    HttpConnectionManager {
        stat_prefix: routes.to_owned(),
        route_specifier: Some(http_connection_manager::RouteSpecifier::Rds(Rds {
            config_source: Some(ads()),
            route_config_name: routes.to_owned(),
        })),
        http_filters: vec![router()],
        strip_trailing_host_dot: true,
        stream_idle_timeout: Some(duration(std::time::Duration::ZERO)),
        upgrade_configs: vec![http_connection_manager::UpgradeConfig {
            upgrade_type: "websocket".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// The filter that ends every chain of HTTP filters.
pub(crate) fn router() -> HttpFilter {
    HttpFilter {
        name: "envoy.filters.http.router".to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(any(&Router::default()))),
        ..Default::default()
    }
}

fn relay(cluster: &str) -> tcp::TcpProxy {
    tcp::TcpProxy {
        stat_prefix: cluster.to_owned(),
        cluster_specifier: Some(tcp::tcp_proxy::ClusterSpecifier::Cluster(cluster.to_owned())),
        ..Default::default()
    }
}

/// Connections that carry HTTP.
pub(crate) fn http_chain(manager: &HttpConnectionManager) -> FilterChain {
    chain("envoy.filters.network.http_connection_manager", any(manager))
}

fn chain(name: &str, config: Any) -> FilterChain {
    let filter = Filter { name: name.to_owned(), config_type: Some(filter::ConfigType::TypedConfig(config)) };
    FilterChain { filters: vec![filter], ..Default::default() }
}

fn is_http() -> FilterChainMatch {
    let protocols = ["http/1.0", "http/1.1", "h2c"].map(str::to_owned);
    FilterChainMatch { application_protocols: protocols.into(), ..Default::default() }
}

fn http_inspector() -> ListenerFilter {
    ListenerFilter {
        name: "envoy.filters.listener.http_inspector".to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(any(&HttpInspector::default()))),
        ..Default::default()
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
