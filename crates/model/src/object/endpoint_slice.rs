//! Reads a discovery.k8s.io/v1 EndpointSlice, which contains some of the endpoints of one Service.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1 as kubernetes;

use super::{DNS_SUBDOMAIN_RULE, Identity, Object, annotations, identity, is_dns_subdomain, is_tcp, port_number};
use crate::manifest::Review;
use crate::mesh::{Controller, EndpointProxy};
use crate::problem::{Mark, quoted};
use crate::protocol::PortRanges;

/// The label that names the Service of a slice.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The parts of an EndpointSlice that the mesh keeps.
#[derive(Clone, Debug)]
pub struct EndpointSlice {
    /// The slice's name, and the position of its definition.
    pub identity: Identity,
    /// The name of the Service to which the slice belongs. It is in the slice's namespace.
    pub service: Box<str>,
    /// The TCP ports of the endpoints. All endpoints of the slice have the same ports.
    pub ports: Box<[SlicePort]>,
    /// Position of the ports in the file.
    pub ports_mark: Mark,
    /// The Leno proxy of every endpoint of the slice; `None` if the slice declares no proxy.
    pub proxy: Option<EndpointProxy>,
    /// The controller of the Pods of all endpoints of the slice, if known.
    pub controller: Option<Controller>,
    /// The endpoints, in the object's order.
    pub addresses: Box<[Address]>,
}

/// One TCP port of an [`EndpointSlice`].
#[derive(Clone, Debug)]
pub struct SlicePort {
    /// The name of the port, which is the name of the corresponding port of the Service.
    pub name: Box<str>,
    /// The number of the port on which the endpoints listen.
    pub port: u16,
}

/// One endpoint of an [`EndpointSlice`], without the ports, which the slice contains.
#[derive(Clone, Debug)]
pub struct Address {
    pub ip: IpAddr,
    /// Whether the endpoint may get calls.
    pub readiness: Readiness,
    /// The endpoint's zone, if known.
    pub zone: Option<Box<str>>,
    /// The endpoint's hostname, the first label of its own DNS name. A StatefulSet's Pods have hostnames; `None` for an
    /// endpoint without one.
    pub hostname: Option<Box<str>>,
    /// The name of the endpoint's Pod, if the endpoint is a Pod.
    pub pod: Option<Box<str>>,
    /// The namespace of the Pod `pod`; `None` if it is the slice's namespace.
    pub pod_namespace: Option<Box<str>>,
    /// The Leno proxy that the endpoint's Pod declares. It takes precedence over the proxy of the slice.
    pub proxy: Option<EndpointProxy>,
    /// The controller of the Pod `pod`. It takes precedence over the controller of the slice.
    pub controller: Option<Controller>,
    /// Ports on which connections bypass the endpoint's proxy.
    pub skipped_ports: PortRanges,
    /// Ports for which the endpoint's proxy does not detect the protocol.
    pub opaque_ports: PortRanges,
}

/// Whether an endpoint may get calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    Ready,
    /// The endpoint is terminating, but still accepts calls. It gets calls only if no endpoint is ready.
    Draining,
    Unready,
}

impl EndpointSlice {
    /// Returns a slice with the name, Service, ports and addresses of `newer`, but with the annotation values of
    /// `self`.
    pub(super) fn with_spec_of(&self, newer: &Self) -> Self {
        Self { proxy: self.proxy.clone(), controller: self.controller.clone(), ..newer.clone() }
    }
}

