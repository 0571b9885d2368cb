//! The TCP probes (`tcpSocket`) of a Pod's containers.
//!
//! Connections to the application's ports are redirected to the proxy, so a kubelet's TCP probe would succeed even if
//! the application did not listen. The injector therefore replaces the `tcpSocket` of each such probe by an `httpGet` of
//! the proxy's page `/probe/tcp/PORT`. For a request of this page, the proxy itself connects to the application. If the
//! probe gives its port by name, the query of the page keeps the name, so that `uninject` can restore the probe.

use std::collections::BTreeMap;

use leno_model::problem::quoted;
use leno_model::protocol::PortRanges;
use leno_model::tcp_probe::{PATH, TcpProbe};
use serde_json::{Value, json};

use super::containers::ADMIN_PORT;
use super::plan::{INIT_CONTAINERS, items};
use super::probes::{Placed, Unasked, placed, port};
use crate::names::{INIT, PROXY};
use crate::patch::{Operation, apply};

/// The proxy's option that names a TCP probe; it may be repeated.
pub(super) const OPTION: &str = "--tcp-probe";

/// The field that makes a probe a TCP probe, and the field that replaces it.
const TCP: &str = "tcpSocket";
const HTTP: &str = "httpGet";
/// The parameter of the page's query that keeps the name of the port.
const NAME: &str = "name=";

/// A TCP probe that the injector replaces.
pub(super) struct Replaced {
    /// The probe's field and its container, for example `livenessProbe of container web`.
    name: String,
    /// The path of the probe in the Pod or its template.
    at: String,
    /// The port as the probe gives it: a number or a name.
    written: Value,
    probe: TcpProbe,
}

/// The TCP probes of a Pod that the injector replaces, and a warning for each TCP probe that it cannot replace.
#[derive(Default)]
pub(super) struct TcpProbes {
    pub(super) replaced: Vec<Replaced>,
    pub(super) warnings: Vec<String>,
}

impl Replaced {
    /// Returns the changes that replace the probe.
    pub(super) fn changes(&self, admin_port: u16) -> [Operation; 2] {
        let mut path = format!("{PATH}{}", self.probe.port);
        if let Some(name) = self.written.as_str() {
            path = format!("{path}?{NAME}{name}");
        }
        exchange(&self.at, TCP, HTTP, json!({"path": path, "port": admin_port}))
    }

    /// Returns whether `template` still has the probe that the injector replaces.
    pub(super) fn is_pending(&self, template: &Value) -> bool {
        template.pointer(&format!("{}/{TCP}", self.at)).is_some()
    }

    /// Warns that the injector leaves the probe as it is, because it also leaves the Pod's own proxy as it is.
    pub(super) fn beside_other_proxy(&self) -> String {
        format!(
            "the {} reaches only the proxy and always succeeds: the Pod brings a proxy that is not the injector's, so \
             the injector does not replace the probe; run leno inject again, or remove {INIT} and {PROXY} from the Pod",
            self.name
        )
    }
}

/// Finds the TCP probes of the application. Probes of the ports in `skipped` are left out, because they bypass the
/// proxy. `template` must be [`restored`], so that probes which are already replaced are found too.
pub(super) fn of_pod(template: &Value, skipped: &PortRanges) -> TcpProbes {
    let mut found = TcpProbes::default();
    for placed in placed(template) {
        let Some(tcp) = placed.probe.get(TCP) else { continue };
        let name = placed.name();
        if let Some(host) = tcp["host"].as_str().filter(|host| !host.is_empty()) {
            found.warnings.push(format!(
                "the {name} names the host {}, so the injector does not replace it: at an address of this Pod, only \
                 the proxy answers, and the probe always succeeds; remove {TCP}.host",
                quoted(host)
            ));
            continue;
        }
        let Some(port) = port(placed.container, &tcp["port"]) else {
            found.warnings.push(format!("the {name} is not replaced: {}", Unasked::Port));
            continue;
        };
        if skipped.contains(port) {
            continue;
        }
        if found.replaced.len() == TcpProbe::MAX {
            found.warnings.push(format!(
                "the {name} reaches only the proxy and always succeeds: the Pod has more than {} TCP probes; use fewer",
                TcpProbe::MAX
            ));
            continue;
        }
        let probe = TcpProbe { port, timeout_s: timeout_s(placed.probe) };
        found.replaced.push(Replaced { name, at: placed.at, written: tcp["port"].clone(), probe });
    }
    found
}

