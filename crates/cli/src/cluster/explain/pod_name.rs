//! The DNS name of a single Pod: `db-0.db.shop.svc.cluster.local`. It leads to the Pod's own address, so the proxy sees a
//! connection to this address. Pods of a StatefulSet have such names, and Pods with `hostname` and `subdomain`.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use super::destination::Destination;
use crate::cluster::connect::{Cluster, ClusterError};
use crate::cluster::printable::{cut, listed};

/// The label of an EndpointSlice that names the slice's Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Maximum number of Pods of the Service that an error message suggests.
const OTHERS_MAX: usize = 8;

/// The DNS name of a Pod, and the port if the user named one. It is a port of the Pod: no clusterIP translates it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PodName {
    /// The Pod's hostname, or its address with `-` in place of `.` and `:`, as Kubernetes names a Pod without a hostname.
    host: String,
    service: String,
    namespace: String,
    port: Option<u16>,
}

impl PodName {
    /// Parses `db-0.db`, `db-0.db.shop` or `db-0.db.shop.svc.cluster.local`, each with or without a port. If the text has
    /// no namespace, uses `namespace`. `None` if the text cannot be the name of a Pod.
    pub(super) fn parse(text: &str, namespace: &str) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (text, None),
        };
        let mut labels = host.trim_end_matches('.').split('.');
        let (host, service, third) = (labels.next()?, labels.next()?, labels.next());
        // The third label of a Service's name is `svc`.
        let has_form = third != Some("svc") && matches!(labels.next(), None | Some("svc"));
        let namespace = third.unwrap_or(namespace);
        let is_valid = has_form && [host, service, namespace].into_iter().all(is_label);
        let lower = |text: &str| text.to_ascii_lowercase();
        is_valid.then(|| Self { host: lower(host), service: lower(service), namespace: lower(namespace), port })
    }

    /// Finds the address of the Pod.
    pub(super) async fn find(&self, cluster: &Cluster) -> Result<Destination, ClusterError> {
        let labels = format!("{SERVICE_LABEL}={}", self.service);
        let slices =
            cluster.list::<EndpointSlice>(cluster.within(&self.namespace), &labels).await.map_err(|error| {
                let fix =
                    "write the Pod's address and port in place of its name; kubectl get pods -o wide shows the address";
                ClusterError::new(format!("the address of {} is unknown: {}", self.name(), error.what), fix)
            })?;
        self.among(&slices)
    }

    fn among(&self, slices: &[EndpointSlice]) -> Result<Destination, ClusterError> {
        let service = format!("{}.{}", self.service, self.namespace);
        let get = format!("kubectl get endpointslices -n {} -l {SERVICE_LABEL}={}", self.namespace, self.service);
        let ready =
            slices.iter().flat_map(|slice| slice.endpoints.iter().flatten().map(move |endpoint| (slice, endpoint)));
        // DNS has no name for a Pod that is not ready, unless its Service publishes such Pods: then they count as ready.
        let ready = ready.filter(|(_, endpoint)| is_ready(endpoint));
        let named: Vec<(&EndpointSlice, String, IpAddr)> = ready
            .filter_map(|(slice, endpoint)| named(endpoint).map(|(name, address)| (slice, name, address)))
            .collect();
        let Some((slice, _, address)) = named.iter().find(|(_, name, _)| *name == self.host) else {
            let mut others: Vec<String> = named.iter().map(|(_, name, _)| name.clone()).collect();
            others.sort_unstable();
            others.dedup();
            let omitted = cut(&mut others, OTHERS_MAX);
            let fix = match others.is_empty() {
                true => format!("{get} shows the endpoints of the Service"),
                false => format!("the Service has the endpoints {}", listed(&others, omitted)),
            };
            return Err(ClusterError::new(format!("Service {service} has no ready endpoint {}", self.host), fix));
        };
        let port = self.port.or_else(|| only_port(slice)).ok_or_else(|| {
            let what = format!("{} does not have exactly one TCP port", self.name());
            ClusterError::new(what, format!("write a port of the Pod: {}:PORT; {get} -o yaml shows them", self.name()))
        })?;
        let address = Some(SocketAddr::new(*address, port));
        Ok(Destination { authority: format!("{}:{port}", self.name()), address, is_headless: false })
    }

    fn name(&self) -> String {
        format!("{}.{}.{}", self.host, self.service, self.namespace)
    }
}

/// The name of an endpoint in DNS, and its address.
fn named(endpoint: &Endpoint) -> Option<(String, IpAddr)> {
    let text = endpoint.addresses.first()?;
    let name = endpoint.hostname.clone().unwrap_or_else(|| text.replace(['.', ':'], "-"));
    Some((name, text.parse().ok()?))
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false)
}

/// The port of a slice that has only one TCP port. In an EndpointSlice, it is already the port of the Pod.
fn only_port(slice: &EndpointSlice) -> Option<u16> {
    let ports = slice.ports.iter().flatten();
    let mut tcp = ports.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
    let port = tcp.next()?.port.and_then(|port| u16::try_from(port).ok())?;
    tcp.next().is_none().then_some(port)
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
#[path = "pod_name_tests.rs"]
mod tests;
