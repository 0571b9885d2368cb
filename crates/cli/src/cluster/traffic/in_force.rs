//! The parts of policies that are in force for calls to a Service's port, read from the `/config` of the control plane
//! or of a proxy.

use serde::Serialize;
use serde_json::Value;

use super::super::diagnose::shown;
use super::conditions::{calls, has_only_a_path, may_match};
use super::part::{Part, parts};

/// The parts in force for calls to a Service's port.
#[derive(Debug, Serialize)]
pub(in crate::cluster) struct Traffic {
    /// The Service's port, in the form `web.shop:80`.
    pub(super) service: String,
    /// The kind of the routes; `Service` for a Service without routes; `None` if neither a route nor a policy applies.
    pub(super) kind: Option<String>,
    /// The rules, in order of precedence: a call follows the first rule that it matches.
    pub(super) rules: Vec<RuleTraffic>,
}

/// One match of a rule, and the parts in force for the calls that match.
#[derive(Debug, Serialize)]
pub(super) struct RuleTraffic {
    matches: Value,
    route: Value,
    rule: Option<String>,
    parts: Vec<Part>,
}

/// The part of a [`Line`] for a rule without parts.
const NO_PART: &str = "none";

/// One part in force as text, or a rule without parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub(in crate::cluster) struct Line {
    /// The calls that match the rule.
    pub(in crate::cluster) calls: String,
    /// The route, for example `GRPCRoute shop/cart`, and the rule's name if the rule has a name.
    pub(in crate::cluster) route: String,
    /// The field of a TrafficPolicy; [`NO_PART`] for a rule without parts.
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

impl Line {
    /// Returns whether the line has a part; false for a rule without parts.
    pub(in crate::cluster) fn is_part(&self) -> bool {
        self.part != NO_PART
    }
}

impl Traffic {
    /// Returns the parts as text, in order of precedence, with one line for each rule without parts.
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