/// Checks an EndpointSlice, and extracts the parts that the mesh keeps.
///
/// Returns `None` in these cases:
/// - The slice names no Service.
/// - The slice has a mistake outside of its annotations.
/// - The slice declares proxies without a valid identity. Without the identity, clients would call these proxies
///   without TLS.
///
/// If only other annotations are invalid, the result contains only the endpoints that name a Pod.
pub(crate) fn review(slice: kubernetes::EndpointSlice, review: &mut Review<'_>) -> Option<Object> {
    let identity = identity(&slice.metadata, review, is_dns_subdomain, DNS_SUBDOMAIN_RULE);
    let address_type = slice.address_type.as_str();
    let is_address: fn(&IpAddr) -> bool = match address_type {
        "IPv4" => IpAddr::is_ipv4,
        "IPv6" => IpAddr::is_ipv6,
        "FQDN" => {
            let what = "addresses of type FQDN are names, and the mesh does not resolve names";
            review.problem("addressType", what, "use IPv4 or IPv6 and write addresses");
            return None;
        }
        "" => {
            review.problem("addressType", "missing", "use IPv4 or IPv6");
            return None;
        }
        other => {
            let what = format!("{} is not a type of address", quoted(other));
            review.problem("addressType", what, "use IPv4 or IPv6");
            return None;
        }
    };
    let ports = ports(&slice.ports.unwrap_or_default(), review);
    let mut addresses = Vec::new();
    for (index, endpoint) in slice.endpoints.unwrap_or_default().into_iter().enumerate() {
        let field = format!("endpoints[{index}].addresses");
        // Use only the first address, as kube-proxy does: Kubernetes does not define what further addresses mean.
        if endpoint.addresses.len() > 1 {
            let what = "only the first address is used: give each of the others an endpoint of its own";
            review.notice(&field, what);
        }
        let text = endpoint.addresses.first().map_or("", String::as_str);
        match text.parse().ok().filter(is_address) {
            Some(ip) => addresses.push(address(ip, endpoint, &identity.namespace)),
            None if text.is_empty() => review.problem(&field, "no address", "list one"),
            None => {
                let what = format!("{} is not an {address_type} address", quoted(text));
                let fix = "correct it, or list it in a slice of its own addressType";
                review.problem(&format!("{field}[0]"), what, fix);
            }
        }
    }
    let is_usable = review.is_clean();
    let annotations = annotations::of_slice(slice.metadata.annotations.as_ref(), review);
    let Some(service) = slice.metadata.labels.and_then(|mut labels| labels.remove(SERVICE_LABEL)) else {
        let what = format!("belongs to no Service: add the label {SERVICE_LABEL} with the Service's name");
        review.notice("metadata.labels", what);
        return None;
    };
    let annotations::OfSlice { proxy, controller } = annotations.filter(|_| is_usable)?;
    if !review.is_clean() {
        addresses.retain(|address| address.pod.is_some());
    }
    let slice = EndpointSlice {
        identity,
        service: service.into(),
        ports,
        ports_mark: review.mark("ports"),
        proxy,
        controller,
        addresses: addresses.into(),
    };
    Some(Object::EndpointSlice(Arc::new(slice)))
}

fn ports(ports: &[kubernetes::EndpointPort], review: &mut Review<'_>) -> Box<[SlicePort]> {
    let mut read: Vec<SlicePort> = Vec::new();
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("ports[{index}]");
        let name = port.name.as_deref().unwrap_or_default();
        if !is_tcp(port.protocol.as_deref(), &field, review) {
            continue;
        }
        let Some(number) = port.port.and_then(port_number) else {
            let what = match port.port {
                Some(port) => format!("{port} is not a port"),
                None => "missing".to_owned(),
            };
            review.problem(&format!("{field}.port"), what, "use 1 to 65535");
            continue;
        };
        if !names.insert(name) {
            let what = format!("{} is the name of another port already", quoted(name));
            review.problem(&format!("{field}.name"), what, "give each port a name of its own");
        }
        read.push(SlicePort { name: name.into(), port: number });
    }
    read.into()
}

fn address(ip: IpAddr, endpoint: kubernetes::Endpoint, own_namespace: &str) -> Address {
    let pod = endpoint.target_ref.filter(|target| target.kind.as_deref() == Some("Pod"));
    let (pod, pod_namespace) = pod.map_or((None, None), |target| (target.name, target.namespace));
    Address {
        ip,
        readiness: readiness(endpoint.conditions.as_ref()),
        zone: endpoint.zone.map(Into::into),
        hostname: endpoint.hostname.map(Into::into),
        pod: pod.map(Into::into),
        pod_namespace: pod_namespace.filter(|name| name != own_namespace && !name.is_empty()).map(Into::into),
        proxy: None,
        controller: None,
        skipped_ports: PortRanges::default(),
        opaque_ports: PortRanges::default(),
    }
}

/// Derives the readiness of an endpoint from its conditions. A missing condition has the default that Kubernetes
/// documents: ready, serving, not terminating.
fn readiness(conditions: Option<&kubernetes::EndpointConditions>) -> Readiness {
    let Some(conditions) = conditions else {
        return Readiness::Ready;
    };
    let serving = conditions.serving.unwrap_or(true);
    let terminating = conditions.terminating.unwrap_or(false);
    match conditions.ready.unwrap_or(true) {
        true => Readiness::Ready,
        false if serving && terminating => Readiness::Draining,
        false => Readiness::Unready,
    }
}
