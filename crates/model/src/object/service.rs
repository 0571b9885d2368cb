//! A v1 Service: the ports to which calls are sent, and the addresses that applications use.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as kubernetes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::annotations::Headless;
use super::{DNS_LABEL_RULE, Identity, Object, annotations, identity, is_dns_label, is_tcp, port_number};
use crate::balance::Policy;
use crate::manifest::Review;
use crate::problem::{Mark, quoted};
use crate::protocol::{PortRanges, Protocol, declares_tls};
use crate::settings::Settings;
use crate::traffic::Objectives;

/// Maximum number of TCP ports of one Service that the mesh serves. Kubernetes allows about 14,000 ports in a Service,
/// and each port has its own list of endpoints, its own policies and its own table of routes.
pub(crate) const PORTS_MAX: usize = 1_024;

/// A Service, reduced to the values that the mesh uses.
#[derive(Clone, Debug)]
pub struct Service {
    /// The Service's name, a DNS label, and where it was defined.
    pub identity: Identity,
    /// The Service's virtual addresses; empty if the Service is headless or the addresses are unknown.
    pub cluster_ips: Box<[IpAddr]>,
    /// Whether the Service is headless (`clusterIP: None`): its DNS name resolves to the addresses of the endpoints.
    pub headless: bool,
    /// Where calls to the endpoints' own addresses go if the Service is headless. If `None`, calls to a Pod with a
    /// hostname are direct, and others are balanced.
    pub calls_to_endpoints: Option<Headless>,
    /// The Service's TCP ports, `PORTS_MAX` at most; numbers and names are unique. Empty if calls cannot be sent to the
    /// Service, for example because it is an ExternalName.
    pub ports: Box<[ServicePort]>,
    /// Number of further TCP ports, which the mesh does not serve.
    pub ports_left_out: usize,
    /// The balancer (annotation `leno.dev/balancer`).
    pub balancer: Policy,
    /// Opaque ports of the Service or of its endpoints: the proxy relays their bytes without inspection (annotation
    /// `leno.dev/opaque-ports`). This setting takes precedence over other protocol settings.
    pub opaque_ports: PortRanges,
    /// The objectives for calls to the Service (annotation `leno.dev/objective`).
    pub objectives: Option<Arc<Objectives>>,
    /// The connection settings, from the annotations that [`Settings`] lists.
    pub settings: Settings,
}

/// One TCP port of a [`Service`].
#[derive(Clone, Debug)]
pub struct ServicePort {
    /// The port number that clients use.
    pub port: u16,
    /// The name by which EndpointSlices refer to the port; empty if the Service's only port has no name.
    pub name: Box<str>,
    /// The protocol from `appProtocol`, if set.
    pub protocol: Option<Protocol>,
    /// Whether `appProtocol` declares that the endpoints themselves speak TLS.
    pub is_tls: bool,
    /// Index of the port in `spec.ports`.
    pub index: usize,
    /// Position of the port's definition in the file.
    pub mark: Mark,
}

impl Service {
    /// Returns a Service with the name, addresses and ports of `newer`, but with the annotation values of `self`.
    pub(super) fn with_spec_of(&self, newer: &Self) -> Self {
        let Self { identity, cluster_ips, headless, ports, ports_left_out, .. } = newer.clone();
        Self { identity, cluster_ips, headless, ports, ports_left_out, ..self.clone() }
    }
}

/// Checks a Service and extracts what the mesh needs. If only annotations are invalid, the result is the Service
/// without the invalid annotations.
pub(crate) fn review(service: kubernetes::Service, review: &mut Review<'_>) -> Option<Object> {
    let identity = identity(&service.metadata, review, is_dns_label, DNS_LABEL_RULE);
    let spec = service.spec.unwrap_or_default();
    match spec.type_.as_deref().unwrap_or("ClusterIP") {
        "ClusterIP" | "NodePort" | "LoadBalancer" => {}
        "ExternalName" => {
            let what = "ExternalName is an alias in DNS and has no endpoints";
            review.problem("spec.type", what, "use ClusterIP and an EndpointSlice with the addresses");
            return None;
        }
        other => {
            let what = format!("{} is not a type of Service", quoted(other));
            review.problem("spec.type", what, "use ClusterIP, NodePort or LoadBalancer");
        }
    }
    without_effect(&spec, review);
    let ips = cluster_ips(&spec, review);
    let ports = ports(&spec.ports.unwrap_or_default(), review);
    let is_usable = review.is_clean();
    let object = annotated(identity, ips, ports, &service.metadata, review);
    is_usable.then_some(object)
}

/// Adds a notice about each field that kube-proxy follows and the mesh does not.
fn without_effect(spec: &kubernetes::ServiceSpec, review: &mut Review<'_>) {
    let any = "calls from meshed Pods go to any ready endpoint";
    if spec.session_affinity.as_deref() == Some("ClientIP") {
        review.notice("spec.sessionAffinity", format!("ClientIP has no effect: {any}"));
    }
    if spec.internal_traffic_policy.as_deref() == Some("Local") {
        review.notice("spec.internalTrafficPolicy", format!("Local has no effect: {any}, on all nodes"));
    }
}

