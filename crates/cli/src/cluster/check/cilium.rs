//! Checks whether Cilium lets the proxies see the addresses of Services.
//!
//! Cilium's socket load balancing replaces the clusterIP in a program's `connect` by the address of one Pod. This
//! happens before netfilter redirects the connection to the proxy, so the proxy cannot know the Service.

use k8s_openapi::api::core::v1::ConfigMap;

use super::kubernetes::API_SERVER;
use super::report::{Checklist, Finding};

/// The ConfigMap with the configuration of Cilium's agents.
pub(super) const CONFIG: &str = "cilium-config";
pub(super) const NAMESPACE: &str = "kube-system";

/// Adds the check to the current section. `config` is `None` if Cilium is not installed, or if the user may not read
/// its configuration.
pub(super) fn conclude(list: &mut Checklist, config: Option<&ConfigMap>) {
    if let Some(config) = config {
        list.check("Cilium", &[API_SERVER], || socket_balancing(config));
    }
}

fn socket_balancing(config: &ConfigMap) -> Finding {
    let is_on = |key| is_true(value(config, key));
    // Since version 1.14, Cilium knows only the values true and false. In older versions, disabled also switches off
    // the features that other keys switch on, and partial switches on no feature by itself.
    let is_used = match value(config, "kube-proxy-replacement") {
        "strict" | "probe" => true,
        replaces if is_true(replaces) => true,
        "disabled" => false,
        _ => is_on("bpf-lb-sock") || is_on("enable-host-reachable-services"),
    };
    if !is_used {
        return Finding::ok("its socket load balancing is off");
    }
    if is_on("bpf-lb-sock-hostns-only") {
        return Finding::ok("its socket load balancing applies to nodes, not to Pods");
    }
    Finding::failed(
        "its socket load balancing chooses a Pod for each connection to a clusterIP before the proxy sees the \
         connection: Leno does not balance these calls, and applies no routes, retries or TrafficPolicies to them",
        format!(
            "set socketLB.hostNamespaceOnly=true in the Helm values of Cilium, then restart Cilium's agents: kubectl \
             rollout restart -n {NAMESPACE} daemonset/cilium"
        ),
    )
}

/// Cilium reads booleans as Go's `strconv.ParseBool` does.
fn is_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Returns the value of a key, or an empty text if the key is missing.
fn value<'a>(config: &'a ConfigMap, key: &str) -> &'a str {
    config.data.as_ref().and_then(|data| data.get(key)).map_or("", |value| value.trim())
}

#[cfg(test)]
#[path = "cilium_tests.rs"]
mod tests;
