//! What an installation is told: defaults, files and single values on top of each other.

use serde_json::{Map, Value};

use crate::schema::Violation;
use crate::yaml;

/// A value may not be what it is; one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// It is not NAME=VALUE.
    #[error("{0:?} sets nothing; write NAME=VALUE, as control.replicas=3")]
    Form(String),
    /// The schema does not allow it.
    #[error("{0}; charts/leno/values.yaml lists what may be set")]
    Schema(Violation),
}

/// Puts `over` on top of `values`: mappings into each other, anything else in place of what was there.
pub fn merge(values: &mut Value, over: Value) {
    match (values, over) {
        (Value::Object(values), Value::Object(over)) => {
            for (key, value) in over {
                merge(values.entry(key).or_insert(Value::Null), value);
            }
        }
        (values, over) => *values = over,
    }
}

/// Sets one value, written as `control.replicas=3`. Where `schema` wants text there it is text, else YAML:
/// `webhook.excludedNamespaces=[a, b]`.
///
/// # Errors
/// Where it has no name or no `=`.
pub(super) fn set(values: &mut Value, schema: &Value, text: &str) -> Result<(), ValueError> {
    let form = || ValueError::Form(text.to_owned());
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    if name.split('.').any(str::is_empty) {
        return Err(form());
    }
    let wanted = name.split('.').fold(schema, |schema, step| &schema["properties"][step]);
    let value = match wanted["type"] == "string" {
        true => value.into(),
        // What is not YAML is meant as text.
        false => yaml::read(value).unwrap_or_else(|_| value.into()),
    };
    let nested = name.rsplit('.').fold(value, |inner, step| Value::Object(Map::from_iter([(step.to_owned(), inner)])));
    merge(values, nested);
    Ok(())
}