/// Returns a Service to which calls cannot be sent: an ExternalName, or a Service without ports.
pub(crate) fn without_ports(metadata: &ObjectMeta, review: &mut Review<'_>) -> Object {
    let identity = identity(metadata, review, is_dns_label, DNS_LABEL_RULE);
    annotated(identity, (Box::default(), false), (Box::default(), 0), metadata, review)
}

/// Returns a Service with these parts and with the values of its annotations.
fn annotated(
    identity: Identity,
    (cluster_ips, headless): (Box<[IpAddr]>, bool),
    (ports, ports_left_out): (Box<[ServicePort]>, usize),
    metadata: &ObjectMeta,
    review: &mut Review<'_>,
) -> Object {
    let annotations = annotations::of_service(metadata.annotations.as_ref(), review);
    let annotations::OfService { balancer, opaque_ports, objectives, settings, headless: calls_to_endpoints } =
        annotations;
    Object::Service(Arc::new(Service {
        identity,
        cluster_ips,
        headless,
        calls_to_endpoints,
        ports,
        ports_left_out,
        balancer,
        opaque_ports,
        objectives,
        settings,
    }))
}

/// Reads `clusterIP` and `clusterIPs`. As in Kubernetes, the first address in `clusterIPs` must equal `clusterIP`.
fn cluster_ips(spec: &kubernetes::ServiceSpec, review: &mut Review<'_>) -> (Box<[IpAddr]>, bool) {
    const NONE: &str = "None";
    let first = spec.cluster_ip.as_deref().unwrap_or_default();
    let all = spec.cluster_ips.as_deref().unwrap_or_default();
    if let Some(other) = all.first().filter(|other| !first.is_empty() && *other != first) {
        let what = format!("{} is not clusterIP, which is {}", quoted(other), quoted(first));
        review.problem("spec.clusterIPs[0]", what, "write the same address in both, or in one of them");
    }
    let mut addresses: Vec<(String, &str)> = Vec::new();
    if all.is_empty() {
        addresses.push(("spec.clusterIP".to_owned(), first));
    }
    for (index, address) in all.iter().enumerate() {
        addresses.push((format!("spec.clusterIPs[{index}]"), address));
    }
    let mut ips = Vec::new();
    for (field, address) in &addresses {
        match address.parse() {
            Ok(ip) => ips.push(ip),
            Err(_) if matches!(*address, "" | NONE) => {}
            Err(_) => {
                let what = format!("{} is not an IP address", quoted(address));
                review.problem(field, what, "write one such as 10.96.0.10, or None");
            }
        }
    }
    let headless = addresses.iter().any(|(_, address)| *address == NONE);
    (ips.into(), headless)
}

/// Reads the first [`PORTS_MAX`] TCP ports. Also returns the number of further TCP ports.
fn ports(ports: &[kubernetes::ServicePort], review: &mut Review<'_>) -> (Box<[ServicePort]>, usize) {
    if ports.is_empty() {
        review.problem("spec.ports", "no ports", "list at least one port");
    }
    let (mut read, mut left_out): (Vec<ServicePort>, usize) = Default::default();
    // The index of the first port with each number, and of the first port with each name. Kubernetes does not limit the
    // number of ports: with 14,000 of them, a search through all earlier ports would take seconds.
    let (mut numbers, mut names): (HashMap<u16, usize>, HashMap<&str, usize>) = Default::default();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{index}]");
        let name = port.name.as_deref().unwrap_or_default();
        if name.is_empty() && ports.len() > 1 {
            let what = "missing, and there are several ports";
            review.problem(&format!("{field}.name"), what, "name each port");
        }
        if !is_tcp(port.protocol.as_deref(), &field, review) {
            review.notice(&field, "not TCP: calls are not sent to this port");
            continue;
        }
        let Some(number) = port_number(port.port) else {
            let what = format!("{} is not a port", port.port);
            review.problem(&format!("{field}.port"), what, "use 1 to 65535");
            continue;
        };
        let first = *numbers.entry(number).or_insert(index);
        if first != index {
            let what = format!("{number} is the port of spec.ports[{first}] already");
            review.problem(&format!("{field}.port"), what, "use another number");
        }
        let first = *names.entry(name).or_insert(index);
        if first != index && !name.is_empty() {
            let what = format!("{} is the name of spec.ports[{first}] already", quoted(name));
            review.problem(&format!("{field}.name"), what, "use another name");
        }
        if read.len() == PORTS_MAX {
            left_out += 1;
            continue;
        }
        read.push(ServicePort {
            port: number,
            name: name.into(),
            protocol: port.app_protocol.as_deref().and_then(|text| protocol(text, &field, review)),
            is_tls: port.app_protocol.as_deref().is_some_and(declares_tls),
            index,
            mark: review.mark(&field),
        });
    }
    (read.into(), left_out)
}

/// Reads `appProtocol`; adds a notice if the protocol is unknown.
fn protocol(text: &str, field: &str, review: &mut Review<'_>) -> Option<Protocol> {
    let protocol = Protocol::from_app_protocol(text);
    if protocol.is_none() {
        let what = format!(
            "Leno does not know the protocol {}: it detects the protocol from the first bytes, as without appProtocol",
            quoted(text)
        );
        review.notice(&format!("{field}.appProtocol"), what);
    }
    protocol
}
