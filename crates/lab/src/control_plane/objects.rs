//! The lab's Kubernetes objects, all with the lab's label.

use std::net::{Ipv4Addr, SocketAddrV4};

use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use leno_install::annotations::INJECT;
use leno_install::names::MANAGED_BY_LABEL;

use super::plan::{CALLED, NAMESPACE, PORT, Plan, TARGET_PORT, name};

const PORT_NAME: &str = "grpc";

/// A namespace whose workloads get the trust bundle.
pub(super) fn namespace(name: &str) -> Namespace {
    let mut metadata = metadata(name);
    metadata.annotations = Some([(INJECT.to_owned(), "enabled".to_owned())].into());
    Namespace { metadata, ..Default::default() }
}

pub(super) fn account(name: &str) -> ServiceAccount {
    ServiceAccount { metadata: metadata(name), ..Default::default() }
}

/// A Service without a selector, so that only the lab writes its endpoints.
pub(super) fn service(number: u32) -> Service {
    let port = ServicePort {
        name: Some(PORT_NAME.to_owned()),
        port: PORT.into(),
        app_protocol: Some("kubernetes.io/h2c".to_owned()),
        ..Default::default()
    };
    let spec = ServiceSpec { ports: Some(vec![port]), ..Default::default() };
    Service { metadata: metadata(&name(number)), spec: Some(spec), ..Default::default() }
}

/// Creates the EndpointSlice of a Service. No endpoint has a proxy, because no endpoint is a Pod.
///
/// If the address `served` of a real server is given, the Services in [`CALLED`] get other endpoints: the first
/// endpoint has the address `served`, and the others are not ready.
pub(super) fn slice(plan: &Plan, number: u32, served: Option<SocketAddrV4>) -> EndpointSlice {
    let mut metadata = metadata(&name(number));
    metadata.labels.get_or_insert_default().insert("kubernetes.io/service-name".to_owned(), name(number));
    let served = served.filter(|_| CALLED.contains(&number));
    let addresses = plan.addresses(number);
    let endpoints = match served {
        Some(address) => {
            let others = addresses.get(1..).unwrap_or_default().iter().map(|&address| endpoint(address, false));
            std::iter::once(endpoint(*address.ip(), true)).chain(others).collect()
        }
        None => endpoints(&addresses),
    };
    let port = EndpointPort {
        name: Some(PORT_NAME.to_owned()),
        port: Some(served.map_or(TARGET_PORT, |address| address.port()).into()),
        ..Default::default()
    };
    EndpointSlice { address_type: "IPv4".to_owned(), endpoints: Some(endpoints), metadata, ports: Some(vec![port]) }
}

/// Creates endpoints that are ready.
pub(super) fn endpoints(addresses: &[Ipv4Addr]) -> Vec<Endpoint> {
    addresses.iter().map(|&address| endpoint(address, true)).collect()
}

fn endpoint(address: Ipv4Addr, is_ready: bool) -> Endpoint {
    let conditions = EndpointConditions { ready: Some(is_ready), ..Default::default() };
    Endpoint { addresses: vec![address.to_string()], conditions: Some(conditions), ..Default::default() }
}

fn metadata(name: &str) -> ObjectMeta {
    let labels = [(MANAGED_BY_LABEL.to_owned(), NAMESPACE.to_owned())].into();
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..Default::default() }
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
