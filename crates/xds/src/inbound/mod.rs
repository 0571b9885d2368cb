//! The Listener `inbound`, for a workload's own proxy: the workload's HTTP ports, and the policies that select the
//! workload.
//!
//! One RBAC filter (`rbac`) expresses all policies; its principals (`principal`) are the allowed callers. The
//! Listener's metadata (`facts`) contains what the filter cannot express: the workloads that each policy selects, the
//! trust domain of the workload and its HTTP ports.

mod principal;
mod rbac;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use leno_model::mesh::HTTP_PORTS_MAX;
use leno_model::policy::{AuthorizationPolicy, Mode};
use leno_model::proxy::INBOUND_PORT;
use leno_model::spiffe::TrustDomain;
use prost::Message;

use crate::error::Unreadable;
use crate::facts::{Facts, HTTP_PORTS, TARGET, TRUST_DOMAIN, UNREADABLE};
use crate::limits::RESOURCE_MAX_BYTES;
use crate::listener::{http_chain, router};
use crate::name::INBOUND;
use crate::pb::core::TrafficDirection;
use crate::pb::http::{HttpConnectionManager, HttpFilter, http_connection_manager, http_filter};
use crate::pb::listener::{Listener, filter};
use crate::pb::route::{NonForwardingAction, Route, RouteConfiguration, VirtualHost, route};
use crate::pb::route::{RouteMatch, route_match};
use crate::pb::{BoolValue, RbacFilter};
use crate::proto::{address, from_any};

/// The name of the filter with the policies.
const RBAC: &str = "envoy.filters.http.rbac";
/// The target of a policy that selects every workload of its namespace. No service account can have this name.
const EVERY: &str = "*";

/// The settings with which a workload's proxy checks calls to the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbound {
    /// The policies that select the workload, sorted by name.
    pub policies: Vec<Arc<AuthorizationPolicy>>,
    /// The workload's ports that Services declare to be HTTP, at most [`HTTP_PORTS_MAX`].
    pub http_ports: Vec<u16>,
}

/// Writes the Listener `inbound` of one workload. `policies` are the policies that select the workload; `trust_domain`
/// is the workload's trust domain.
pub fn write<'a>(
    policies: impl IntoIterator<Item = &'a AuthorizationPolicy>,
    http_ports: &[u16],
    trust_domain: &TrustDomain,
) -> Listener {
    let policies: Vec<&AuthorizationPolicy> = policies.into_iter().collect();
    let target = |policy: &AuthorizationPolicy| policy.service_account.clone().unwrap_or_else(|| EVERY.into());
    let ports = http_ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let facts = Facts::default().with(TRUST_DOMAIN, trust_domain);
    let facts = facts.with_some(HTTP_PORTS, Some(ports).filter(|ports| !ports.is_empty()));
    let facts = policies.iter().fold(facts, |facts, policy| {
        let name = rbac::name(policy);
        let unreadable = (policy.mode == Mode::Unreadable).then_some("true");
        facts.with(format!("{TARGET}{name}"), &target(policy)).with_some(&format!("{UNREADABLE}{name}"), unreadable)
    });
    let rbac = HttpFilter {
        name: RBAC.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(rbac::write(&policies, trust_domain))),
        ..Default::default()
    };
    let manager = HttpConnectionManager {
        stat_prefix: INBOUND.to_owned(),
        route_specifier: Some(http_connection_manager::RouteSpecifier::RouteConfig(to_the_application())),
        http_filters: vec![rbac, router()],
        ..Default::default()
    };
    Listener {
        name: INBOUND.to_owned(),
        // Envoy requires an address in every Listener, although this Listener does not bind its port.
        address: Some(address(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), INBOUND_PORT))),
        bind_to_port: Some(BoolValue { value: false }),
        traffic_direction: TrafficDirection::Inbound.into(),
        filter_chains: vec![http_chain(&manager)],
        metadata: facts.metadata(),
        ..Default::default()
    }
}

/// Reads the Listener that [`write()`] wrote. Rejects everything that it does not understand: if it skipped a condition
/// of a policy, the policy would allow more callers than intended.
///
/// # Errors
/// [`Unreadable`] if the bytes are not the Listener that Leno writes.
pub fn read(bytes: &[u8]) -> Result<Inbound, Unreadable> {
    let bad = |field, what: String| Unreadable::new(INBOUND, field, what);
    if bytes.len() > RESOURCE_MAX_BYTES {
        return Err(bad("Listener", format!("has more than {RESOURCE_MAX_BYTES} bytes")));
    }
    let resource = Listener::decode(bytes).map_err(|error| bad("Listener", error.to_string()))?;
    let filter =
        filter(&resource).ok_or_else(|| bad("http_filters", "are not one RBAC filter and a router".to_owned()))?;
    let facts = Facts::from_metadata(resource.metadata.as_ref());
    let trust_domain = facts.get(TRUST_DOMAIN).and_then(|text| text.parse().ok());
    let trust_domain: TrustDomain =
        trust_domain.ok_or_else(|| bad(TRUST_DOMAIN, "is missing in the metadata".to_owned()))?;
    let policies = rbac::read(&filter, &trust_domain, &facts).map_err(|(field, what)| bad(field, what))?;
    Ok(Inbound { policies, http_ports: http_ports(&facts).map_err(|what| bad(HTTP_PORTS, what))? })
}

fn http_ports(facts: &Facts) -> Result<Vec<u16>, String> {
    let Some(text) = facts.get(HTTP_PORTS) else { return Ok(Vec::new()) };
    let port = |text: &str| text.parse().map_err(|_| format!("{} is no port", text.escape_debug()));
    let ports = text.split(',').take(HTTP_PORTS_MAX + 1).map(port).collect::<Result<Vec<u16>, String>>()?;
    if ports.len() > HTTP_PORTS_MAX { Err(format!("are more than {HTTP_PORTS_MAX}")) } else { Ok(ports) }
}

/// Finds the only RBAC filter of the only filter chain.
fn filter(resource: &Listener) -> Option<RbacFilter> {
    let [chain] = &resource.filter_chains[..] else { return None };
    let [manager] = &chain.filters[..] else { return None };
    let Some(filter::ConfigType::TypedConfig(manager)) = &manager.config_type else { return None };
    let manager: HttpConnectionManager = from_any(manager)?;
    let [filter, _router] = &manager.http_filters[..] else { return None };
    let Some(http_filter::ConfigType::TypedConfig(config)) = &filter.config_type else { return None };
    from_any(config)
}

/// Returns the routes behind the filter: allowed requests go to the application.
fn to_the_application() -> RouteConfiguration {
    let everything =
        RouteMatch { path_specifier: Some(route_match::PathSpecifier::Prefix(String::new())), ..Default::default() };
    let route = Route {
        r#match: Some(everything),
        action: Some(route::Action::NonForwardingAction(NonForwardingAction {})),
        ..Default::default()
    };
    let host = VirtualHost {
        name: INBOUND.to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![route],
        ..Default::default()
    };
    RouteConfiguration { name: INBOUND.to_owned(), virtual_hosts: vec![host], ..Default::default() }
}

#[cfg(test)]
mod engine;
#[cfg(test)]
mod tests;
