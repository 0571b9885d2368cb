//! A cluster without its endpoints: the Cluster resource.

use std::net::IpAddr;

use leno_model::balance::{BudgetSettings, Policy};
use leno_model::mesh;
use leno_model::protocol::Protocol;
use leno_model::settings::Settings;
use prost::{Message, Name};

use crate::error::Unreadable;
use crate::facts::{BALANCER, CLUSTER_IPS, Facts, PROTOCOL};
use crate::limits::{CLUSTER_IPS_MAX, RESOURCE_MAX_BYTES};
use crate::name::{self, NOWHERE};
use crate::pb::cluster::circuit_breakers::Thresholds;
use crate::pb::cluster::cluster::{
    ClusterDiscoveryType, CommonLbConfig, DiscoveryType, EdsClusterConfig, LbConfig, LbPolicy, LeastRequestLbConfig,
};
use crate::pb::cluster::{CircuitBreakers, Cluster, LoadBalancingPolicy, load_balancing_policy};
use crate::pb::upstream::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions, UseDownstreamHttpConfig, explicit_http_config,
};
use crate::pb::{Any, LeastRequest, RoundRobin, WrrLocality, core, types, upstream};
use crate::proto::{ads, any, duration, from_any, from_duration, uint32};
use crate::view::{Dialect, View};
use crate::{call_policy, tls};

pub use crate::tls::has_same_peers;

/// Number of endpoints that the least-request balancers of gRPC and Envoy compare.
const CHOICES: u32 = 2;

pub fn write(cluster: &mesh::Cluster, view: View<'_>) -> Cluster {
    let key = cluster.key.to_string();
    let mut resource = Cluster {
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(ads()), service_name: key.clone() }),
        name: key,
        connect_timeout: Some(duration(cluster.settings.connect_timeout)),
        circuit_breakers: Some(circuit_breakers(cluster, view.dialect)),
        typed_extension_protocol_options: [protocol_options(cluster)].into(),
        // Turn Envoy's panic mode off. In this mode, Envoy would send calls to unready endpoints if few endpoints are
        // ready.
        common_lb_config: Some(CommonLbConfig {
            healthy_panic_threshold: Some(types::Percent { value: 0.0 }),
            ..Default::default()
        }),
        metadata: facts(cluster).metadata(),
        ..Default::default()
    };
    match view.dialect {
        Dialect::Envoy => balance_as_envoy(&mut resource, cluster.balancer),
        Dialect::Grpc => balance_as_grpc(&mut resource, cluster.balancer),
    }
    if let Some(trust_domain) = view.mutual_tls {
        match view.dialect {
            Dialect::Envoy => resource.transport_socket_matches = tls::socket_matches(cluster, trust_domain),
            Dialect::Grpc => resource.transport_socket = tls::grpc_socket(cluster, trust_domain),
        }
    }
    resource
}

/// Writes the cluster [`NOWHERE`], which has no endpoints. It represents backends that do not exist.
pub fn write_nowhere() -> Cluster {
    Cluster {
        name: NOWHERE.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(ads()), service_name: NOWHERE.to_owned() }),
        ..Default::default()
    }
}

/// Reads a cluster. Its endpoints are in another resource.
///
/// # Errors
/// [`Unreadable`] if the bytes are not a Cluster that Leno writes.
pub fn read(bytes: &[u8]) -> Result<mesh::Cluster, Unreadable> {
    if bytes.len() > RESOURCE_MAX_BYTES {
        return Err(Unreadable::new("", "Cluster", format!("has more than {RESOURCE_MAX_BYTES} bytes")));
    }
    let resource = Cluster::decode(bytes).map_err(|error| Unreadable::new("", "Cluster", error.to_string()))?;
    let bad = |field, what: &str| Unreadable::new(&resource.name, field, what);
    let facts = Facts::from_metadata(resource.metadata.as_ref());
    // A newer control plane may name a balancer that the proxy does not know.
    let balancer: Option<Policy> = facts.get(BALANCER).and_then(|text| text.parse().ok());
    let protocol = match facts.get(PROTOCOL) {
        Some(text) => protocol(text).ok_or_else(|| bad(PROTOCOL, "names no protocol"))?,
        None => Protocol::Detect,
    };
    Ok(mesh::Cluster {
        key: name::cluster_key(&resource.name).ok_or_else(|| bad("name", "is not service.namespace:port"))?,
        balancer: balancer.unwrap_or_else(|| usual_balancer(&resource)),
        protocol,
        settings: settings(&resource)?,
        retry_budget: call_policy::budget(&facts, &resource.name),
        objectives: call_policy::objectives(&facts, &resource.name),
        cluster_ips: cluster_ips(facts.get(CLUSTER_IPS)).ok_or_else(|| bad(CLUSTER_IPS, "is no list of addresses"))?,
        endpoints: Vec::new(),
        unready_endpoints: Vec::new(),
    })
}

