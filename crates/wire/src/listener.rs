//! What an address or a name leads to: the Listener resource.

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

/// What a connection to a Listener's address, or a call to its name, is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any endpoint of the cluster.
    Cluster(ClusterKey),
    /// The one endpoint of the cluster whose address this is.
    Endpoint(ClusterKey),
}

/// How long a client may take to show what it speaks, before it is taken that its server speaks first.
const DETECT_TIMEOUT: Duration = Duration::from_secs(10);

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
/// connections were going to: the Listener does not bind it, but is given what interception brings. `table` is of the routes
/// that are in force there, of which those about connections are followed here, and the others by the RouteConfiguration.
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

/// What becomes of connections to an address.
struct Chains {
    /// What looks at their first bytes.
    inspectors: Vec<ListenerFilter>,
    /// For those that are known by these.
    matched: Vec<FilterChain>,
    /// For all others.
    rest: FilterChain,
}

impl Chains {
    /// As their cluster's protocol has it.
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

    /// All as the first rule has it, whatever they carry.
    fn of_connections(table: &RouteTable) -> Self {
        let rest = match table.entries().first() {
            Some(entry) => bytes_chain(&entry.rule.route.to_string(), by_weight(&entry.rule)),
            None => bytes_chain(NOWHERE, nowhere()),
        };
        Self { inspectors: Vec::new(), matched: Vec::new(), rest }
    }

    /// The same, but TLS by the names of servers, and of other names nothing.
    fn with_servers(mut self, table: &RouteTable) -> Self {
        let mut known = BTreeSet::new();
        for entry in table.entries() {
            // Of two chains for one name Envoy takes neither; the first of ours goes before.
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
        stream_idle_timeout: Some(duration(Duration::ZERO)),
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

/// Connections whose bytes are relayed.
fn bytes_chain(name: &str, to: ClusterSpecifier) -> FilterChain {
    let relay = tcp::TcpProxy { stat_prefix: name.to_owned(), cluster_specifier: Some(to), ..Default::default() };
    chain("envoy.filters.network.tcp_proxy", any(&relay))
}

/// The backends of a rule; Envoy takes no weight of 0.
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

/// TLS, to that server if there is a name.
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
