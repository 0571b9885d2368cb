//! A user's own workload: the Service that the load calls, the request, and the Pods behind the Service.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort as PortOfService};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams};

use super::access::Access;
use super::endpoints::ReadyEndpoints;
use super::mesh::{Mesh, Proxies};
use super::nodes::Nodes;
use super::pods::{Pods, has_container, name};
use super::usage::ContainerName;
use super::workload_options::{PortName, Request, ServicePort};
use crate::error::{Error, Result};
use crate::experiment::record::{self, Protocol};
use crate::kubernetes::refused;
use crate::load::{Client, Exchange};
use crate::reflect::{ask_server, call};

/// The label of an EndpointSlice with the name of its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// A user's workload that is ready to be called.
pub(super) struct Workload {
    /// The Service's cluster IP and port, and the authority of the calls.
    pub(super) client: Client,
    pub(super) exchange: Exchange,
    /// Number of ready endpoints of the Service's port.
    pub(super) servers: usize,
    /// The Pods among the ready endpoints.
    pods: Vec<Pod>,
    namespace: String,
    pub(super) description: record::Workload,
}

/// A port of a Service with a cluster IP.
#[derive(Debug, PartialEq, Eq)]
struct Called {
    address: SocketAddr,
    /// The port's name in the Service and in EndpointSlices; empty without a name.
    port_name: String,
}

impl Workload {
    /// Finds the Service and its Pods, and encodes the request. Creates nothing.
    ///
    /// # Errors
    /// If the Service cannot be called or has no such method, or if the request does not fit the method. The error is
    /// one line that names the option.
    pub(super) async fn find(access: &Access, service: &ServicePort, request: Request) -> Result<Self> {
        let namespace = service.namespace.clone().unwrap_or_else(|| access.client.default_namespace().to_owned());
        let ServicePort { name: service_name, port, .. } = service;
        let unusable = |why: String| Error::Usage(format!("--service {namespace}/{service_name}:{port}: {why}"));
        let what = || format!("looking for the Service {namespace}/{service_name}");
        let services: Api<Service> = Api::namespaced(access.client.clone(), &namespace);
        let found = services.get_opt(service_name).await.map_err(refused(what()))?;
        let missing = || format!("there is no such Service; kubectl get services -n {namespace} lists them");
        let found = found.ok_or_else(|| unusable(missing()))?;
        let Called { address, port_name } = called(&found, port).map_err(unusable)?;

        let slices: Api<EndpointSlice> = Api::namespaced(access.client.clone(), &namespace);
        let of_service = format!("{SERVICE_LABEL}={service_name}");
        let slices = slices.list(&ListParams::default().labels(&of_service)).await.map_err(refused(what()))?;
        let ready = ReadyEndpoints::of(&slices.items, &port_name);
        if ready.count() == 0 {
            let see = format!("kubectl get endpointslices -n {namespace} -l {of_service}");
            return Err(unusable(format!("no endpoint is ready; do the Service's Pods run? See {see}")));
        }
        let pods = Pods::new(access.client.clone(), &namespace, &Nodes::default());
        let description = record::Workload {
            service: format!("{namespace}/{service_name}:{port}"),
            call: match &request {
                Request::Call { method, .. } => method.to_string(),
                Request::Get { path, .. } => format!("GET {path}"),
            },
        };
        Ok(Self {
            exchange: exchange(request, &ready, &pods).await?,
            client: Client { address, authority: format!("{service_name}.{namespace}:{}", address.port()) },
            servers: ready.count(),
            pods: pods.all().await?.into_iter().filter(|pod| ready.pods.contains_key(&name(pod))).collect(),
            namespace,
            description,
        })
    }

    /// The proxies of a mesh in the Pods behind the Service. Pods without a proxy are left out.
    pub(super) fn proxies(&self, mesh: Mesh) -> Vec<ContainerName> {
        let Proxies::Sidecars(proxy) = mesh.proxies() else { return Vec::new() };
        let meshed = self.pods.iter().filter(|pod| has_container(pod, proxy));
        let container =
            |pod| ContainerName { namespace: self.namespace.clone(), pod: name(pod), container: proxy.to_owned() };
        meshed.map(container).collect()
    }
}

/// Encodes a user's request as an exchange. If the user gave no descriptors of a gRPC method, gets them from the
/// reflection service of a Pod.
async fn exchange(request: Request, ready: &ReadyEndpoints, pods: &Pods) -> Result<Exchange> {
    match request {
        Request::Get { path, protocol: Protocol::Http2 } => Ok(Exchange::Http2Get(path)),
        Request::Get { path, .. } => Ok(Exchange::Http1Get(path)),
        Request::Call { method, json, descriptors: Some(descriptors) } => {
            Ok(Exchange::Call(call(&descriptors, &method, &json)?))
        }
        Request::Call { method, json, descriptors: None } => {
            let (pod, port) = ready.pods.first_key_value().ok_or_else(|| {
                Error::Usage(format!(
                    "--call {method}: no endpoint of the Service is a Pod, and the lab asks a Pod for its reflection; use \
                     --descriptor-set FILE"
                ))
            })?;
            let descriptors = ask_server(pods.channel(pod, *port), &method).await?;
            Ok(Exchange::Call(call(&descriptors, &method, &json)?))
        }
    }
}

/// Returns the address and the names of a Service's port; an error text if the load cannot call the port.
fn called(service: &Service, wanted: &PortName) -> std::result::Result<Called, String> {
    const NO_IP: &str = "the load needs a cluster IP; make a Service with one for the same Pods";
    let spec = service.spec.as_ref();
    let ip = match spec.and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default() {
        "None" => return Err(format!("the Service is headless: {NO_IP}")),
        "" => return Err(format!("the Service has no cluster IP: {NO_IP}")),
        ip => ip.parse::<IpAddr>().map_err(|_| format!("its cluster IP {ip:?} is no address"))?,
    };
    let is_tcp = |port: &&PortOfService| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    let ports = || spec.and_then(|spec| spec.ports.as_ref()).into_iter().flatten().filter(is_tcp);
    let is_wanted = |port: &&PortOfService| match wanted {
        PortName::Number(number) => port.port == i32::from(*number),
        PortName::Name(name) => port.name.as_ref() == Some(name),
    };
    let Some(port) = ports().find(is_wanted) else {
        let of = |port: &PortOfService| match &port.name {
            Some(name) => format!("{} ({name})", port.port),
            None => port.port.to_string(),
        };
        let all: Vec<String> = ports().map(of).collect();
        return Err(format!("the Service has no such TCP port; its ports are: {}", all.join(", ")));
    };
    let number = u16::try_from(port.port).map_err(|_| format!("its port {} is no port number", port.port))?;
    Ok(Called { address: SocketAddr::new(ip, number), port_name: port.name.clone().unwrap_or_default() })
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
