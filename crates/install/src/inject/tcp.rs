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

use super::containers::{ADMIN_PORT, image};
use super::plan::{INIT_CONTAINERS, items};
use super::probes::{Placed, placed, port};
use super::{Options, Settings};
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

/// The TCP probes of a Pod that the injector replaces, and the TCP probes that it cannot replace.
#[derive(Default)]
pub(super) struct TcpProbes {
    pub(super) replaced: Vec<Replaced>,
    /// Each probe's field and its container, and why the injector cannot replace the probe.
    kept: Vec<(String, Obstacle)>,
}

/// A TCP probe of a Pod with a proxy that is still a TCP probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreplaced {
    /// The probe's field and its container, for example `livenessProbe of container web`.
    pub name: String,
    /// Why no injector can replace the probe. `None` if the injector of this version would replace it.
    pub obstacle: Option<Obstacle>,
}

/// The reason why the injector cannot replace a TCP probe. The message continues a sentence that begins with the probe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    #[error(
        "names the host {}, so the injector does not replace it: at an address of this Pod, only the proxy answers, and \
         the probe always succeeds",
        quoted(.0)
    )]
    Host(String),
    #[error("is not replaced: the container does not have its port")]
    Port,
    #[error("reaches only the proxy and always succeeds: the Pod has more than {} TCP probes", TcpProbe::MAX)]
    TooMany,
}

impl Obstacle {
    /// What the author of the Pod has to change.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::Host(_) => "remove tcpSocket.host",
            Self::Port => "write the port's number",
            Self::TooMany => "use fewer",
        }
    }
}

impl TcpProbes {
    /// Warns of the TCP probes that the injector cannot replace.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.kept.iter().map(|(name, obstacle)| format!("the {name} {obstacle}; {}", obstacle.fix()))
    }
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

    /// Warns that the injector does not replace the probe. The Pod already has a proxy, which the injector does not
    /// change.
    pub(super) fn beside_other_proxy(&self) -> String {
        format!(
            "the {} reaches only the proxy and always succeeds: the Pod brings a proxy that is not the injector's, so \
             the injector does not replace the probe; run leno inject again, or remove {INIT} and {PROXY} from the Pod",
            self.name
        )
    }

    /// Warns that the injector does not replace the probe: the Pod gets a proxy of another version.
    fn for_other_program(&self, settings: &Settings, options: &Options) -> String {
        format!(
            "the {} reaches only the proxy and always succeeds: the injector does not replace the probe, because the Pod's \
             proxy has the image {}, which may not support TCP probes; use the image {}:{}, or another kind of probe",
            self.name,
            image(settings),
            options.proxy.image,
            options.own_version()
        )
    }
}

/// Takes out the probes that `is_meant` selects if the Pod gets a proxy of another version: an older proxy does not know
/// [`OPTION`], and would not start with it. Returns the probes to replace, and a warning for each probe taken out.
pub(super) fn without_unsupported(
    replaced: Vec<Replaced>,
    settings: &Settings,
    options: &Options,
    is_meant: impl Fn(&Replaced) -> bool,
) -> (Vec<Replaced>, Vec<String>) {
    if !settings.is_other_program(options) {
        return (replaced, Vec::new());
    }
    let (left, rest): (Vec<Replaced>, Vec<Replaced>) = replaced.into_iter().partition(is_meant);
    (rest, left.iter().map(|probe| probe.for_other_program(settings, options)).collect())
}

/// Finds the TCP probes of the application. Probes of the ports in `skipped` are left out, because they bypass the
/// proxy. `template` must be [`restored`], so that probes which are already replaced are found too.
pub(super) fn of_pod(template: &Value, skipped: &PortRanges) -> TcpProbes {
    let mut found = TcpProbes::default();
    for placed in placed(template) {
        let Some(tcp) = placed.probe.get(TCP) else { continue };
        let name = placed.name();
        if let Some(host) = tcp["host"].as_str().filter(|host| !host.is_empty()) {
            found.kept.push((name, Obstacle::Host(host.to_owned())));
            continue;
        }
        let Some(port) = port(placed.container, &tcp["port"]) else {
            found.kept.push((name, Obstacle::Port));
            continue;
        };
        if skipped.contains(port) {
            continue;
        }
        if found.replaced.len() == TcpProbe::MAX {
            found.kept.push((name, Obstacle::TooMany));
            continue;
        }
        let probe = TcpProbe { port, timeout_s: timeout_s(placed.probe) };
        found.replaced.push(Replaced { name, at: placed.at, written: tcp["port"].clone(), probe });
    }
    found
}

/// Returns the TCP probes of a Pod with a proxy that are still TCP probes. Leaves out probes of the ports in `skipped`,
/// because they bypass the proxy.
pub fn unreplaced(pod: &Value, skipped: &PortRanges) -> Vec<Unreplaced> {
    let TcpProbes { replaced, kept } = of_pod(&restored(pod), skipped);
    let pending = replaced.into_iter().filter(|probe| probe.is_pending(pod));
    let pending = pending.map(|probe| Unreplaced { name: probe.name, obstacle: None });
    pending.chain(kept.into_iter().map(|(name, why)| Unreplaced { name, obstacle: Some(why) })).collect()
}

/// Returns the number of TCP probes in a Pod or a Pod template.
pub(crate) fn count(template: &Value) -> usize {
    placed(template).filter(|placed| placed.probe.get(TCP).is_some()).count()
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