fn facts(cluster: &mesh::Cluster) -> Facts {
    let ips: Vec<String> = cluster.cluster_ips.iter().map(ToString::to_string).collect();
    let facts = Facts::default()
        .with(BALANCER, &cluster.balancer)
        .with(PROTOCOL, &cluster.protocol)
        .with_some(CLUSTER_IPS, (!ips.is_empty()).then(|| ips.join(",")));
    let facts = call_policy::with_budget(facts, cluster.retry_budget.as_ref());
    call_policy::with_objectives(facts, cluster.objectives.as_deref())
}

fn cluster_ips(text: Option<&str>) -> Option<Box<[IpAddr]>> {
    let texts = text.map(|text| text.split(',')).into_iter().flatten();
    let ips: Vec<IpAddr> = texts.take(CLUSTER_IPS_MAX + 1).map(|ip| ip.parse().ok()).collect::<Option<_>>()?;
    (ips.len() <= CLUSTER_IPS_MAX).then(|| ips.into())
}

fn protocol(text: &str) -> Option<Protocol> {
    const ALL: [Protocol; 4] = [Protocol::Detect, Protocol::Http2, Protocol::Http1, Protocol::Opaque];
    ALL.into_iter().find(|protocol| protocol.name() == text)
}

fn balance_as_envoy(resource: &mut Cluster, balancer: Policy) {
    let policy = match balancer {
        Policy::Latency | Policy::LeastRequest => {
            let config = LeastRequestLbConfig { choice_count: Some(uint32(CHOICES)), ..Default::default() };
            resource.lb_config = Some(LbConfig::LeastRequestLbConfig(config));
            LbPolicy::LeastRequest
        }
        Policy::RoundRobin => LbPolicy::RoundRobin,
        Policy::Random => LbPolicy::Random,
    };
    resource.lb_policy = policy.into();
}

/// Adds the balancer in gRPC's form, as a list of policies. gRPC uses the first policy that it supports. Not every gRPC
/// implementation supports `least_request`, so the list ends with a policy that all of them support.
fn balance_as_grpc(resource: &mut Cluster, balancer: Policy) {
    let policy = |name: &str, config: Any| load_balancing_policy::Policy {
        typed_extension_config: Some(core::TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) }),
    };
    let round_robin = policy("round_robin", any(&RoundRobin::default()));
    // A locality's weight is its number of ready endpoints, so that every ready endpoint gets an equal share.
    let by_locality =
        WrrLocality { endpoint_picking_policy: Some(LoadBalancingPolicy { policies: vec![round_robin] }) };
    let mut policies = vec![policy("wrr_locality", any(&by_locality))];
    if matches!(balancer, Policy::Latency | Policy::LeastRequest) {
        let least = LeastRequest { choice_count: Some(uint32(CHOICES)), ..Default::default() };
        policies.insert(0, policy("least_request", any(&least)));
    }
    resource.load_balancing_policy = Some(LoadBalancingPolicy { policies });
}

/// Returns the balancer in `lb_policy`, for a Cluster without the fact [`BALANCER`], or with an unknown balancer there.
fn usual_balancer(resource: &Cluster) -> Policy {
    match LbPolicy::try_from(resource.lb_policy) {
        Ok(LbPolicy::RoundRobin) => Policy::RoundRobin,
        Ok(LbPolicy::LeastRequest) => Policy::LeastRequest,
        Ok(LbPolicy::Random) => Policy::Random,
        _ => Policy::default(),
    }
}

