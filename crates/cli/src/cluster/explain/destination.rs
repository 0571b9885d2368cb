//! Finds the Service and the port to which a call in a cluster goes, or the Pod if the user named a single Pod. If they do
//! not exist, suggests Services and ports that the user may have meant.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use super::pod_name::PodName;
use crate::cluster::connect::{Cluster, ClusterError};
use crate::cluster::printable::listed;
use crate::cluster::service_port::ServicePort;

/// Maximum number of existing Service ports that an error message suggests.
const OTHERS_MAX: usize = 8;

/// The destination of a call in a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// The call's `:authority`, in the form `cart.shop:80`.
    pub(super) authority: String,
    /// The clusterIP and port to which clients connect, the address of the Pod that the user named, or the address that
    /// the user named. `None` if the Service is headless, does not exist or cannot be read; the proxy then finds the
    /// Service by `authority`.
    pub(super) address: Option<SocketAddr>,
    /// Whether clients connect to the own addresses of the Service's endpoints.
    pub(super) is_headless: bool,
}

impl Destination {
    /// Finds the destination that `text` names. `namespace` is the namespace of the caller.
    pub(super) async fn find(cluster: &Cluster, text: &str, namespace: &str) -> Result<Self, ClusterError> {
        if let Ok(address) = text.parse() {
            return Ok(Self { authority: text.to_owned(), address: Some(address), is_headless: false });
        }
        let pod = PodName::parse(text, namespace);
        let wanted = match (ServicePort::parse(text, namespace), &pod) {
            (Err(_), Some(pod)) => return pod.find(cluster).await,
            (wanted, _) => wanted?,
        };
        let api = || cluster.within::<Service>(&wanted.namespace);
        let service = cluster.get(api(), &wanted.name).await;
        // `db-0.db` is a Service in namespace `db`, or a Pod of the Service `db` in the caller's namespace.
        if let Some(pod) = &pod
            && !matches!(service, Ok(Some(_)))
            && let Ok(found) = pod.find(cluster).await
        {
            return Ok(found);
        }
        match (service, wanted.port) {
            (Ok(Some(service)), _) => Self::of(&wanted, &service),
            // Let the proxy explain the call even if the Service does not exist, or if the user has no right to read
            // Services.
            (Ok(None) | Err(_), Some(port)) => Ok(Self::by_name(&wanted, port)),
            // The list of Services only improves the error message, so ignore a failed list request: the user may have
            // no right to list Services.
            (Ok(None), None) => Err(no_service(&wanted, &cluster.list(api(), "").await.unwrap_or_default())),
            (Err(error), None) => {
                let fix = format!("name the port of the Service, as {}:PORT", wanted.host());
                Err(ClusterError::new(format!("the ports of {} are unknown: {}", wanted.host(), error.what), fix))
            }
        }
    }

    fn of(wanted: &ServicePort, service: &Service) -> Result<Self, ClusterError> {
        let port = wanted.choose(tcp_ports(service))?;
        let ip = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
        let address = ip.and_then(|ip| ip.parse().ok()).map(|ip| SocketAddr::new(ip, port));
        Ok(Self { address, is_headless: ip == Some("None"), ..Self::by_name(wanted, port) })
    }

    fn by_name(wanted: &ServicePort, port: u16) -> Self {
        Self { authority: format!("{}:{port}", wanted.host()), address: None, is_headless: false }
    }
}

fn tcp_ports(service: &Service) -> Vec<u16> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let tcp = ports.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
    tcp.filter_map(|port| u16::try_from(port.port).ok()).collect()
}

/// Returns the error that the Service does not exist. `others` are the existing Services of its namespace.
fn no_service(wanted: &ServicePort, others: &[Service]) -> ClusterError {
    let ports = |service: &Service| {
        let name = service.name_any();
        tcp_ports(service).into_iter().map(move |port| format!("{name}.{}:{port}", wanted.namespace))
    };
    let mut known: Vec<String> = others.iter().flat_map(ports).collect();
    known.sort_unstable();
    let more = known.len().saturating_sub(OTHERS_MAX);
    known.truncate(OTHERS_MAX);
    let fix = match known.is_empty() {
        true => "list Services with kubectl get services -A".to_owned(),
        false => format!("the namespace has {}", listed(&known, more)),
    };
    ClusterError::new(format!("there is no Service {} in namespace {}", wanted.name, wanted.namespace), fix)
}

#[cfg(test)]
#[path = "destination_tests.rs"]
mod tests;
