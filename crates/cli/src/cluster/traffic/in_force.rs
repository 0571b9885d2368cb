//! Finds the parts of policies (time limits, retries, hedges, retry budgets) that are in force for calls to a Service's
//! port. Reads them from the `/config` of the control plane or of a proxy.

use serde::Serialize;
use serde_json::Value;

use super::super::diagnose::shown;
use super::conditions::{calls, has_only_a_path, may_match};
use super::part::{Part, parts};

/// The rules for calls to a Service's port, each with the parts of policies that are in force.
#[derive(Debug, Serialize)]
pub(in crate::cluster) struct Traffic {
    /// The Service's port, in the form `web.shop:80`.
    pub(super) service: String,
    /// The kind of the Service's routes. `Service` if the Service has no routes but a policy; `None` if it has neither.
    pub(super) kind: Option<String>,
    /// The rules, in order of precedence: a call follows the first rule that it matches.
    pub(super) rules: Vec<RuleTraffic>,
}

/// One set of conditions of a rule, and the parts in force for the calls that match it.
#[derive(Debug, Serialize)]
pub(super) struct RuleTraffic {
    matches: Value,
    route: Value,
    rule: Option<String>,
    parts: Vec<Part>,
}

/// The text that [`Line::part`] has for a rule without parts.
const NO_PART: &str = "none";

/// A line of the table. It shows one part of a policy that is in force, or a rule without parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub(in crate::cluster) struct Line {
    /// The calls that match the rule.
    pub(in crate::cluster) calls: String,
    /// The route, for example `GRPCRoute shop/cart`, and the rule's name if the rule has a name.
    pub(in crate::cluster) route: String,
    /// The part, as the name of its field in a TrafficPolicy; [`NO_PART`] for a rule without parts.
    pub(in crate::cluster) part: String,
    pub(in crate::cluster) mode: String,
    pub(in crate::cluster) set_by: String,
    pub(in crate::cluster) value: String,
}

/// Finds the parts in force for calls of clients in `namespace`. With `method`, only for calls of this method.
pub(in crate::cluster) fn traffic(config: &Value, key: &str, namespace: &str, method: Option<&str>) -> Traffic {
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
        // Stop here: every call of the method matches this rule, so later rules apply to none of its calls.
        if path.is_some() && has_only_a_path(&entry["matches"]) {
            break;
        }
    }
    Traffic { service, kind: table["kind"].as_str().map(str::to_owned), rules }
}

/// Returns the rule table for calls to a Service's port: the one of the routes in the client's namespace (consumer
/// routes) or, without such routes, the one of the routes in the Service's namespace (producer routes).
fn table_of<'a>(config: &'a Value, key: &str, namespace: &str) -> Option<&'a Value> {
    let own = key.split_once(':').and_then(|(host, _)| host.split_once('.')).map_or("", |(_, namespace)| namespace);
    let attached = config["mesh"]["routes"].as_array()?;
    let of =
        |namespace: &str| attached.iter().find(|routes| routes["cluster"] == key && routes["namespace"] == namespace);
    of(namespace).or_else(|| of(own)).map(|routes| &routes["table"])
}

impl Line {
    /// Returns whether the line shows a part; false if it shows a rule without parts.
    pub(in crate::cluster) fn is_part(&self) -> bool {
        self.part != NO_PART
    }
}

impl Traffic {
    /// Returns the lines of the table: one for each part, and one for each rule without parts. The rules are in order
    /// of precedence.
    pub(in crate::cluster) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for rule in &self.rules {
            let line = |[part, mode, set_by, value]: [String; 4]| Line {
                calls: calls(&rule.matches),
                route: rule.name(),
                part,
                mode,
                set_by,
                value,
            };
            if rule.parts.is_empty() {
                lines.push(line([NO_PART, "-", "-", "-"].map(str::to_owned)));
            }
            for part in &rule.parts {
                let name = match part.of.as_ref().filter(|of| **of != self.service) {
                    Some(of) => format!("{} of {of}", part.part),
                    None => part.part.clone(),
                };
                let set_by = part.set_by.clone().unwrap_or_else(|| "default".to_owned());
                lines.push(line([name, part.mode.clone(), set_by, part.text()]));
            }
        }
        lines
    }
}

impl RuleTraffic {
    fn name(&self) -> String {
        let [kind, namespace, name] = ["kind", "namespace", "name"].map(|part| shown(&self.route[part]));
        let of_rule = self.rule.as_ref().map(|rule| format!(", rule {rule}")).unwrap_or_default();
        format!("{kind} {namespace}/{name}{of_rule}")
    }
}
