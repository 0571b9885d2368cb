//! Validates a value against a JSON schema, with the keywords of our own schemas: the schema of the chart, and the
//! schemas of custom resources.
//!
//! Keywords: type, properties, required, additionalProperties: false, items, enum, not: enum, minimum, maximum,
//! minItems, maxItems, minLength, maxLength, pattern, x-kubernetes-int-or-string. Other keywords are ignored.

use std::fmt;

use leno_model::problem::quoted;
use leno_model::route::Pattern;
use leno_model::spelling::closest;
use serde_json::{Map, Value};

/// A value that the schema rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field's path, for example `control.replicas`; empty for the whole value.
    pub field: String,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() { f.write_str(&self.what) } else { write!(f, "{}: {}", self.field, self.what) }
    }
}

/// Returns every violation of `schema` in `value`. Fields that the schema does not have are violations.
pub fn check(schema: &Value, value: &Value) -> Vec<Violation> {
    let mut violations = Vec::new();
    check_at("", schema, value, &mut violations);
    violations
}

fn check_at(field: &str, schema: &Value, value: &Value, violations: &mut Vec<Violation>) {
    let mut violation = |what: String| violations.push(Violation { field: field.to_owned(), what });
    if let Some(wanted) = schema.get("type").and_then(Value::as_str)
        && !is_type(wanted, value)
    {
        violation(format!("{} is not {}", shown(value), noun(wanted)));
        return;
    }
    let list = |values: &[Value]| values.iter().map(shown).collect::<Vec<_>>().join(", ");
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        violation(format!("{} is not one of {}", shown(value), list(allowed)));
    }
    if let Some(taken) = schema.pointer("/not/enum").and_then(Value::as_array)
        && taken.contains(value)
    {
        violation(format!("{} is one of {}, which are reserved", shown(value), list(taken)));
    }
    let limit = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    if let Some((size, unit, least, most)) = size(value) {
        if let Some(least) = limit(least).filter(|least| size < *least) {
            violation(format!("{} is less than {least}{unit}", shown(value)));
        }
        if let Some(most) = limit(most).filter(|most| size > *most) {
            violation(format!("{} is more than {most}{unit}", shown(value)));
        }
    }
    if let (Some(pattern), Some(text)) = (schema.get("pattern").and_then(Value::as_str), value.as_str())
        && !is_match(pattern, text)
    {
        violation(format!("{} is not of the form {pattern}", shown(value)));
    }
    match value {
        Value::Object(members) => check_members(field, schema, members, violations),
        Value::Array(items) => {
            let of_items = schema.get("items").unwrap_or(&Value::Null);
            let each = items.iter().enumerate();
            each.for_each(|(index, item)| check_at(&format!("{field}[{index}]"), of_items, item, violations));
        }
        _ => {}
    }
}

fn check_members(field: &str, schema: &Value, members: &Map<String, Value>, violations: &mut Vec<Violation>) {
    let within = |name: &str| if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for name in required.filter(|name| !members.contains_key(*name)) {
        violations.push(Violation { field: within(name), what: "missing".to_owned() });
    }
    // If the schema of a mapping has no `properties`, the mapping may have any field.
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, value) in members {
        if let Some(schema) = properties.get(name) {
            check_at(&within(name), schema, value, violations);
            continue;
        }
        let what = match closest(name, properties.keys().map(String::as_str)) {
            Some(meant) => format!("there is no such field; did you mean {}?", within(meant)),
            None => "there is no such field".to_owned(),
        };
        violations.push(Violation { field: within(name), what });
    }
}

fn is_type(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

fn noun(wanted: &str) -> &str {
    match wanted {
        "object" => "a mapping",
        "array" => "a list",
        "string" => "text",
        "boolean" => "true or false",
        "integer" => "a whole number",
        other => other,
    }
}

/// Returns whether a text contains a match of a schema's pattern. An invalid pattern matches nothing.
fn is_match(pattern: &str, text: &str) -> bool {
    Pattern::new(&format!("(?s).*(?:{pattern}).*")).is_ok_and(|pattern| pattern.is_match(text.as_bytes()))
}

/// Returns the size of a number, a list or a text, and the unit of the size. Also returns the two keywords with which a
/// schema limits the size: the keyword of the minimum, then the keyword of the maximum.
fn size(value: &Value) -> Option<(f64, &'static str, &'static str, &'static str)> {
    match value {
        Value::Number(number) => Some((number.as_f64()?, "", "minimum", "maximum")),
        Value::Array(items) => Some((length(items.len()), " items", "minItems", "maxItems")),
        Value::String(text) => Some((length(text.chars().count()), " letters", "minLength", "maxLength")),
        _ => None,
    }
}

fn length(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) => "the list".to_owned(),
        Value::Object(_) => "the mapping".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "schema_traffic_tests.rs"]
mod traffic_tests;