/// Returns the TCP probes that the injector would replace, and that still are TCP probes in this Pod. Connections of such
/// a probe end at the proxy, so it always succeeds.
pub fn unreplaced(pod: &Value, skipped: &PortRanges) -> Vec<String> {
    of_pod(pod, skipped).replaced.into_iter().map(|probe| probe.name).collect()
}

/// The proxy's options for the probes: one for each port, with the longest timeout of the port's probes.
pub(super) fn options(replaced: &[Replaced]) -> Vec<String> {
    let mut by_port: BTreeMap<u16, TcpProbe> = BTreeMap::new();
    for Replaced { probe, .. } in replaced {
        let longest = by_port.entry(probe.port).or_insert(*probe);
        longest.timeout_s = longest.timeout_s.max(probe.timeout_s);
    }
    by_port.values().map(|probe| format!("{OPTION}={probe}")).collect()
}

/// Returns the template as it was before its TCP probes were replaced.
pub(super) fn restored(template: &Value) -> Value {
    let mut restored = template.clone();
    // Cannot fail: the changes were computed from this template.
    let _ = apply(&mut restored, &restorations(template));
    restored
}

/// Returns the changes that restore the TCP probes that were replaced.
pub(super) fn restorations(template: &Value) -> Vec<Operation> {
    let Some(admin_port) = admin_port(template) else { return Vec::new() };
    let restoration = |placed: Placed<'_>| {
        let port = original_port(placed.probe, admin_port)?;
        Some(exchange(&placed.at, HTTP, TCP, json!({"port": port})))
    };
    placed(template).filter_map(restoration).flatten().collect()
}

/// Returns the port of the TCP probe that this probe replaces; `None` if this probe replaces no TCP probe.
fn original_port(probe: &Value, admin_port: u16) -> Option<Value> {
    let http = probe.get(HTTP).filter(|http| http["port"] == admin_port)?;
    let page = http["path"].as_str()?.strip_prefix(PATH)?;
    match page.split_once('?') {
        Some((_, query)) => Some(query.strip_prefix(NAME)?.into()),
        None => Some(page.parse::<u16>().ok()?.into()),
    }
}

/// Returns the admin port of the proxy that the template has; `None` if the template has no proxy.
fn admin_port(template: &Value) -> Option<u16> {
    let init = items(template, INIT_CONTAINERS).iter().find(|container| container["name"] == INIT)?;
    let port = |argument: &Value| argument.as_str()?.strip_prefix(ADMIN_PORT)?.strip_prefix('=')?.parse().ok();
    items(init, "/args").iter().find_map(port)
}

/// Returns the changes that give the probe at this path the field `to` in place of `from`. The new field comes first,
/// because the text of a manifest can only be edited if the probe keeps a field.
fn exchange(at: &str, from: &str, to: &str, value: Value) -> [Operation; 2] {
    [Operation::Add { path: format!("{at}/{to}"), value }, Operation::Remove { path: format!("{at}/{from}") }]
}

/// Returns the kubelet's timeout of a probe, at most the longest timeout that the proxy supports.
fn timeout_s(probe: &Value) -> u8 {
    let written = probe["timeoutSeconds"].as_u64();
    let seconds = written.map_or(TcpProbe::DEFAULT_TIMEOUT_S, |seconds| u8::try_from(seconds).unwrap_or(u8::MAX));
    seconds.clamp(1, TcpProbe::TIMEOUT_MAX_S)
}

#[cfg(test)]
#[path = "tcp_tests.rs"]
mod tests;
