//! The kubelet's network probes and HTTP lifecycle hooks of a Pod's containers, from the Pod's spec.
//!
//! A kubelet has no identity, so policies would deny its probes, and the kubelet would restart a healthy application.
//! The proxy therefore gets the port, the path and the query of each probe on its command line, and allows exactly
//! these requests. These permissions are fixed while the Pod runs, since the command line of a running Pod cannot be
//! changed. A TCP probe sends no request, so it needs no permission. But it would not reach the application: see `tcp`. A
//! lifecycle hook gets no permission: unlike a probe, it starts an action in the application, which any client could then
//! start too.

use leno_model::policy::{BadProbe, GRPC_HEALTH_CHECK, Probe, Probes};
use leno_model::protocol::Protocol;
use serde_json::Value;

use super::InboundPorts;
use super::plan::{is_ours, items};
use super::settings::Settings;

/// The proxy's option that allows a probe; it may be repeated.
pub(super) const OPTION: &str = "--probe";

/// The path of each probe in a container, and its name for users.
const PROBES: [(&str, &str); 3] =
    [("/startupProbe", "startupProbe"), ("/livenessProbe", "livenessProbe"), ("/readinessProbe", "readinessProbe")];

/// The path of each lifecycle hook in a container, and its name for users.
const HOOKS: [(&str, &str); 2] = [("/lifecycle/postStart", "postStart hook"), ("/lifecycle/preStop", "preStop hook")];

/// A probe that a kubelet sends to a container over the network, or an HTTP lifecycle hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProbe {
    /// The probe's field and its container, for example `livenessProbe of container web`.
    pub name: String,
    /// The port that the probe calls; `None` if the probe names a port that the container does not define.
    pub port: Option<u16>,
    /// The request that the proxy allows, or why the proxy may not be able to allow the probe.
    pub asks: Result<Probe, Unasked>,
}

/// The reason why the proxy cannot allow a probe, or may not be able to. The error message names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unasked {
    /// The probe uses HTTPS. The proxy cannot read the probe's request, and must not allow all requests to the port.
    #[error("it uses HTTPS, which the proxy cannot read; use HTTP, or skip its port: leno.dev/skip-inbound-ports")]
    Https,
    /// The path is ambiguous: it could be mistaken for another path. Or the query is too long, or no valid request can
    /// contain it.
    #[error("its path cannot be compared: {0}")]
    Path(#[from] BadProbe),
    /// The container does not have the probe's port.
    #[error("the container does not have its port; write the port's number")]
    Port,
    /// The proxy relays the bytes of the port without inspection.
    #[error(
        "its port is opaque, so the proxy cannot read the request; remove the port from leno.dev/opaque-ports, or use \
         exec"
    )]
    Opaque,
    /// The port is one of the default opaque ports. A Service may declare that it speaks HTTP, and the proxy then allows
    /// the probe.
    #[error(
        "its port is opaque by default, unless a Service of the namespace declares HTTP there, so the proxy cannot read \
         the request; list the port in leno.dev/http-ports, or use exec"
    )]
    OpaqueByDefault(Probe),
    /// The request is a lifecycle hook.
    #[error(
        "the proxy does not allow a hook as it allows a probe; list its path in healthChecks of an AuthorizationPolicy, \
         or use exec"
    )]
    Hook(Probe),
    /// The request is a lifecycle hook, and its port is one of the default opaque ports.
    #[error(
        "its port is opaque by default, unless a Service of the namespace declares HTTP there, so the proxy cannot read \
         the request; list the port in leno.dev/http-ports and the path in healthChecks of an AuthorizationPolicy, or use \
         exec"
    )]
    HookOpaqueByDefault,
}

impl PodProbe {
    /// Returns the probe that the proxy gets on its command line, if any.
    pub(super) fn told(&self) -> Option<&Probe> {
        match &self.asks {
            Ok(probe) | Err(Unasked::OpaqueByDefault(probe)) => Some(probe),
            Err(_) => None,
        }
    }
}

/// A probe or a lifecycle hook in a Pod's spec, of any kind.
pub(super) struct Placed<'a> {
    pub(super) container: &'a Value,
    /// The name of the probe's field for users, for example `livenessProbe`.
    what: &'static str,
    /// The path of the probe in the Pod or its template.
    pub(super) at: String,
    pub(super) probe: &'a Value,
}

