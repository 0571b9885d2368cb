//! Converts objects from a Kubernetes API into [`Node`]s. The module `tree` creates the same type from text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::tree::{Entry, Node, Value};
use crate::problem::Mark;

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Builder).map(node)
    }
}

/// Creates a node without a position.
fn node(value: Value) -> Node {
    Node { mark: Mark::default(), value }
}

fn plain(text: String) -> Value {
    Value::Scalar { text: text.into(), quoted: false }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Scalar { text: text.into(), quoted: true })
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(plain(String::new()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut entries: Vec<Entry> = Vec::new();
        while let Some((key, node)) = fields.next_entry::<String, Node>()? {
            entries.push(Entry { key: key.into(), key_mark: Mark::default(), node });
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
