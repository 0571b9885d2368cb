//! The Listener resource: the destination of connections to an address, or of calls to a name.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use leno_model::mesh::{Cluster, ClusterKey};
use leno_model::protocol::Protocol;
use leno_model::route::{RouteKind, RouteTable, Rule, ServerName};
use prost::{Message, Name};

use crate::error::Unreadable;
use crate::facts::{CLUSTER, Facts, LEADS_TO};
use crate::limits::RESOURCE_MAX_BYTES;
use crate::name::{self, NOWHERE};
use crate::pb::core::TrafficDirection;
use crate::pb::http::{HttpConnectionManager, HttpFilter, Rds, http_connection_manager, http_filter};
use crate::pb::listener::{
    ApiListener, Filter, FilterChain, FilterChainMatch, Listener, ListenerFilter, filter, listener_filter,
};
use crate::pb::tcp::tcp_proxy::{ClusterSpecifier, WeightedCluster, weighted_cluster::ClusterWeight};
use crate::pb::{Any, BoolValue, HttpInspector, Router, TlsInspector, tcp};
use crate::proto::{address, ads, any, duration};
use crate::routes::action::destination;

/// The destination of connections to a Listener's address, or of calls to its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Any endpoint of the cluster.
    Cluster(ClusterKey),
    /// The one endpoint of this cluster whose address is the Listener's address.
    Endpoint(ClusterKey),
}

/// Time for which a client may stay silent before we assume that its server speaks first.
const DETECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The value of [`LEADS_TO`] for [`Destination::Endpoint`].
const ENDPOINT: &str = "endpoint";

/// The content of a Listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The Listener's name, in the form that the client requested.
    pub name: String,
    pub destination: Destination,
}

/// Writes the Listener called `name` for a cluster: at the address `at`, or without an address for a Service's name.
///
/// gRPC requests a Listener by the Service's name; this Listener has an `api_listener` and no address. Proxies request
/// a Listener by the original destination of a connection; this Listener does not bind its address, and gets only
/// redirected connections. `table` contains the routes that apply to the cluster. The Listener contains only the routes
/// for connections; the RouteConfiguration contains the routes for requests.
pub fn write(name: &str, at: Option<SocketAddr>, cluster: &Cluster, table: Option<&RouteTable>) -> Listener {
    let key = cluster.key.to_string();
    let listener = Listener {
        name: name.to_owned(),
        metadata: Facts::default().with(CLUSTER, &key).metadata(),
        ..Default::default()
    };
    match at {
        None => Listener { api_listener: Some(ApiListener { api_listener: Some(any(&manager(&key))) }), ..listener },
        Some(at) => {
            let Chains { inspectors, matched, rest } = match table.map(|table| (table.kind(), table)) {
                Some((RouteKind::Tcp, table)) => Chains::of_connections(table),
                Some((RouteKind::Tls, table)) => Chains::of_protocol(cluster).with_servers(table),
                _ => Chains::of_protocol(cluster),
            };
            Listener {
                address: Some(address(at)),
                bind_to_port: Some(BoolValue { value: false }),
                traffic_direction: TrafficDirection::Outbound.into(),
                listener_filters_timeout: (!inspectors.is_empty()).then(|| duration(DETECT_TIMEOUT)),
                continue_on_listener_filters_timeout: !inspectors.is_empty(),
                listener_filters: inspectors,
                filter_chains: matched,
                default_filter_chain: Some(rest),
                ..listener
            }
        }
    }
}

/// The filter chains for connections to an address.
struct Chains {
    /// Filters that inspect the first bytes.
    inspectors: Vec<ListenerFilter>,
    /// Chains for connections that a filter has recognized.
    matched: Vec<FilterChain>,
    /// The chain for all other connections.
    rest: FilterChain,
}

impl Chains {
    /// Creates the chains for a cluster's protocol.
    fn of_protocol(cluster: &Cluster) -> Self {
        let key = cluster.key.to_string();
        let http = || http_chain(&manager(&key));
        let bytes = || bytes_chain(&key, ClusterSpecifier::Cluster(key.clone()));
        match cluster.protocol {
            Protocol::Http1 | Protocol::Http2 => Self { inspectors: Vec::new(), matched: Vec::new(), rest: http() },
            Protocol::Opaque => Self { inspectors: Vec::new(), matched: Vec::new(), rest: bytes() },
            Protocol::Detect => Self {
                inspectors: vec![inspector("envoy.filters.listener.http_inspector", &HttpInspector::default())],
                matched: vec![FilterChain { filter_chain_match: Some(is_http()), ..http() }],
                rest: bytes(),
            },
        }
    }

    /// Creates the chains for a table of TCPRoutes. All connections follow the table's first rule.
    fn of_connections(table: &RouteTable) -> Self {
        let rest = match table.entries().first() {
            Some(entry) => bytes_chain(&entry.rule.route.to_string(), by_weight(&entry.rule)),
            None => bytes_chain(NOWHERE, nowhere()),
        };
        Self { inspectors: Vec::new(), matched: Vec::new(), rest }
    }

