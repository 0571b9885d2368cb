//! What kubelets ask a Pod's containers over the network, by the Pod's spec.
//!
//! Policies would deny it, since a kubelet has no identity, and the kubelet would end a healthy application. The proxy
//! therefore gets the port and the path of each probe on its command line, which nothing changes later, and lets in
//! exactly those. A TCP probe needs nothing: connecting is all that it does.

use leno_model::policy::{BadPath, HealthPath, Probe, Probes};
use leno_model::protocol::PortRanges;
use serde_json::Value;

use super::settings::Settings;
use crate::names::{INIT, PROXY};

/// The option of the proxy that lets a probe in; it is repeated.
pub(super) const OPTION: &str = "--probe";

const KINDS: [&str; 3] = ["startupProbe", "livenessProbe", "readinessProbe"];
/// What a gRPC probe calls.
const GRPC_PATH: &str = "/grpc.health.v1.Health/Check";

/// A probe that asks a container something over the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProbe {
    /// As `livenessProbe of container web`.
    pub name: String,
    /// The port of the container that it asks, if it has it.
    pub port: Option<u16>,
    /// What the proxy can let in, or why it cannot.
    pub asks: Result<Probe, Unasked>,
}

/// Why the proxy cannot let a probe in; it says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unasked {
    /// Its content cannot be seen, and the whole port must not be open.
    #[error(
        "it asks by HTTPS, which the proxy cannot look into; use HTTP, or skip its port: leno.dev/skip-inbound-ports"
    )]
    Https,
    /// Its path may be taken for another.
    #[error("its path cannot be compared: {0}")]
    Path(#[from] BadPath),
    /// It has no port that the container has.
    #[error("its port is none of the container's; write its number")]
    Port,
}

/// The probes of a Pod, or of its template, that ask its application. What they ask beside the proxy, at skipped ports and
/// at other hosts, is left out.
pub fn of_pod(template: &Value, skipped: &PortRanges) -> Vec<PodProbe> {
    let list = |name: &str| template.pointer(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let containers = list("/spec/containers").iter().chain(list("/spec/initContainers"));
    let text = |container: &Value| container["name"].as_str().unwrap_or_default().to_owned();
    let applications = containers.filter(|container| ![INIT, PROXY].contains(&text(container).as_str()));
    let probes = applications.flat_map(|container| {
        let name = text(container);
        let found =
            KINDS.into_iter().filter_map(move |kind| Some((kind, of_container(container, container.get(kind)?)?)));
        found.map(move |(kind, (port, asks))| PodProbe { name: format!("{kind} of container {name}"), port, asks })
    });
    probes.filter(|probe| probe.port.is_none_or(|port| !skipped.contains(port))).collect()
}

/// The port that a probe asks, and what it asks there; `None` if it asks nothing of the application.
fn of_container(container: &Value, probe: &Value) -> Option<(Option<u16>, Result<Probe, Unasked>)> {
    if let Some(grpc) = probe.get("grpc") {
        let port = port(container, &grpc["port"]);
        return Some((port, asks(port, GRPC_PATH)));
    }
    let http = probe.get("httpGet")?;
    if http["host"].as_str().is_some_and(|host| !host.is_empty()) {
        return None;
    }
    let port = port(container, &http["port"]);
    if http["scheme"].as_str().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")) {
        return Some((port, Err(Unasked::Https)));
    }
    let written = http["path"].as_str().unwrap_or_default();
    // The query does not matter, and kubelets add what a path begins with.
    let path = written.split('?').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Some((port, asks(port, &path)))
}

/// The number of a port, which may be given by the name that the container has for it.
fn port(container: &Value, port: &Value) -> Option<u16> {
    let named = |name: &str| {
        let mut ports = container["ports"].as_array().into_iter().flatten();
        ports.find(|port| port["name"] == name)?["containerPort"].as_u64()
    };
    let number = port.as_u64().or_else(|| named(port.as_str()?))?;
    u16::try_from(number).ok().filter(|port| *port != 0)
}

fn asks(port: Option<u16>, path: &str) -> Result<Probe, Unasked> {
    let path: HealthPath = path.parse()?;
    Ok(Probe { port: port.ok_or(Unasked::Port)?, path })
}

/// The options of the proxy that let the probes in.
pub(super) fn options(probes: &[PodProbe]) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for probe in probes.iter().filter_map(|probe| probe.asks.as_ref().ok()) {
        // The kubelet would put a variable's value in place of its name.
        let option = format!("{OPTION}={}", probe.to_string().replace("$(", "$$("));
        if !options.contains(&option) && options.len() < Probes::MAX {
            options.push(option);
        }
    }
    options
}

/// The probes that a proxy was told of, by its arguments.
pub fn told(arguments: &[String]) -> Vec<Probe> {
    let value = |argument: &String| argument.strip_prefix(OPTION)?.strip_prefix('=')?.replace("$$(", "$(").parse().ok();
    arguments.iter().filter_map(value).collect()
}

/// Tells of probes that the default inbound policy would deny.
pub(super) fn warnings(probes: &[PodProbe], settings: &Settings) -> Vec<String> {
    let policy = settings.default_inbound_policy.as_str();
    if matches!(policy, "all-unauthenticated" | "audit") {
        return Vec::new();
    }
    let refused = probes.iter().filter_map(|probe| Some((&probe.name, probe.asks.as_ref().err()?)));
    refused.map(|(name, why)| format!("the {name} is denied by the default inbound policy {policy}: {why}")).collect()
}

#[cfg(test)]
#[path = "probes_tests.rs"]
mod tests;
