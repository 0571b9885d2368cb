//! Checks whether the ports in policies are ports on which Pods listen. A policy must name the Pod's port, but authors
//! often write the Service's port instead.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use leno_model::policy::AuthorizationPolicy;

use super::report::Finding;
use crate::cluster::pods;

/// Checks the ports in all policies against the Pods that have a proxy.
pub(super) fn findings(meshed: &[&Pod], services: &[Service], policies: &[Arc<AuthorizationPolicy>]) -> Vec<Finding> {
    let mistaken: Vec<Finding> = policies.iter().flat_map(|policy| of_policy(policy, meshed, services)).collect();
    if mistaken.is_empty() {
        vec![Finding::ok("no policy names a Service's port in place of a Pod's")]
    } else {
        mistaken
    }
}

/// Finds the ports in a policy that are probably a Service's port by mistake: no Pod that the policy selects declares
/// the port, and a Service of the selected Pods maps the port to a different Pod port.
fn of_policy(policy: &AuthorizationPolicy, meshed: &[&Pod], services: &[Service]) -> Vec<Finding> {
    let selected: Vec<&Pod> = meshed.iter().copied().filter(|pod| selects(policy, pod)).collect();
    let listens = |port: u16| selected.iter().any(|pod| container_ports(pod).any(|(number, _)| number == port));
    let ports = policy.ports.iter().flatten().copied().filter(|port| !listens(*port));
    let finding = |port: u16| {
        let (service, targets) = services.iter().find_map(|service| {
            let targets = targets(service, port, &selected);
            (!targets.is_empty() && !targets.contains(&port)).then_some((service, targets))
        })?;
        let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let (namespace, name, targets) = (&policy.namespace, &policy.name, targets.join(", "));
        Some(Finding::warning(
            format!(
                "AuthorizationPolicy {namespace}/{name} names port {port}, on which none of its Pods listens; Service {} sends \
                 port {port} to port {targets} of the Pod",
                service.name_any()
            ),
            format!("write {targets} in spec.ports: kubectl edit -n {namespace} authorizationpolicy {name}"),
        ))
    };
    ports.filter_map(finding).collect()
}

fn selects(policy: &AuthorizationPolicy, pod: &Pod) -> bool {
    pod.namespace().as_deref() == Some(&policy.namespace) && policy.selects_account(pods::service_account(pod))
}

/// The ports that a Pod's containers declare, each with its name if it has one.
fn container_ports(pod: &Pod) -> impl Iterator<Item = (u16, Option<&str>)> {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(|port| Some((u16::try_from(port.container_port).ok()?, port.name.as_deref())))
}

/// Returns the Pod ports to which a Service maps its port `port`. Considers only the Pods in `pods` that the Service
/// selects.
fn targets(service: &Service, port: u16, pods: &[&Pod]) -> BTreeSet<u16> {
    let Some(spec) = &service.spec else { return BTreeSet::new() };
    let selector = spec.selector.iter().flatten().collect::<Vec<_>>();
    let is_selected = |pod: &&&Pod| {
        let has = |(key, value): &(&String, &String)| pod.labels().get(*key) == Some(value);
        service.namespace() == pod.namespace() && !selector.is_empty() && selector.iter().all(has)
    };
    let pods = pods.iter().filter(is_selected);
    let of_port: Vec<&ServicePort> = spec.ports.iter().flatten().filter(|own| own.port == i32::from(port)).collect();
    pods.flat_map(|pod| of_port.iter().filter_map(move |own| target(own, pod))).collect()
}

fn target(port: &ServicePort, pod: &Pod) -> Option<u16> {
    match &port.target_port {
        None => u16::try_from(port.port).ok(),
        Some(IntOrString::Int(number)) => u16::try_from(*number).ok(),
        Some(IntOrString::String(name)) => {
            container_ports(pod).find(|(_, own)| *own == Some(name)).map(|(number, _)| number)
        }
    }
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