fn circuit_breakers(cluster: &mesh::Cluster, dialect: Dialect) -> CircuitBreakers {
    let per_host = Thresholds {
        max_connections: Some(uint32(cluster.settings.max_connections_per_endpoint.into())),
        ..Default::default()
    };
    let budget = match &cluster.retry_budget {
        _ if dialect != Dialect::Envoy => None,
        None => Some(BudgetSettings::default()),
        Some(budget) => Some(budget.value).filter(|_| !budget.is_audited()),
    };
    // Without these values, Envoy and gRPC (gRFC A32) would limit a cluster to 1,024 requests, and Envoy also to 1,024
    // connections and 3 retries. The mesh limits only retries, by a budget. Releases of grpc-java before 1.69 read a
    // value above this one as a negative number, and would send no call.
    let unlimited = || Some(uint32(i32::MAX as u32));
    let thresholds = Thresholds {
        max_connections: unlimited(),
        max_pending_requests: unlimited(),
        max_requests: unlimited(),
        max_retries: unlimited(),
        retry_budget: budget.as_ref().map(call_policy::envoy_budget),
        ..Default::default()
    };
    CircuitBreakers { thresholds: vec![thresholds], per_host_thresholds: vec![per_host] }
}

/// Returns the name and the value of Envoy's extension for the protocol, the idle timeout and the maximum age of
/// connections.
fn protocol_options(cluster: &mesh::Cluster) -> (String, Any) {
    let http1 = core::Http1ProtocolOptions::default;
    let http2 = core::Http2ProtocolOptions::default;
    let explicit = |protocol_config| {
        UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig { protocol_config: Some(protocol_config) })
    };
    let upstream_protocol_options = match cluster.protocol {
        Protocol::Http2 => explicit(explicit_http_config::ProtocolConfig::Http2ProtocolOptions(http2())),
        Protocol::Http1 | Protocol::Opaque => {
            explicit(explicit_http_config::ProtocolConfig::HttpProtocolOptions(http1()))
        }
        Protocol::Detect => UpstreamProtocolOptions::UseDownstreamProtocolConfig(UseDownstreamHttpConfig {
            http_protocol_options: Some(http1()),
            http2_protocol_options: Some(http2()),
            ..Default::default()
        }),
    };
    let common = core::HttpProtocolOptions {
        idle_timeout: Some(duration(cluster.settings.idle_timeout)),
        max_connection_duration: cluster.settings.max_connection_age.map(duration),
        ..Default::default()
    };
    let options = upstream::HttpProtocolOptions {
        common_http_protocol_options: Some(common),
        upstream_protocol_options: Some(upstream_protocol_options),
        ..Default::default()
    };
    (upstream::HttpProtocolOptions::full_name(), any(&options))
}

/// Reads a cluster's connection settings. A missing field gets its default value.
fn settings(resource: &Cluster) -> Result<Settings, Unreadable> {
    let bad = |field| Unreadable::new(&resource.name, field, "is out of range");
    let mut settings = Settings::default();
    if let Some(timeout) = &resource.connect_timeout {
        settings.connect_timeout = from_duration(timeout).ok_or_else(|| bad("connect_timeout"))?;
    }
    let thresholds = resource.circuit_breakers.as_ref().and_then(|breakers| breakers.per_host_thresholds.first());
    if let Some(most) = thresholds.and_then(|thresholds| thresholds.max_connections.as_ref()) {
        let most = u16::try_from(most.value).ok().filter(|most| *most > 0);
        settings.max_connections_per_endpoint = most.ok_or_else(|| bad("max_connections"))?;
    }
    let options = resource.typed_extension_protocol_options.get(&upstream::HttpProtocolOptions::full_name());
    let options = options.and_then(from_any::<upstream::HttpProtocolOptions>);
    if let Some(common) = options.and_then(|options| options.common_http_protocol_options) {
        if let Some(timeout) = &common.idle_timeout {
            settings.idle_timeout = from_duration(timeout).ok_or_else(|| bad("idle_timeout"))?;
        }
        if let Some(age) = &common.max_connection_duration {
            settings.max_connection_age = Some(from_duration(age).ok_or_else(|| bad("max_connection_duration"))?);
        }
    }
    Ok(settings)
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
