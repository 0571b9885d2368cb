//! Checks whether the addresses of meshed Pods and of Services are in the cluster networks. While a proxy cannot reach the
//! control plane, it assumes that an unknown address outside of these networks is outside of the mesh. It then relays
//! connections to this address without encrypting or balancing them, and applies no routes.
//!
//! Node addresses are not checked: Pods on their node's network have no proxy, so calls to a node's address are never
//! encrypted.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use leno_model::policy::Network;
use leno_model::proxy::CLUSTER_NETWORKS;

use super::kubernetes::API_SERVER;
use super::proxies::name;
use super::read::Installed;
use super::report::{Checklist, Finding};
use crate::cluster::installer::Installer;
use crate::cluster::pods;

pub(super) const NETWORKS: &str = "cluster networks";

/// Adds the check to the current section.
pub(super) fn conclude(list: &mut Checklist, facts: &Installed) {
    list.check(NETWORKS, &[API_SERVER], || match (&facts.meshed, &facts.services) {
        (Ok(meshed), Ok(services)) => {
            let services = services.as_deref().unwrap_or_default();
            findings(meshed, services, &facts.options().proxy.cluster_networks, &facts.installer())
        }
        (Err(error), _) | (_, Err(error)) => error.into(),
    });
}

/// Returns a warning for each object with an address outside of the networks, or one finding with the verdict ok.
/// `setting` is the chart value; if it is empty, the proxy's default applies.
fn findings(meshed: &[Pod], services: &[Service], setting: &str, installer: &Installer) -> Vec<Finding> {
    let setting = if setting.is_empty() { CLUSTER_NETWORKS } else { setting };
    let networks: Vec<Network> = setting.split(',').filter_map(|network| network.parse().ok()).collect();
    let fix = format!(
        "add its network: {}; then restart the workloads, so that their proxies get the new value",
        installer.set(&format!("proxy.clusterNetworks={setting},NETWORK"))
    );
    let of_pods = meshed.iter().filter(|pod| pods::is_meshed(pod) && pods::is_alive(pod)).filter_map(|pod| {
        let outside = first_outside(pod_addresses(pod), &networks)?;
        Some(warning(&format!("Pod {}", name(pod)), outside, &fix))
    });
    let of_services = services.iter().filter_map(|service| {
        let outside = first_outside(cluster_ips(service), &networks)?;
        let namespace = service.namespace().unwrap_or_default();
        Some(warning(&format!("Service {namespace}/{}", service.name_any()), outside, &fix))
    });
    let found: Vec<Finding> = of_pods.chain(of_services).collect();
    if found.is_empty() { vec![Finding::ok("they have all addresses of meshed Pods and of Services")] } else { found }
}

fn warning(object: &str, outside: IpAddr, fix: &str) -> Finding {
    let why = format!(
        "{object} has the address {outside}, which is outside of the cluster networks: calls to it could leave \
         unencrypted while the control plane cannot be reached"
    );
    Finding::warning(why, fix)
}

fn first_outside<'a>(addresses: impl Iterator<Item = &'a str>, networks: &[Network]) -> Option<IpAddr> {
    // A headless Service has the clusterIP "None".
    let mut addresses = addresses.filter_map(|address| address.parse::<IpAddr>().ok());
    addresses.find(|address| !networks.iter().any(|network| network.contains(*address)))
}

fn pod_addresses(pod: &Pod) -> impl Iterator<Item = &str> {
    let status = pod.status.as_ref();
    let all = status.and_then(|status| status.pod_ips.as_deref()).unwrap_or_default();
    status.and_then(|status| status.pod_ip.as_deref()).into_iter().chain(all.iter().map(|pod_ip| pod_ip.ip.as_str()))
}

fn cluster_ips(service: &Service) -> impl Iterator<Item = &str> {
    let spec = service.spec.as_ref();
    let all = spec.and_then(|spec| spec.cluster_ips.as_deref()).unwrap_or_default();
    let first = spec.and_then(|spec| spec.cluster_ip.as_deref());
    first.into_iter().chain(all.iter().map(String::as_str))
}

#[cfg(test)]
#[path = "networks_tests.rs"]
mod tests;
