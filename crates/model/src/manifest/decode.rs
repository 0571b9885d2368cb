//! Deserializes a parsed tree into a Kubernetes type, and reports the position of each field that does not fit the
//! type.
//!
//! Kubernetes' own types ignore unknown fields. This deserializer reports them with a line number. Otherwise, a
//! misspelled `prots:` would result in a Service without ports, and without a message.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};

use super::tree::{Entry, Node, Value};
use crate::problem::{Mark, quoted};
use crate::spelling::closest;

/// A field that does not fit its type.
#[derive(Debug)]
pub(super) struct Misfit {
    mark: Option<Mark>,
    pub(super) path: String,
    pub(super) what: String,
    pub(super) fix: String,
}

impl Misfit {
    /// The field's position.
    pub(super) fn mark(&self) -> Mark {
        self.mark.unwrap_or_default()
    }

    /// Sets the position and the path. Has no effect if the error already has those of an inner value, because they are
    /// more exact.
    fn at(mut self, mark: Mark, path: &Path<'_>) -> Self {
        if self.mark.is_none() {
            self.mark = Some(mark);
            self.path = path.to_string();
        }
        self
    }
}

/// Deserializes `node` as a `T`.
///
/// # Errors
/// Every field that `T` does not have, and the first field whose value has the wrong type.
pub(super) fn decode<T: DeserializeOwned>(node: &Node) -> Result<T, Vec<Misfit>> {
    let unknown = RefCell::new(Vec::new());
    let reader = Reader { node, key_mark: node.mark, path: &Path::Root, owner: None, unknown: &unknown };
    let read = T::deserialize(reader).map_err(|misfit| misfit.at(node.mark, &Path::Root));
    let mut misfits = unknown.into_inner();
    match read {
        Ok(object) if misfits.is_empty() => Ok(object),
        Ok(_) => Err(misfits),
        Err(misfit) => {
            misfits.push(misfit);
            Err(misfits)
        }
    }
}

/// The path from the object's root to a value.
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) if !is_plain(key) => {
                write!(f, "{parent}[{}]", quoted(key))
            }
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
        }
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// A Kubernetes type's name and the names of its fields.
type Owner = (&'static str, &'static [&'static str]);

/// Reads one value.
#[derive(Clone, Copy)]
struct Reader<'a> {
    node: &'a Node,
    key_mark: Mark,
    path: &'a Path<'a>,
    /// The Kubernetes type of which this value is a field; `None` if the value is no field of such a type.
    owner: Option<Owner>,
    unknown: &'a RefCell<Vec<Misfit>>,
}

impl Reader<'_> {
    fn visit<'de, V: Visitor<'de>>(self, owner: Option<Owner>, visitor: V) -> Result<V::Value, Misfit> {
        match &self.node.value {
            Value::Map(entries) => {
                visitor.visit_map(Fields { parent: self, owner, entries: entries.iter(), value: None })
            }
            Value::List(items) => visitor.visit_seq(Items { parent: self, items: items.iter().enumerate() }),
            Value::Scalar { text, quoted: true } => visitor.visit_str(text),
            Value::Scalar { .. } if self.node.is_null() => visitor.visit_unit(),
            Value::Scalar { text, .. } => visit_plain(text, visitor),
        }
        .map_err(|misfit: Misfit| misfit.at(self.node.mark, self.path))
    }
}

/// Interprets unquoted text by the YAML 1.2 core schema. `yes` and `0x50`, which YAML parsers interpret differently,
/// stay text.
fn visit_plain<'de, V: Visitor<'de>>(text: &str, visitor: V) -> Result<V::Value, Misfit> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    match text {
        "true" | "True" | "TRUE" => visitor.visit_bool(true),
        "false" | "False" | "FALSE" => visitor.visit_bool(false),
        _ if !is_number => visitor.visit_str(text),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => visitor.visit_i64(number),
            (_, Ok(number)) => visitor.visit_f64(number),
            _ => visitor.visit_str(text),
        },
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.visit(None, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if self.node.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.visit(Some((name, fields)), visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if let (Some((name, fields)), Path::Key(_, key)) = (self.owner, self.path) {
            let fix = match closest(key, fields.iter().copied()) {
                Some(meant) => format!("did you mean {meant}?"),
                None => "remove it".to_owned(),
            };
            self.unknown.borrow_mut().push(Misfit {
                mark: Some(self.key_mark),
                path: self.path.to_string(),
                what: format!("{name} has no such field"),
                fix,
            });
        }
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map enum identifier
    }
}

