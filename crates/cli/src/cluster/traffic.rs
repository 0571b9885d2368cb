//! `leno diagnostics traffic`: the time limits, retries and hedges in force for calls to a Service's port, and the
//! object that sets each of them.

mod conditions;
pub(super) mod part;

use std::error::Error;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::connect::{ClusterError, Connect};
use super::diagnose::{Knower, cluster_of, control_config, pods_config, shown};
use super::table::{Output, Table, show};
use conditions::{calls, has_only_a_path, may_match};
use part::{Part, parts};

/// Options of `leno diagnostics traffic`.
#[derive(Args)]
pub(crate) struct TrafficOptions {
    /// A Service and its port as clients name it: web:80, web.shop:80 or web.shop.svc.cluster.local:80. The port may be
    /// left out if the Service has only one
    #[arg(value_name = "AUTHORITY")]
    authority: String,
    /// A gRPC method, as shop.v1.Cart/GetItems, or a path, as /items; default: all calls
    #[arg(value_name = "METHOD")]
    method: Option<String>,
    /// Pod of a client, whose proxy to ask; default: the control plane
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
    /// Namespace of the client; default: the kubeconfig's
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// The parts in force for calls to a Service's port.
#[derive(Debug, Serialize)]
struct Traffic {
    /// The Service's port, in the form `web.shop:80`.
    service: String,
    /// The kind of the routes; `Service` for a Service without routes; `None` if neither a route nor a policy applies.
    kind: Option<String>,
    /// In order of precedence: a call follows the first rule that it matches.
    rules: Vec<RuleTraffic>,
}

/// One match of a rule, and the parts in force for calls that match it.
#[derive(Debug, Serialize)]
struct RuleTraffic {
    matches: Value,
    route: Value,
    rule: Option<String>,
    parts: Vec<Part>,
}

impl TrafficOptions {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let (config, namespace, knower) = super::block_on(async {
            let cluster = self.connect.cluster().await?;
            let namespace = self.namespace.clone().unwrap_or_else(|| cluster.namespace.clone());
            let (config, knower) = match &self.pod {
                None => (control_config(&cluster).await?, Knower::Control),
                Some(pod) => (pods_config(&cluster, &namespace, pod).await?, Knower::ProxyOf(pod)),
            };
            Ok::<_, ClusterError>((config, namespace, knower))
        })??;
        let (key, _) = cluster_of(&config, &self.authority, &namespace, &knower)?;
        let traffic = traffic(&config, &key, &namespace, self.method.as_deref());
        show(self.output, &traffic, |traffic| text(traffic, self.method.as_deref()))?;
        Ok(())
    }
}

/// Finds the parts in force for calls of clients in `namespace`. With `method`, only for calls of this method.
fn traffic(config: &Value, key: &str, namespace: &str, method: Option<&str>) -> Traffic {
    let service = key.to_owned();
    let Some(table) = table_of(config, key, namespace) else {
        return Traffic { service, kind: None, rules: Vec::new() };
    };
    let path = method.map(|method| if method.starts_with('/') { method.to_owned() } else { format!("/{method}") });
    let entries = table["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let matching = entries.iter().filter(|entry| path.as_deref().is_none_or(|path| may_match(entry, path)));
    let mut rules = Vec::new();
    for entry in matching {
        let rule = &entry["rule"];
        rules.push(RuleTraffic {
            matches: entry["matches"].clone(),
            route: rule["route"].clone(),
            rule: rule["name"].as_str().map(str::to_owned),
            parts: parts(config, rule, method),
        });
        // Every call of the method follows this rule, so no call reaches the rules after it.
        if path.is_some() && has_only_a_path(&entry["matches"]) {
            break;
        }
    }
    Traffic { service, kind: table["kind"].as_str().map(str::to_owned), rules }
}

/// Returns the rules for calls to a Service's port: the consumer routes of the client's namespace or, if there are
/// none, the producer routes.
fn table_of<'a>(config: &'a Value, key: &str, namespace: &str) -> Option<&'a Value> {
    let own = key.split_once(':').and_then(|(host, _)| host.split_once('.')).map_or("", |(_, namespace)| namespace);
    let attached = config["mesh"]["routes"].as_array()?;
    let of =
        |namespace: &str| attached.iter().find(|routes| routes["cluster"] == key && routes["namespace"] == namespace);
    of(namespace).or_else(|| of(own)).map(|routes| &routes["table"])
}

fn text(traffic: &Traffic, method: Option<&str>) -> String {
    let service = &traffic.service;
    match traffic.kind.as_deref() {
        None => return format!("no route and no TrafficPolicy applies to calls to {service}\n"),
        Some(kind @ ("TLSRoute" | "TCPRoute")) => {
            return format!("{service} has a {kind}, and no TrafficPolicy applies to connections that follow it\n");
        }
        Some(kind) if traffic.rules.is_empty() => {
            let of = method.map(|method| format!(" of {method}")).unwrap_or_default();
            return format!("no rule of the {kind}s of {service} matches calls{of}, so the proxy rejects them\n");
        }
        Some(_) => {}
    }
    let mut table = Table::new(&["CALLS", "ROUTE", "PART", "MODE", "SET BY", "VALUE"]);
    for rule in &traffic.rules {
        let (calls, route) = (calls(&rule.matches), route(rule));
        if rule.parts.is_empty() {
            let nothing = ["none", "-", "-", "-"].map(str::to_owned);
            table.row([calls.clone(), route.clone()].into_iter().chain(nothing));
        }
        for part in &rule.parts {
            let name = match part.of.as_ref().filter(|of| *of != service) {
                Some(of) => format!("{} of {of}", part.part),
                None => part.part.clone(),
            };
            let set_by = part.set_by.clone().unwrap_or_else(|| "default".to_owned());
            table.row([calls.clone(), route.clone(), name, part.mode.clone(), set_by, part.text()]);
        }
    }
    format!("{table}\na call follows the first rule that it matches\n")
}

/// Formats a rule's route, for example `GRPCRoute shop/cart`, and the rule's name if the rule has a name.
fn route(rule: &RuleTraffic) -> String {
    let [kind, namespace, name] = ["kind", "namespace", "name"].map(|part| shown(&rule.route[part]));
    let of_rule = rule.rule.as_ref().map(|rule| format!(", rule {rule}")).unwrap_or_default();
    format!("{kind} {namespace}/{name}{of_rule}")
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