impl Placed<'_> {
    /// Names the probe for users, for example `livenessProbe of container web`.
    pub(super) fn name(&self) -> String {
        format!("{} of container {}", self.what, self.container["name"].as_str().unwrap_or_default())
    }
}

/// Finds all probes of the application in a Pod or a Pod template.
pub(super) fn placed(template: &Value) -> impl Iterator<Item = Placed<'_>> {
    at_paths(template, &PROBES)
}

/// Finds the probes or the lifecycle hooks at these paths of the application's containers.
fn at_paths<'a>(
    template: &'a Value,
    paths: &'static [(&'static str, &'static str)],
) -> impl Iterator<Item = Placed<'a>> {
    ["/spec/containers", "/spec/initContainers"].into_iter().flat_map(move |list| {
        let containers = items(template, list).iter().enumerate().filter(|(_, container)| !is_ours(container));
        containers.flat_map(move |(index, container)| {
            let probe = move |&(path, what): &(&'static str, &'static str)| {
                let probe = container.pointer(path)?;
                Some(Placed { container, what, at: format!("{list}/{index}{path}"), probe })
            };
            paths.iter().filter_map(probe)
        })
    })
}

/// Returns the probes and lifecycle hooks with a request to the application in a Pod or a Pod template. Leaves out
/// requests that bypass the proxy: to a port in `ports.skipped`, or to another host.
pub fn of_pod(template: &Value, ports: &InboundPorts) -> Vec<PodProbe> {
    let request = |placed: Placed<'_>| {
        let (port, asks) = of_container(placed.container, placed.probe)?;
        Some(PodProbe { name: placed.name(), port, asks: asks.and_then(|probe| legible(probe, ports)) })
    };
    let hooks = at_paths(template, &HOOKS).filter_map(request);
    let hooks = hooks.map(|hook| PodProbe { asks: Err(why_no_hook(hook.asks)), ..hook });
    let all = placed(template).filter_map(request).chain(hooks);
    all.filter(|probe| probe.port.is_none_or(|port| !ports.skipped.contains(port))).collect()
}

/// Returns the probe if the proxy can read its request.
fn legible(probe: Probe, ports: &InboundPorts) -> Result<Probe, Unasked> {
    match probe.port() {
        port if ports.http.contains(port) => Ok(probe),
        port if ports.opaque.contains(port) => Err(Unasked::Opaque),
        port if Protocol::of_port(port) == Protocol::Opaque => Err(Unasked::OpaqueByDefault(probe)),
        _ => Ok(probe),
    }
}

/// Returns why the proxy does not allow a lifecycle hook with this request.
fn why_no_hook(hook: Result<Probe, Unasked>) -> Unasked {
    match hook {
        Ok(hook) => Unasked::Hook(hook),
        Err(Unasked::OpaqueByDefault(_)) => Unasked::HookOpaqueByDefault,
        Err(why) => why,
    }
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
    // A kubelet sends the path and the query unchanged, but removes a fragment and adds a missing first slash.
    let written = http["path"].as_str().unwrap_or_default().split('#').next().unwrap_or_default();
    let target = if written.starts_with('/') { written.to_owned() } else { format!("/{written}") };
    Some((port, asks(port, &target)))
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

fn asks(port: Option<u16>, target: &str) -> Result<Probe, Unasked> {
    Ok(Probe::new(port.ok_or(Unasked::Port)?, target)?)
}

/// The proxy's options that allow the probes.
pub(super) fn options(probes: &[PodProbe]) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for probe in probes.iter().filter_map(PodProbe::told) {
        // The kubelet replaces `$(NAME)` in arguments with a variable's value, and `$$` with `$`. So escape each `$`.
        let option = format!("{OPTION}={}", probe.to_string().replace('$', "$$"));
        if !options.contains(&option) && options.len() < Probes::MAX {
            options.push(option);
        }
    }
    options
}

/// Parses the probes in a proxy's arguments.
pub fn of_arguments(arguments: &[String]) -> Vec<Probe> {
    let value = |argument: &String| argument.strip_prefix(OPTION)?.strip_prefix('=')?.replace("$$", "$").parse().ok();
    arguments.iter().filter_map(value).collect()
}

/// Warns of probes and lifecycle hooks that the default inbound policy would deny.
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
