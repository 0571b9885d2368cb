//! The kubelet's network probes of a Pod's containers, from the Pod's spec.
//!
//! A kubelet has no identity, so policies would deny its probes, and the kubelet would restart a healthy application.
//! The proxy therefore gets the port and the path of each probe on its command line, and allows exactly these requests.
//! These permissions are fixed while the Pod runs, since the command line of a running Pod cannot be changed. A TCP
//! probe sends no request, so it needs no permission. But it would not reach the application: see `tcp`.

use leno_model::policy::{BadPath, GRPC_HEALTH_CHECK, HealthPath, Probe, Probes};
use leno_model::protocol::PortRanges;
use serde_json::Value;

use super::plan::{is_ours, items};
use super::settings::Settings;

/// The proxy's option that allows a probe; it may be repeated.
pub(super) const OPTION: &str = "--probe";

/// The fields of a container that are probes.
const FIELDS: [&str; 3] = ["startupProbe", "livenessProbe", "readinessProbe"];

/// A probe that a kubelet sends to a container over the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProbe {
    /// The probe's field and its container, for example `livenessProbe of container web`.
    pub name: String,
    /// The port that the probe calls; `None` if the probe names a port that the container does not define.
    pub port: Option<u16>,
    /// The request that the proxy allows, or why the proxy cannot allow the probe.
    pub asks: Result<Probe, Unasked>,
}

/// The reason why the proxy cannot allow a probe. The error message names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unasked {
    /// The probe uses HTTPS. The proxy cannot read the probe's request, and must not allow all requests to the port.
    #[error("it uses HTTPS, which the proxy cannot read; use HTTP, or skip its port: leno.dev/skip-inbound-ports")]
    Https,
    /// The path is ambiguous: it could be mistaken for another path.
    #[error("its path cannot be compared: {0}")]
    Path(#[from] BadPath),
    /// The container does not have the probe's port.
    #[error("the container does not have its port; write the port's number")]
    Port,
}

/// A probe in a Pod's spec, of any kind.
pub(super) struct Placed<'a> {
    pub(super) container: &'a Value,
    /// The field of the container, for example `livenessProbe`.
    field: &'static str,
    /// The path of the probe in the Pod or its template.
    pub(super) at: String,
    pub(super) probe: &'a Value,
}

impl Placed<'_> {
    /// Names the probe for users, for example `livenessProbe of container web`.
    pub(super) fn name(&self) -> String {
        format!("{} of container {}", self.field, self.container["name"].as_str().unwrap_or_default())
    }
}

/// Finds all probes of the application in a Pod or a Pod template.
pub(super) fn placed(template: &Value) -> impl Iterator<Item = Placed<'_>> {
    ["/spec/containers", "/spec/initContainers"].into_iter().flat_map(move |list| {
        let containers = items(template, list).iter().enumerate().filter(|(_, container)| !is_ours(container));
        containers.flat_map(move |(index, container)| {
            let probe = move |field: &'static str| {
                let probe = container.get(field)?;
                Some(Placed { container, field, at: format!("{list}/{index}/{field}"), probe })
            };
            FIELDS.into_iter().filter_map(probe)
        })
    })
}

/// Returns the probes with a request to the application in a Pod or a Pod template. Leaves out probes that bypass the
/// proxy: probes of a port in `skipped`, and probes of another host.
pub fn of_pod(template: &Value, skipped: &PortRanges) -> Vec<PodProbe> {
    let probes = placed(template).filter_map(|placed| {
        let (port, asks) = of_container(placed.container, placed.probe)?;
        Some(PodProbe { name: placed.name(), port, asks })
    });
    probes.filter(|probe| probe.port.is_none_or(|port| !skipped.contains(port))).collect()
}

/// Returns the port and the request of a probe; `None` if the probe does not send a request to the application.
fn of_container(container: &Value, probe: &Value) -> Option<(Option<u16>, Result<Probe, Unasked>)> {
    if let Some(grpc) = probe.get("grpc") {
        let port = port(container, &grpc["port"]);
        return Some((port, asks(port, GRPC_HEALTH_CHECK)));
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
    // Drop the query, which policies ignore, and add a missing first slash, as kubelets do.
    let path = written.split('?').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Some((port, asks(port, &path)))
}

/// Returns the number of a probe's port. The probe may give the port by the name that the container defines for it.
pub(super) fn port(container: &Value, port: &Value) -> Option<u16> {
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

/// The proxy's options that allow the probes.
pub(super) fn options(probes: &[PodProbe]) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for probe in probes.iter().filter_map(|probe| probe.asks.as_ref().ok()) {
        // Escape `$(`: otherwise, the kubelet would take a path with `$(NAME)` for a reference to a variable.
        let option = format!("{OPTION}={}", probe.to_string().replace("$(", "$$("));
        if !options.contains(&option) && options.len() < Probes::MAX {
            options.push(option);
        }
    }
    options
}

/// Parses the probes in a proxy's arguments.
pub fn of_arguments(arguments: &[String]) -> Vec<Probe> {
    let value = |argument: &String| argument.strip_prefix(OPTION)?.strip_prefix('=')?.replace("$$(", "$(").parse().ok();
    arguments.iter().filter_map(value).collect()
}

/// Warns of probes that the default inbound policy would deny.
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