    /// Adds chains for TLS: one for each server name that a route matches, and one for all other server names. The
    /// chain for all other server names follows the route without a server name. If there is no such route, this chain
    /// leads to [`NOWHERE`], which rejects the connection.
    fn with_servers(mut self, table: &RouteTable) -> Self {
        let mut known = BTreeSet::new();
        for entry in table.entries() {
            // Envoy rejects a Listener with two chains for one name; the first entry wins.
            let name = entry.matches.server_name.as_ref().map(ServerName::as_str);
            if known.insert(name) {
                let chain = bytes_chain(&entry.rule.route.to_string(), by_weight(&entry.rule));
                self.matched.push(FilterChain { filter_chain_match: Some(is_tls(name)), ..chain });
            }
        }
        if known.insert(None) {
            let refused = bytes_chain(NOWHERE, nowhere());
            self.matched.push(FilterChain { filter_chain_match: Some(is_tls(None)), ..refused });
        }
        self.inspectors.insert(0, inspector("envoy.filters.listener.tls_inspector", &TlsInspector::default()));
        self
    }
}

/// Writes the Listener of an endpoint's own address. leno-proxy then sends connections to this endpoint, without
/// balancing. Other clients pass these connections through.
pub fn write_endpoint(name: &str, key: &ClusterKey) -> Listener {
    Listener {
        name: name.to_owned(),
        metadata: Facts::default().with(CLUSTER, key).with(LEADS_TO, ENDPOINT).metadata(),
        ..Default::default()
    }
}

/// Reads a Listener's destination.
///
/// # Errors
/// [`Unreadable`] if the bytes are not a Listener that Leno writes.
pub fn read(bytes: &[u8]) -> Result<Lead, Unreadable> {
    if bytes.len() > RESOURCE_MAX_BYTES {
        return Err(Unreadable::new("", "Listener", format!("has more than {RESOURCE_MAX_BYTES} bytes")));
    }
    let resource = Listener::decode(bytes).map_err(|error| Unreadable::new("", "Listener", error.to_string()))?;
    let bad = |field, what: &str| Unreadable::new(&resource.name, field, what);
    let facts = Facts::from_metadata(resource.metadata.as_ref());
    let cluster = facts.get(CLUSTER).ok_or_else(|| bad(CLUSTER, "is missing in the metadata"))?;
    let key = name::cluster_key(cluster).ok_or_else(|| bad(CLUSTER, "is not service.namespace:port"))?;
    let destination = match facts.get(LEADS_TO) {
        None => Destination::Cluster(key),
        Some(ENDPOINT) => Destination::Endpoint(key),
        Some(_) => return Err(bad(LEADS_TO, "is not endpoint")),
    };
    Ok(Lead { name: resource.name, destination })
}

/// Configures HTTP. The RouteConfiguration with the name `routes` routes the requests. Only the timeouts in this
/// RouteConfiguration end a stream.
pub(crate) fn manager(routes: &str) -> HttpConnectionManager {
    HttpConnectionManager {
        stat_prefix: routes.to_owned(),
        route_specifier: Some(http_connection_manager::RouteSpecifier::Rds(Rds {
            config_source: Some(ads()),
            route_config_name: routes.to_owned(),
        })),
        http_filters: vec![router()],
        strip_trailing_host_dot: true,
        stream_idle_timeout: Some(duration(Duration::ZERO)),
        upgrade_configs: vec![http_connection_manager::UpgradeConfig {
            upgrade_type: "websocket".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Returns Envoy's router, which must be the last HTTP filter of every chain.
pub(crate) fn router() -> HttpFilter {
    HttpFilter {
        name: "envoy.filters.http.router".to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(any(&Router::default()))),
        ..Default::default()
    }
}

/// Creates a chain that relays bytes.
fn bytes_chain(name: &str, to: ClusterSpecifier) -> FilterChain {
    let relay = tcp::TcpProxy { stat_prefix: name.to_owned(), cluster_specifier: Some(to), ..Default::default() };
    chain("envoy.filters.network.tcp_proxy", any(&relay))
}

/// Returns the backends of a rule. Backends with a weight of 0 are left out, because Envoy rejects this weight.
fn by_weight(rule: &Rule) -> ClusterSpecifier {
    let weighted = rule.backends.iter().filter(|backend| backend.weight > 0);
    let clusters: Vec<ClusterWeight> = weighted
        .map(|backend| ClusterWeight { name: destination(backend), weight: backend.weight, ..Default::default() })
        .collect();
    if clusters.is_empty() { nowhere() } else { ClusterSpecifier::WeightedClusters(WeightedCluster { clusters }) }
}

fn nowhere() -> ClusterSpecifier {
    ClusterSpecifier::Cluster(NOWHERE.to_owned())
}

/// Creates a chain that relays HTTP.
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

/// Matches TLS connections: those with this server name, or all if no server name is given.
fn is_tls(server_name: Option<&str>) -> FilterChainMatch {
    FilterChainMatch {
        transport_protocol: "tls".to_owned(),
        server_names: server_name.into_iter().map(str::to_owned).collect(),
        ..Default::default()
    }
}

fn inspector<M: Message + Name>(name: &str, config: &M) -> ListenerFilter {
    ListenerFilter {
        name: name.to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(any(config))),
        ..Default::default()
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
