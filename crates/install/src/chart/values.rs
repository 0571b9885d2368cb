//! The values of an installation: defaults, files and single values, merged in this order.

use serde_json::{Map, Value};

use crate::schema::Violation;
use crate::yaml;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("{0:?} sets nothing; write NAME=VALUE, as control.replicas=3")]
    Form(String),
    /// The schema rejects the value.
    #[error("{0}; charts/leno/values.yaml lists what may be set")]
    Schema(Violation),
}

/// Merges `over` into `values`: mappings are merged, anything else is replaced.
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

/// Sets one value from a text such as `control.replicas=3` or `webhook.excludedNamespaces=[a, b]`. The part after `=`
/// is taken as text if `schema` requires a string, and is parsed as YAML otherwise.
///
/// # Errors
/// If the text has no name or no `=`.
pub(super) fn set(values: &mut Value, schema: &Value, text: &str) -> Result<(), ValueError> {
    let form = || ValueError::Form(text.to_owned());
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    if name.split('.').any(str::is_empty) {
        return Err(form());
    }
    let wanted = name.split('.').fold(schema, |schema, step| &schema["properties"][step]);
    let value = match wanted["type"] == "string" {
        true => value.into(),
        // If the value is not valid YAML, take it as text.
        false => yaml::read(value).unwrap_or_else(|_| value.into()),
    };
    let nested = name.rsplit('.').fold(value, |inner, step| Value::Object(Map::from_iter([(step.to_owned(), inner)])));
    merge(values, nested);
    Ok(())
}
