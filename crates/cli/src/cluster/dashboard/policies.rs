//! The policies of one Service, read from the `/config` pages of its own proxies and of its callers' proxies, only while
//! the page shows them.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::detail::is_at;
use super::live::{callers, read};
use super::mesh::id;
use super::pages::clean;
use super::state::State;
use crate::cluster::diagnose::shown;
use crate::cluster::printable::line;
use crate::cluster::traffic::{Line, traffic};

/// Maximum number of proxies that are read: all proxies of a workload have the same policies.
const PROXIES_MAX: usize = 4;
/// Maximum number of rows of either kind in one answer.
const ROWS_MAX: usize = 500;

/// An AuthorizationPolicy of a Service's own workloads.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct AuthorizationRow {
    policy: String,
    /// The selected workloads and ports.
    selects: String,
    allows: String,
    mode: String,
}

/// A part of a policy for the calls to a port of a Service.
#[derive(Debug, Serialize)]
pub(super) struct TrafficRow {
    /// The Service's port.
    at: String,
    #[serde(flatten)]
    line: Line,
    /// The calling workload whose proxy has the policy.
    seen_by: String,
}

/// Returns the policies of a Service, in JSON.
pub(super) async fn policies(state: &State, wanted: &str) -> String {
    let (mut own, mut calling): (Vec<_>, Vec<_>) =
        callers(state, wanted).into_iter().partition(|proxy| line(&id(&proxy.namespace, &proxy.name)) == wanted);
    own.truncate(PROXIES_MAX);
    calling.truncate(PROXIES_MAX);
    let (mut authorization, mut parts) = (BTreeSet::new(), Vec::new());
    for (proxy, _, page) in read(state, &own, "/config").await {
        let Ok(config) = serde_json::from_str::<Value>(&page) else { continue };
        authorization.extend(authorization_rows(&config, &proxy.namespace));
    }
    for (proxy, _, page) in read(state, &calling, "/config").await {
        let Ok(config) = serde_json::from_str::<Value>(&page) else { continue };
        for (at, line) in traffic_lines(&config, wanted, &proxy.namespace) {
            // Callers of one namespace have the same policies.
            if !parts.iter().any(|row: &TrafficRow| row.at == at && row.line == line) {
                parts.push(TrafficRow { at, line, seen_by: id(&proxy.namespace, &proxy.name) });
            }
        }
    }
    let authorization: Vec<_> = authorization.into_iter().take(ROWS_MAX).collect();
    parts.truncate(ROWS_MAX);
    clean(&json!({ "authorization": authorization, "traffic": parts, "own": own.len(), "callers": calling.len() }))
}

/// Returns the AuthorizationPolicies in the `/config` of a proxy in `namespace`. A proxy with a directory of manifests
/// also knows the policies of other namespaces, which do not apply to its own application.
fn authorization_rows(config: &Value, namespace: &str) -> Vec<AuthorizationRow> {
    let known = config["mesh"]["policies"].as_array().into_iter().flatten();
    let known = known.filter(|policy| namespace.is_empty() || policy["namespace"] == namespace);
    known.map(AuthorizationRow::of).collect()
}

/// Returns the parts of policies that the `/config` of a client in `namespace` has for each port of a Service.
fn traffic_lines(config: &Value, wanted: &str, namespace: &str) -> Vec<(String, Line)> {
    let keys =
        config["mesh"]["clusters"].as_array().into_iter().flatten().filter_map(|cluster| cluster["key"].as_str());
    let of_service = keys.filter(|key| is_at(key, wanted));
    let lines = |key: &str| {
        let lines = traffic(config, key, namespace, None).lines().into_iter().filter(|line| line.part != "none");
        lines.map(|line| (key.to_owned(), line)).collect::<Vec<_>>()
    };
    of_service.flat_map(lines).collect()
}

impl AuthorizationRow {
    fn of(policy: &Value) -> Self {
        let ports = list(&policy["ports"]);
        let ports = if ports.is_empty() { "every port".to_owned() } else { format!("port {}", ports.join(", ")) };
        let workloads = match policy["service_account"].as_str() {
            Some(account) => format!("service account {account}"),
            None => format!("namespace {}", shown(&policy["namespace"])),
        };
        Self {
            policy: format!("AuthorizationPolicy {}/{}", shown(&policy["namespace"]), shown(&policy["name"])),
            selects: format!("{ports} of {workloads}"),
            allows: allows(policy),
            mode: shown(&policy["mode"]),
        }
    }
}

/// Describes the callers that a policy allows.
fn allows(policy: &Value) -> String {
    let rules = policy["allow"].as_array().into_iter().flatten().map(|rule| {
        let (identities, networks) = (list(&rule["identities"]).join(", "), list(&rule["networks"]).join(", "));
        match (identities.is_empty(), networks.is_empty()) {
            (false, false) => format!("{identities} from {networks}"),
            (true, true) => "no caller".to_owned(),
            _ => identities + &networks,
        }
    });
    let checks = list(&policy["health_checks"]).into_iter().map(|path| format!("every caller to {path}"));
    let all: Vec<String> = rules.chain(checks).collect();
    if all.is_empty() { "no caller".to_owned() } else { all.join("; ") }
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(shown).collect()
}

#[cfg(test)]
#[path = "policies_tests.rs"]
mod tests;
