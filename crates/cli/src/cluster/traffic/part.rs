//! The parts of a policy, such as a time limit, the retries or the retry budget, in the notation of a TrafficPolicy.

use std::time::Duration;

use leno_model::balance::BudgetSettings;
use leno_model::settings::format_duration;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::diagnose::shown;

/// A part of a policy, such as a time limit or a retry budget.
#[derive(Debug, Serialize)]
pub(in crate::cluster) struct Part {
    /// The name of the field in a TrafficPolicy.
    pub(in crate::cluster) part: String,
    /// The port of the Service whose calls a retry budget counts; `None` for other parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cluster) of: Option<String>,
    /// The values that the part sets, except its mode.
    value: Map<String, Value>,
    pub(in crate::cluster) mode: String,
    /// The object that sets the part; `None` if it is a default.
    pub(in crate::cluster) set_by: Option<String>,
}

/// Returns the parts in force for calls that follow a rule. With `method`, only for calls of this method.
pub(in crate::cluster) fn parts(config: &Value, rule: &Value, method: Option<&str>) -> Vec<Part> {
    let calls = rule["calls"].as_object().into_iter().flatten();
    let named = |(name, part): &(&String, &Value)| *name != "hedge" || is_hedged(part, method);
    let mut parts: Vec<Part> = calls.filter(named).map(|(name, part)| Part::of(field(name), None, part)).collect();
    let needs_budget = parts.iter().any(|part| matches!(part.part.as_str(), "retry" | "hedge"));
    for backend in rule["backends"].as_array().into_iter().flatten() {
        let Some(to) = backend["to"]["cluster"].as_str() else { continue };
        let clusters = config["mesh"]["clusters"].as_array().into_iter().flatten();
        let budget = clusters.filter(|cluster| cluster["key"] == to).find_map(|cluster| cluster.get("retry_budget"));
        let default = json!(BudgetSettings::default());
        let budget = budget.or_else(|| needs_budget.then_some(&default));
        parts.extend(budget.map(|budget| Part::of("budget".to_owned(), Some(to.to_owned()), budget)));
    }
    parts
}

/// Returns whether a hedge may apply to calls of `method`. Also returns true if `method` is an HTTP path: whether the
/// hedge applies then depends on the HTTP method, which is unknown.
fn is_hedged(hedge: &Value, method: Option<&str>) -> bool {
    let Some((service, _)) =
        method.and_then(|method| method.split_once('/')).filter(|(service, _)| !service.is_empty())
    else {
        return true;
    };
    let names = |listed: &Value| {
        let listed = listed.as_str().unwrap_or_default();
        Some(listed) == method || listed.strip_suffix("/*") == Some(service)
    };
    hedge["methods"].as_array().is_none_or(|methods| methods.iter().any(names))
}

/// Converts the name of a part in `/config` to the name of its field in a TrafficPolicy.
fn field(part: &str) -> String {
    match part.strip_suffix("_timeout") {
        Some(limit) => format!("timeouts.{}", camel_case(limit)),
        None => camel_case(part),
    }
}

/// Converts a name to camel case: `grpc_codes` becomes `grpcCodes`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut written = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        written += &first.to_ascii_uppercase();
        written += rest;
    }
    written
}

impl Part {
    fn of(part: String, of: Option<String>, setting: &Value) -> Self {
        let mut value = setting.as_object().cloned().unwrap_or_default();
        let mut take = |name| value.remove(name).and_then(|text| text.as_str().map(str::to_owned));
        let (mode, set_by) = (take("mode").unwrap_or_else(|| "Enforce".to_owned()), take("set_by"));
        Self { part, of, value, mode, set_by }
    }

    /// Writes the values of the part as a TrafficPolicy does: `attempts: 2, backoff: 25ms`, or `2s` for a time limit.
    pub(in crate::cluster) fn text(&self) -> String {
        let fields = self.value.iter().map(|(name, value)| match (name.strip_suffix("_ms"), value.as_u64()) {
            (Some("after"), Some(ms)) => format_duration(Duration::from_millis(ms)),
            (Some(name), Some(ms)) => format!("{}: {}", camel_case(name), format_duration(Duration::from_millis(ms))),
            _ => format!("{}: {}", camel_case(name), flow(value)),
        });
        fields.collect::<Vec<_>>().join(", ")
    }
}

/// Writes a value as YAML on one line, without quotes.
fn flow(value: &Value) -> String {
    match value.as_array() {
        Some(members) => format!("[{}]", members.iter().map(shown).collect::<Vec<_>>().join(", ")),
        None => shown(value),
    }
}
