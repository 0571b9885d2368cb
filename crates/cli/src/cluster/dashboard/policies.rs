//! Reads the policies of one Service from `/config` of its own proxies and of its callers' proxies, while the page
//! shows the policies.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use serde_json::{Value, json};

use super::detail::is_at;
use super::live::{calls_service, read};
use super::mesh::is_id;
use super::pages::clean;
use super::state::State;
use crate::cluster::diagnose::shown;
use crate::cluster::policies::allowed;
use crate::cluster::printable::listed;
use crate::cluster::source::ProxyAt;
use crate::cluster::traffic::{Line, traffic};

/// Maximum number of the Service's own proxies that the dashboard reads. A few are enough, because all proxies of a
/// workload have the same policies.
const OWN_MAX: usize = 2;
/// Maximum number of callers' proxies that the dashboard reads. It reads one for each namespace of callers, because
/// routes depend on the caller's namespace.
const CALLERS_MAX: usize = 8;
/// Maximum number of rows of each table in one answer.
const ROWS_MAX: usize = 500;
/// Maximum size of a `/config` page that is parsed, in bytes. A compromised proxy may send any text.
const PAGE_MAX_BYTES: usize = 4 << 20;
/// Maximum number of members that the page shows of a list in a policy.
const SHOWN_MAX: usize = 20;

/// An AuthorizationPolicy from the `/config` of a Service's own proxies.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct AuthorizationRow {
    policy: String,
    /// The selected workloads and ports.
    selects: String,
    allows: String,
    mode: String,
}

/// A row of the table of traffic policies: one setting for calls to a Service's port, such as a time limit. A rule
/// without settings also has a row.
#[derive(Debug, Serialize)]
pub(super) struct TrafficRow {
    /// The Service's port.
    at: String,
    #[serde(flatten)]
    line: Line,
    /// The namespaces of the callers to which the row applies. An empty name stands for a caller's proxy whose
    /// namespace is unknown.
    namespaces: BTreeSet<String>,
}

/// The number of proxies that the dashboard asked for `/config`, and the number of proxies that sent a usable page.
#[derive(Serialize)]
struct Readers {
    asked: usize,
    answered: usize,
}

/// Returns the policies of a Service, in JSON.
pub(super) async fn policies(state: &State, wanted: &str) -> String {
    let (own, calling, namespaces_omitted) = proxies(state, wanted);
    let (own_pages, calling_pages) = tokio::join!(read(state, &own, "/config"), read(state, &calling, "/config"));
    let (mut authorization, mut answered) = (BTreeSet::new(), 0);
    for (proxy, _, page) in own_pages {
        let Some(rows) = config(&page).as_ref().and_then(|config| authorization_rows(config, &proxy.namespace)) else {
            continue;
        };
        authorization.extend(rows);
        answered += 1;
    }
    let own = Readers { asked: own.len(), answered };
    let (mut rows, mut answered) = (TrafficRows::default(), 0);
    for (proxy, _, page) in calling_pages {
        let Some(config) = config(&page) else { continue };
        answered += 1;
        for (at, line) in traffic_lines(&config, wanted, &proxy.namespace) {
            rows.add(at, line, &proxy.namespace);
        }
    }
    let callers = Readers { asked: calling.len(), answered };
    let authorization: Vec<_> = authorization.into_iter().take(ROWS_MAX).collect();
    clean(&json!({
        "authorization": authorization, "traffic": rows.all, "own": own, "callers": callers,
        "namespaces_omitted": namespaces_omitted,
    }))
}

/// Returns the proxies to read: first the Service's own proxies, then one caller's proxy for each namespace of callers.
/// Also returns the number of namespaces beyond [`CALLERS_MAX`].
fn proxies(state: &State, wanted: &str) -> (Vec<ProxyAt>, Vec<ProxyAt>, usize) {
    let readings = state.readings.borrow();
    let (mut own, mut calling) = (Vec::new(), BTreeMap::new());
    for (member, growth) in readings.proxies().filter(|(member, _)| member.silent.is_none()) {
        let proxy = &member.proxy;
        if is_id(&proxy.namespace, &proxy.name, wanted) {
            own.push(proxy.clone());
        } else if calls_service(growth, wanted) {
            calling.entry(proxy.namespace.clone()).or_insert_with(|| proxy.clone());
        }
    }
    own.truncate(OWN_MAX);
    let namespaces_omitted = calling.len().saturating_sub(CALLERS_MAX);
    (own, calling.into_values().take(CALLERS_MAX).collect(), namespaces_omitted)
}

/// Parses a `/config` page of a proxy; `None` if the page is too long or is not a `/config` page.
fn config(page: &str) -> Option<Value> {
    let page = Some(page).filter(|page| page.len() <= PAGE_MAX_BYTES)?;
    serde_json::from_str::<Value>(page).ok().filter(|config| config["mesh"].is_object())
}