struct Items<'a, I> {
    parent: Reader<'a>,
    items: I,
}

impl<'a, 'de, I: Iterator<Item = (usize, &'a Node)>> SeqAccess<'de> for Items<'a, I> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misfit> {
        let Some((index, node)) = self.items.next() else {
            return Ok(None);
        };
        let path = Path::Index(self.parent.path, index);
        let reader = Reader { node, key_mark: node.mark, path: &path, owner: None, unknown: self.parent.unknown };
        let read = seed.deserialize(reader).map_err(|misfit| misfit.at(node.mark, &path));
        read.map(Some)
    }
}

struct Fields<'a> {
    parent: Reader<'a>,
    owner: Option<Owner>,
    entries: std::slice::Iter<'a, Entry>,
    /// The entry whose key was read last. Its value is read next.
    value: Option<&'a Entry>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misfit> {
        self.value = self.entries.next();
        let Some(entry) = self.value else {
            return Ok(None);
        };
        let key: StrDeserializer<'_, Misfit> = (*entry.key).into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Misfit> {
        let Some(entry) = self.value else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let path = Path::Key(self.parent.path, &entry.key);
        let reader = Reader {
            node: &entry.node,
            key_mark: entry.key_mark,
            path: &path,
            owner: self.owner,
            unknown: self.parent.unknown,
        };
        seed.deserialize(reader).map_err(|misfit| misfit.at(entry.node.mark, &path))
    }
}

impl de::Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            mark: None,
            path: String::new(),
            what: message.to_string(),
            fix: "write it as the Kubernetes API does".to_owned(),
        }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let what = match found {
            Unexpected::Signed(number) => format!("{number} is out of range"),
            other => format!("{other} is not possible here"),
        };
        let expected = expected.to_string();
        let fix = match whole_numbers(&expected) {
            Some((least, most)) => format!("write a whole number from {least} to {most}"),
            None => format!("write what fits {expected}"),
        };
        Self { mark: None, path: String::new(), what, fix }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let (found, is_text) = match found {
            Unexpected::Str(text) => (quoted(text), true),
            Unexpected::Unit => ("nothing".to_owned(), false),
            Unexpected::Seq => ("a list".to_owned(), false),
            Unexpected::Map => ("a mapping".to_owned(), false),
            Unexpected::Signed(number) => (number.to_string(), false),
            Unexpected::Float(number) => (number.to_string(), false),
            Unexpected::Bool(value) => (value.to_string(), false),
            other => (other.to_string(), false),
        };
        let expected = expected.to_string();
        let (expected, fix) = match expected.as_str() {
            kind if whole_numbers(kind).is_some() => {
                ("a whole number", if is_text { "write digits without quotes" } else { "write digits" })
            }
            "a boolean" => ("true or false", "write true or false without quotes"),
            "a string" => ("text", "put it in quotes"),
            "a sequence" => ("a list", "start each item with a dash"),
            "a map" => ("a mapping", "write `key: value` lines"),
            kind => (kind.strip_prefix("struct ").unwrap_or(kind), "write its fields as `key: value` lines"),
        };
        let what = format!("{found} is not {expected}");
        Self { mark: None, path: String::new(), what, fix: fix.to_owned() }
    }
}

/// Returns the range of one of Rust's integer types; `None` for other types. Error messages show the range, because
/// users do not know the names of Rust's types.
fn whole_numbers(kind: &str) -> Option<(i128, i128)> {
    Some(match kind {
        "i8" => (i8::MIN.into(), i8::MAX.into()),
        "i16" => (i16::MIN.into(), i16::MAX.into()),
        "i32" => (i32::MIN.into(), i32::MAX.into()),
        "i64" | "isize" => (i64::MIN.into(), i64::MAX.into()),
        "u8" => (0, u8::MAX.into()),
        "u16" => (0, u16::MAX.into()),
        "u32" => (0, u32::MAX.into()),
        "u64" | "usize" => (0, u64::MAX.into()),
        _ => return None,
    })
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Misfit {}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
