//! The endpoints of a cluster: the ClusterLoadAssignment resource.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use leno_model::mesh::{Cluster, ClusterKey, Endpoint, EndpointProxy};
use leno_model::proxy;
use prost::Message;

use crate::error::Unreadable;
use crate::facts::{CONTROLLER, Facts, HOSTNAME, IDENTITY, INBOUND_PORT, POD, TARGET_PORT, TUNNEL_PORT};
use crate::limits::{ENDPOINTS_MAX, RESOURCE_MAX_BYTES};
use crate::name::{self, NOWHERE};
use crate::pb::core::{HealthStatus, Locality};
use crate::pb::endpoint::{self, ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints, lb_endpoint};
use crate::proto::{address, from_address, uint32};
use crate::tls;
use crate::view::{Dialect, View};

/// The endpoints of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    pub key: ClusterKey,
    /// Endpoints that may get calls, sorted by address.
    pub ready: Vec<Endpoint>,
    /// Endpoints that are not ready, sorted by address.
    pub unready: Vec<Endpoint>,
}

/// Writes a cluster's endpoints, grouped by zone.
pub fn write(cluster: &Cluster, view: View<'_>) -> ClusterLoadAssignment {
    let by_tls = tls::is_used(cluster, view).then_some(view.dialect);
    let mut zones: BTreeMap<Option<&str>, LocalityLbEndpoints> = BTreeMap::new();
    let ready = cluster.endpoints.iter().map(|endpoint| (endpoint, HealthStatus::Healthy));
    let unready = cluster.unready_endpoints.iter().map(|endpoint| (endpoint, HealthStatus::Unhealthy));
    for (endpoint, health) in ready.chain(unready) {
        let zone = endpoint.zone.as_deref();
        let locality = zones.entry(zone).or_insert_with(|| empty_locality(zone));
        locality.lb_endpoints.push(write_one(endpoint, health, by_tls));
        if health == HealthStatus::Healthy {
            // gRPC selects localities by weight, and ignores a locality without a weight.
            locality.load_balancing_weight.get_or_insert(uint32(0)).value += 1;
        }
    }
    ClusterLoadAssignment {
        cluster_name: cluster.key.to_string(),
        endpoints: zones.into_values().collect(),
        ..Default::default()
    }
}

/// Writes the empty endpoints of the cluster [`NOWHERE`].
pub fn write_nowhere() -> ClusterLoadAssignment {
    ClusterLoadAssignment { cluster_name: NOWHERE.to_owned(), ..Default::default() }
}

/// Reads a cluster's endpoints.
///
/// # Errors
/// [`Unreadable`] if the bytes are not a ClusterLoadAssignment that Leno writes.
pub fn read(bytes: &[u8]) -> Result<Endpoints, Unreadable> {
    const KIND: &str = "ClusterLoadAssignment";
    if bytes.len() > RESOURCE_MAX_BYTES {
        return Err(Unreadable::new("", KIND, format!("has more than {RESOURCE_MAX_BYTES} bytes")));
    }
    let resource =
        ClusterLoadAssignment::decode(bytes).map_err(|error| Unreadable::new("", KIND, error.to_string()))?;
    let name = &resource.cluster_name;
    let bad = |field, what: String| Unreadable::new(name, field, what);
    let key = name::cluster_key(name).ok_or_else(|| bad("cluster_name", "is not service.namespace:port".to_owned()))?;
    let count: usize = resource.endpoints.iter().map(|locality| locality.lb_endpoints.len()).sum();
    if count > ENDPOINTS_MAX {
        return Err(bad("endpoints", format!("are more than {ENDPOINTS_MAX}")));
    }
    let mut endpoints = Endpoints { key, ready: Vec::new(), unready: Vec::new() };
    for locality in &resource.endpoints {
        let zone = locality.locality.as_ref().map(|locality| locality.zone.as_str()).filter(|zone| !zone.is_empty());
        for lb_endpoint in &locality.lb_endpoints {
            let endpoint = read_one(lb_endpoint, zone).map_err(|(field, what)| bad(field, what.to_owned()))?;
            let is_ready = matches!(
                HealthStatus::try_from(lb_endpoint.health_status),
                Ok(HealthStatus::Healthy | HealthStatus::Unknown)
            );
            let list = if is_ready { &mut endpoints.ready } else { &mut endpoints.unready };
            list.push(endpoint);
        }
    }
    endpoints.ready.sort_by_key(|endpoint| endpoint.address);
    endpoints.unready.sort_by_key(|endpoint| endpoint.address);
    let mut seen = BTreeSet::new();
    for endpoint in endpoints.ready.iter().chain(&endpoints.unready) {
        if !seen.insert(endpoint.address) {
            return Err(bad("address", format!("{} is there twice", endpoint.address)));
        }
    }
    Ok(endpoints)
}