/// The rows of the table of traffic policies, in order of precedence within each port.
#[derive(Default)]
struct TrafficRows {
    all: Vec<TrafficRow>,
    /// The index in `all` of the row for a port and a line.
    places: HashMap<(String, Line), usize>,
}

impl TrafficRows {
    /// Adds a line that applies to callers in `namespace`.
    fn add(&mut self, at: String, line: Line, namespace: &str) {
        let key = (at, line);
        if let Some(row) = self.places.get(&key).and_then(|place| self.all.get_mut(*place)) {
            row.namespaces.insert(namespace.to_owned());
        } else if self.all.len() < ROWS_MAX {
            self.places.insert(key.clone(), self.all.len());
            self.all.push(TrafficRow { at: key.0, line: key.1, namespaces: [namespace.to_owned()].into() });
        }
    }
}

/// Returns the AuthorizationPolicies of `namespace` in the `/config` of a proxy in this namespace; `None` if the page
/// has no list of policies. If the proxy reads a directory of manifests, its `/config` also has policies of other
/// namespaces; these do not apply to the proxy's own application.
fn authorization_rows(config: &Value, namespace: &str) -> Option<Vec<AuthorizationRow>> {
    let known = config["mesh"]["policies"].as_array()?.iter();
    let known = known.filter(|policy| namespace.is_empty() || policy["namespace"] == namespace);
    Some(known.take(ROWS_MAX).map(AuthorizationRow::of).collect())
}

/// Returns the settings of traffic policies (time limits, retries, hedges) for each port of a Service, from the
/// `/config` of a caller's proxy in `namespace`.
///
/// If any rule of a port has a setting, the port's rules without settings have lines too. The reason: only the first
/// rule that a call matches applies to it, so a rule without settings keeps the settings of later rules from its calls.
fn traffic_lines(config: &Value, wanted: &str, namespace: &str) -> Vec<(String, Line)> {
    let keys =
        config["mesh"]["clusters"].as_array().into_iter().flatten().filter_map(|cluster| cluster["key"].as_str());
    let of_service = keys.filter(|key| is_at(key, wanted));
    let lines = |key: &str| {
        let lines = traffic(config, key, namespace, None).lines();
        let has_parts = lines.iter().any(Line::is_part);
        let lines = lines.into_iter().filter(|_| has_parts).take(ROWS_MAX);
        lines.map(|line| (key.to_owned(), line)).collect::<Vec<_>>()
    };
    of_service.flat_map(lines).take(ROWS_MAX).collect()
}

impl AuthorizationRow {
    fn of(policy: &Value) -> Self {
        let ports = match policy["ports"].as_array().map(Vec::as_slice) {
            None => "every port".to_owned(),
            Some([]) => "no port".to_owned(),
            Some([port]) => format!("port {port}"),
            Some(_) => format!("ports {}", list(&policy["ports"])),
        };
        let workloads = match policy["service_account"].as_str() {
            Some(account) => format!("of service account {account}"),
            None => format!("in namespace {}", shown(&policy["namespace"])),
        };
        Self {
            policy: format!("AuthorizationPolicy {}/{}", shown(&policy["namespace"]), shown(&policy["name"])),
            selects: format!("{ports} {workloads}"),
            allows: allows(policy),
            mode: shown(&policy["mode"]),
        }
    }
}

/// Describes the callers that a policy allows.
fn allows(policy: &Value) -> String {
    let rules = policy["allow"].as_array().map(Vec::as_slice).unwrap_or_default();
    let checks = policy["health_checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_rules = rules.iter().map(|rule| {
        let [identities, networks] = ["identities", "networks"].map(|part| Some(list(&rule[part])));
        allowed(identities.filter(|list| !list.is_empty()), networks.filter(|list| !list.is_empty()))
    });
    let of_checks = checks.iter().map(|path| format!("every caller to {}", shown(path)));
    let all: Vec<String> = of_rules.chain(of_checks).take(SHOWN_MAX).collect();
    let more = (rules.len() + checks.len()).saturating_sub(SHOWN_MAX);
    match (all.is_empty(), more) {
        (true, _) => "no caller".to_owned(),
        (false, 0) => all.join("; "),
        (false, more) => format!("{}; and {more} more rules", all.join("; ")),
    }
}

/// Writes the members of a list, at most [`SHOWN_MAX`] of them.
fn list(value: &Value) -> String {
    let members = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let shown: Vec<_> = members.iter().take(SHOWN_MAX).map(shown).collect();
    listed(&shown, members.len() - shown.len())
}

#[cfg(test)]
#[path = "policies_tests.rs"]
mod tests;
