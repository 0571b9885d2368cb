//! Finds parts of a Pod that conflict with the proxy, or with the sidecar for gRPC, or that may keep them from starting.

use leno_model::problem::quoted;
use leno_model::proxy;
use serde_json::Value;

use super::containers::PROXY_UID;
use super::plan::is_ours;
use super::settings::Settings;
use super::skip::{containers, windows_hint};
use crate::annotations::{ADMIN_PORT, Bearer, INBOUND_PORT, INJECT, Mistake, OUTBOUND_PORT, TAP_PORT};

/// Describes the allowed ports in the error for a proxy that would use one port for two purposes.
pub(super) const OTHER_PORT: &str = "a port that the proxy does not use for something else";

/// Finds every conflict: ports that both the proxy and a container use, containers that run as the proxy's user, and a
/// DNS policy with which the proxy could not find the control plane. The traffic redirection exempts the proxy's user,
/// so connections of a container that runs as this user would bypass the proxy.
pub(super) fn find(template: &Value, settings: &Settings) -> Vec<Mistake> {
    let twice = used_twice(settings).into_iter();
    let mut found: Vec<_> =
        twice.map(|(name, port)| Mistake::annotation(Bearer::Pod, name, &port.to_string(), OTHER_PORT)).collect();
    let whole = template.pointer("/spec/securityContext/runAsUser").and_then(Value::as_i64);
    for container in containers(template) {
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        if is_ours(container) {
            continue;
        }
        let ports = container.get("ports").and_then(Value::as_array).into_iter().flatten();
        let numbers = ports.filter(|port| is_tcp(port)).filter_map(|port| port.get("containerPort")?.as_i64());
        found.extend(numbers.filter_map(|port| port_conflict(name, port, settings)));
        let user = container.pointer("/securityContext/runAsUser").and_then(Value::as_i64).or(whole);
        if user == Some(PROXY_UID) {
            found.push(Mistake::Conflict {
                what: format!("container {name} runs as user {PROXY_UID}, whose connections are taken for the proxy's"),
                fix: format!("give it another runAsUser, or annotate {INJECT}: disabled"),
            });
        }
    }
    found
}

/// Returns warnings about fields of the Pod that may keep our containers, and so the Pod, from starting. `program` is the
/// container that connects to the control plane.
pub(super) fn warnings(template: &Value, program: &str) -> impl Iterator<Item = String> {
    [dns_warning(template, program), selinux_warning(template), windows_warning(template)].into_iter().flatten()
}

/// Returns a warning if the Pod has an SELinux type, which applies to our containers too. Unlike the default AppArmor
/// profile, the default SELinux type has no common name, so our containers cannot ask for it.
fn selinux_warning(template: &Value) -> Option<String> {
    let own = template.pointer("/spec/securityContext/seLinuxOptions/type")?.as_str().filter(|own| !own.is_empty())?;
    Some(format!(
        "the Pod's seLinuxOptions.type {} applies to Leno's containers too, and may keep them from starting; set it in the \
         securityContext of the application's containers instead",
        quoted(own)
    ))
}

/// Returns a warning if the Pod seems to run on Windows, without the fields by which the injector recognizes such a Pod.
fn windows_warning(template: &Value) -> Option<String> {
    let hint = windows_hint(template)?;
    Some(format!(
        "{hint} suggests that the Pod runs on Windows, where Leno's containers cannot start; if it does, set spec.os.name: \
         windows, and the Pod gets none"
    ))
}

/// Returns a warning if our container `program` may not be able to resolve the control plane's name. With the DNS policy
/// `Default`, a Pod uses the DNS servers of its node, which usually do not know the names of the cluster's Services. With
/// `None`, a Pod uses the DNS servers in its own spec. We do not know which DNS servers know the cluster's Services.
fn dns_warning(template: &Value, program: &str) -> Option<String> {
    let policy = template.pointer("/spec/dnsPolicy")?.as_str()?;
    let servers = match policy {
        "Default" => "the node's DNS servers",
        "None" => "the DNS servers in dnsConfig",
        _ => return None,
    };
    Some(format!(
        "with dnsPolicy: {policy}, {program} asks {servers}; if they do not know the cluster's Services, the Pod never starts; \
         use dnsPolicy: ClusterFirst"
    ))
}

/// Finds ports that the proxy would use for two purposes. Returns each port with the annotation that sets it.
pub(super) fn used_twice(settings: &Settings) -> Vec<(&'static str, u16)> {
    let mut taken = Vec::new();
    let mut twice = Vec::new();
    for (annotation, port) in own(settings) {
        match annotation {
            Some(name) if taken.contains(&port) => twice.push((name, port)),
            _ => taken.push(port),
        }
    }
    twice
}

fn port_conflict(container: &str, port: i64, settings: &Settings) -> Option<Mistake> {
    let (annotation, _) = own(settings).into_iter().find(|own| i64::from(own.1) == port)?;
    let fix = match annotation {
        Some(name) => format!("give the proxy another port with the annotation {name}"),
        None => format!("let the container listen elsewhere, or annotate {INJECT}: disabled"),
    };
    Some(Mistake::Conflict { what: format!("container {container} listens on {port}, a port of the proxy's"), fix })
}

/// The proxy's ports, each with the annotation that sets it; `None` if no annotation can change the port.
fn own(settings: &Settings) -> [(Option<&'static str>, u16); 5] {
    [
        (None, proxy::TUNNEL_PORT),
        (Some(INBOUND_PORT), settings.inbound_port),
        (Some(OUTBOUND_PORT), settings.outbound_port),
        (Some(ADMIN_PORT), settings.admin_port),
        (Some(TAP_PORT), settings.tap_port),
    ]
}

fn is_tcp(port: &Value) -> bool {
    port.get("protocol").is_none_or(|protocol| protocol == "TCP")
}