fn empty_locality(zone: Option<&str>) -> LocalityLbEndpoints {
    let zone = zone.unwrap_or_default().to_owned();
    LocalityLbEndpoints { locality: Some(Locality { zone, ..Default::default() }), ..Default::default() }
}

/// Writes an endpoint. `by_tls` is the client's dialect if the client uses mutual TLS to endpoints behind proxies,
/// otherwise `None`.
fn write_one(endpoint: &Endpoint, health: HealthStatus, by_tls: Option<Dialect>) -> LbEndpoint {
    let proxy = endpoint.proxy.as_ref();
    let mut facts = Facts::default()
        .with_some(POD, endpoint.pod.as_deref())
        .with_some(CONTROLLER, endpoint.controller.as_ref())
        .with_some(HOSTNAME, endpoint.hostname.as_deref())
        .with_some(IDENTITY, proxy.map(|proxy| &proxy.identity))
        .with_some(INBOUND_PORT, proxy.and_then(|proxy| proxy.inbound_port))
        .with_some(TUNNEL_PORT, proxy.map(|proxy| proxy.tunnel_port));
    let mut at = endpoint.address;
    if let (Some(_), Some(port)) = (by_tls, proxy.and_then(|proxy| proxy.inbound_port)) {
        facts = facts.with(TARGET_PORT, &at.port());
        at.set_port(port);
    }
    let mut metadata = facts.metadata();
    if by_tls == Some(Dialect::Envoy) && proxy.is_some() {
        metadata = Some(tls::mark(endpoint, metadata.unwrap_or_default()));
    }
    let identifier = endpoint::Endpoint { address: Some(address(at)), ..Default::default() };
    LbEndpoint {
        host_identifier: Some(lb_endpoint::HostIdentifier::Endpoint(identifier)),
        health_status: health.into(),
        metadata,
        ..Default::default()
    }
}

fn read_one(lb_endpoint: &LbEndpoint, zone: Option<&str>) -> Result<Endpoint, (&'static str, &'static str)> {
    let Some(lb_endpoint::HostIdentifier::Endpoint(identifier)) = &lb_endpoint.host_identifier else {
        return Err(("endpoint", "is missing"));
    };
    let address = identifier.address.as_ref().and_then(from_address);
    let mut address: SocketAddr = address.ok_or(("address", "is no IP address with a port"))?;
    let facts = Facts::from_metadata(lb_endpoint.metadata.as_ref());
    let port = |name| match facts.get(name).map(str::parse::<u16>) {
        None => Ok(None),
        Some(Ok(port)) if port != 0 => Ok(Some(port)),
        Some(_) => Err((name, "is no port")),
    };
    if let Some(target_port) = port(TARGET_PORT)? {
        address.set_port(target_port);
    }
    let proxy = match facts.get(IDENTITY) {
        None => None,
        Some(identity) => Some(EndpointProxy {
            identity: identity.parse().map_err(|_| (IDENTITY, "names no workload"))?,
            inbound_port: port(INBOUND_PORT)?,
            tunnel_port: port(TUNNEL_PORT)?.unwrap_or(proxy::TUNNEL_PORT),
        }),
    };
    let boxed = |name| facts.get(name).map(Into::into);
    Ok(Endpoint {
        address,
        zone: zone.map(Into::into),
        hostname: boxed(HOSTNAME),
        pod: boxed(POD),
        // Only metrics use the controller, so omit a controller of an unknown kind instead of rejecting the resource.
        controller: facts.get(CONTROLLER).and_then(|controller| controller.parse().ok()),
        proxy,
    })
}

#[cfg(test)]
#[path = "endpoints_tests.rs"]
mod tests;
