//! Parses one YAML document into the value that kubectl would read.

use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::{Map, Value};

use super::scalar;

/// Maximum nesting of lists and mappings.
pub(super) const DEPTH_MAX: usize = 128;
/// Maximum number of values in a document, with aliases expanded. A cluster stores objects of at most 1.5 MiB, whose
/// number of values is below this limit.
const VALUES_MAX: usize = 1 << 20;
/// The key of a mapping whose entries are merged into the surrounding mapping.
const MERGE: &str = "<<";

/// The parser's errors for a value in brackets or quotes whose further lines are indented too little. kubectl accepts
/// such a value.
const INDENTATION: [&str; 3] =
    ["invalid indentation", "invalid indentation in quoted scalar", "invalid indentation in flow construct"];

/// The reason why a text cannot be parsed, with the line of the fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line of the fault, counted from 1.
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Fault {}

/// Parses the only document of `text`; without a document the value is null.
///
/// # Errors
/// The first fault: text that is not YAML, or a value that JSON cannot represent.
pub fn read(text: &str) -> Result<Value, Fault> {
    let mut reader = Reader { events: Parser::new_from_str(text), anchors: HashMap::new(), values: 0 };
    let mut document = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(document.unwrap_or_default()),
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            _ if document.is_some() => return Err(fault(&span, "a second document; begin it with a line of ---")),
            event => document = Some(reader.value(event, &span, 0)?),
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Anchored>,
    values: usize,
}

/// The value that a YAML anchor names, for the aliases that refer to it.
struct Anchored {
    value: Value,
    values: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.events.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(syntax(&error)),
            // The parser has no event after `StreamEnd`, and no caller asks for a further event.
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn value(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Value, Fault> {
        if depth > DEPTH_MAX {
            return Err(fault(span, &format!("nested more than {DEPTH_MAX} deep")));
        }
        let before = self.values;
        self.count(1, span)?;
        let (anchor, value) = match event {
            Event::Alias(anchor) => return self.alias(anchor, span),
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                let tag = tag.as_ref().map(|tag| if tag.is_yaml_core_schema() { tag.suffix.as_str() } else { "?" });
                let value = match (tag, is_plain) {
                    (Some("str"), _) | (None, false) => Value::String(text.into_owned()),
                    (None | Some("int" | "float" | "bool" | "null"), _) => scalar::resolve(&text),
                    _ => return Err(fault(span, "a tag that Kubernetes does not know; remove it")),
                };
                (anchor, value)
            }
            Event::SequenceStart(anchor, _) => (anchor, self.list(depth)?),
            Event::MappingStart(anchor, _) => (anchor, self.map(depth)?),
            _ => return Err(fault(span, "the document ends in the middle of a value")),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, Anchored { value: value.clone(), values: self.values - before });
        }
        Ok(value)
    }

    fn list(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::Array(items));
            }
            items.push(self.value(event, &span, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut map = Map::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let Event::Scalar(key, style, ..) = event else {
                return Err(fault(&span, "a key that is not text"));
            };
            let is_merge = key == MERGE && style == ScalarStyle::Plain;
            let (event, value_span) = self.next()?;
            let value = self.value(event, &value_span, depth + 1)?;
            if is_merge {
                merged.push((value, span));
            } else if map.insert(key.clone().into_owned(), value).is_some() {
                return Err(fault(&span, &format!("the key {key:?} is here twice in one mapping")));
            }
        }
        for (value, span) in merged {
            merge(&mut map, value, &span)?;
        }
        Ok(Value::Object(map))
    }

    fn alias(&mut self, anchor: usize, span: &Span) -> Result<Value, Fault> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(fault(span, "an alias inside the value that it refers to"));
        };
        let (value, values) = (anchored.value.clone(), anchored.values);
        self.count(values, span)?;
        Ok(value)
    }

    fn count(&mut self, values: usize, span: &Span) -> Result<(), Fault> {
        self.values = self.values.saturating_add(values);
        if self.values > VALUES_MAX {
            return Err(fault(span, &format!("the document has more than {VALUES_MAX} values")));
        }
        Ok(())
    }
}

/// Merges the entries of one or several mappings into `map`. The entries that `map` already has take precedence.
fn merge(map: &mut Map<String, Value>, value: Value, span: &Span) -> Result<(), Fault> {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                map.entry(key).or_insert(value);
            }
            Ok(())
        }
        Value::Array(items) => items.into_iter().try_for_each(|item| merge(map, item, span)),
        _ => Err(fault(span, "<< takes a mapping, or a list of them")),
    }
}

fn syntax(error: &ScanError) -> Fault {
    let remedy = if INDENTATION.contains(&error.info()) {
        "; YAML demands that the further lines of a value are indented more than its key, and kubectl does not: indent them"
    } else {
        ""
    };
    Fault { line: error.marker().line(), what: format!("this is not YAML: {}{remedy}", error.info()) }
}

fn fault(span: &Span, what: &str) -> Fault {
    Fault { line: span.start.line(), what: what.to_owned() }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
