//! Checks whether the probes and HTTP lifecycle hooks of kubelets reach the applications. If a policy denies a probe, the
//! kubelet may restart a healthy application. If a TCP probe reaches only the proxy, the kubelet takes a broken
//! application for healthy.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use leno_install::annotations::{PROXY_IMAGE, PROXY_VERSION};
use leno_install::inject::{
    PodProbe, Unasked, Unreplaced, inbound_ports, probes_of_arguments, probes_of_pod, unreplaced_tcp_probes,
};
use leno_model::mesh::Mesh;
use leno_model::policy::{AuthorizationPolicy, Caller, Decision, Reason, Request};
use leno_model::spiffe::{SpiffeId, Workload};

use super::proxies;
use super::report::Finding;
use crate::cluster::pods;

/// Checks the probes of `meshed`, the Pods that have a proxy.
pub(super) fn findings(meshed: &[&Pod], policies: &[Arc<AuthorizationPolicy>]) -> Vec<Finding> {
    let mesh = Mesh::new("default", Vec::new(), [], policies.to_vec(), Vec::new());
    let findings: Vec<Finding> = meshed.iter().flat_map(|pod| of_pod(pod, &mesh)).collect();
    if findings.is_empty() { vec![Finding::ok("no policy denies a probe or a lifecycle hook")] } else { findings }
}

/// A finding for each probe and each lifecycle hook that the Pod's proxy denies, and for each TCP probe that the injector
/// has not replaced.
fn of_pod(pod: &Pod, mesh: &Mesh) -> Vec<Finding> {
    let Ok(template) = serde_json::to_value(pod) else { return Vec::new() };
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let ports = inbound_ports(
        containers.map(|container| (container.name.as_str(), container.args.as_deref().unwrap_or_default())),
    );
    let told = probes_of_arguments(pods::proxy(pod).and_then(|proxy| proxy.args.as_deref()).unwrap_or_default());
    let name = proxies::name(pod);
    let finding = |probe: &PodProbe| {
        if probe.asks.as_ref().is_ok_and(|asked| told.contains(asked)) {
            return None;
        }
        let reason = denial(pod, mesh, probe)?;
        let why = format!("the {} of {name} is denied: {reason}", probe.name);
        Some(match &probe.asks {
            // The check does not know what Services declare about the port.
            Err(unasked @ (Unasked::OpaqueByDefault(_) | Unasked::HookOpaqueByDefault)) => {
                Finding::warning(format!("{why}; {unasked}"), "see docs/policy.md, \"Probes\"")
            }
            Err(unasked) => Finding::failed(format!("{why}; {unasked}"), "see docs/policy.md, \"Probes\""),
            Ok(_) => Finding::failed(format!("{why}; its proxy does not know the probe"), anew(pod)),
        })
    };
    let denied = probes_of_pod(&template, &ports).iter().filter_map(finding).collect::<Vec<_>>();
    let unreplaced = unreplaced_tcp_probes(&template, &ports.skipped).into_iter();
    let blind = unreplaced.map(|Unreplaced { name: probe, obstacle }| match obstacle {
        None => Finding::warning(
            format!("the {probe} of {name} reaches only the proxy, so it succeeds even if the application is down"),
            anew(pod),
        ),
        Some(obstacle) => {
            let fix = format!("in the Pod template: {}", obstacle.fix());
            Finding::warning(format!("the {probe} of {name} {obstacle}"), fix)
        }
    });
    denied.into_iter().chain(blind).collect()
}

/// Returns what to do if an older injector did not know the probes of a Pod. A new Pod is not enough if its manifest brings
/// the proxy of an older `leno inject`, if the injector is still the older one, or if an annotation gives the proxy another
/// version or image: then the injector does not replace TCP probes.
fn anew(pod: &Pod) -> String {
    let restart = proxies::restart(pod);
    format!(
        "if the Pod template has leno-init, run leno inject on it again; otherwise upgrade the control plane, remove \
         {PROXY_VERSION} or {PROXY_IMAGE} if it gives the proxy another version or image than the injector's, then {restart}"
    )
}

/// Returns why the Pod's policies deny a probe from the Pod's node; `None` if they allow the probe.
fn denial(pod: &Pod, mesh: &Mesh, probe: &PodProbe) -> Option<Reason> {
    let namespace = pod.namespace().unwrap_or_default();
    // The trust domain does not matter, because a kubelet has no identity.
    let own = SpiffeId {
        trust_domain: "cluster.local".parse().ok()?,
        workload: Workload { namespace: namespace.into(), service_account: pods::service_account(pod).into() },
    };
    let node = pod.status.as_ref().and_then(|status| status.host_ip.as_deref()?.parse().ok());
    let caller = Caller { identity: None, address: node.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) };
    let policy = mesh.inbound_policy(&own, probe.port?, pods::default_policy(pod).parse().unwrap_or_default());
    let asked = match &probe.asks {
        Ok(asked) | Err(Unasked::Hook(asked)) => Some((asked.method(), asked.target())),
        Err(_) => None,
    };
    let request = asked.as_ref().map(|(method, path)| Request {
        method: method.as_bytes(),
        path: path.as_bytes(),
        upgrade: false,
        // A kubelet sends content only with gRPC probes, whose method is POST.
        has_content: *method == "POST",
    });
    match policy.authorize(&caller, request.as_ref()) {
        Decision::Deny(reason) => Some(reason),
        Decision::Allow | Decision::AllowAudited(_) => None,
    }
}

#[cfg(test)]
#[path = "probes_tests.rs"]
mod tests;
