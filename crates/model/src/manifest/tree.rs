//! Parses YAML text into a tree that records the position of each value.
//!
//! Accepts JSON too, which is a subset of YAML. Invariant: a tree is at most [`DEPTH_MAX`] deep, and the trees of a
//! file take at most [`TREE_MAX_BYTES`], even if the text repeats aliases. A hostile or mistaken file therefore cannot
//! exhaust the memory.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use crate::problem::{Mark, quoted};

/// Maximum nesting depth of lists and mappings; Kubernetes objects need about ten levels.
pub(super) const DEPTH_MAX: usize = 64;
/// Maximum memory for the trees of one file, after aliases have been expanded.
pub(super) const TREE_MAX_BYTES: usize = 16 << 20;

/// One value of a document.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Position of the value in the text. But if a key's value is a list, a mapping or empty, this is the position of
    /// the key.
    pub(crate) mark: Mark,
    pub(crate) value: Value,
}

/// The content of a [`Node`]. The values of scalars are stored as text, because their meaning depends on the field.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A number, a boolean, null or a string; always a string if `quoted` is true.
    Scalar {
        text: Box<str>,
        quoted: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a mapping with its value; keys are unique within the mapping.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Box<str>,
    pub(crate) key_mark: Mark,
    pub(crate) node: Node,
}

/// The reason why a text cannot be parsed, with the position and the fix.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) mark: Mark,
    pub(super) what: String,
    pub(super) fix: &'static str,
}

/// Parses every document of `text`.
///
/// # Errors
/// The first position at which the text is not YAML, exceeds a limit, or uses a feature that Kubernetes manifests do
/// not have (foreign tags, non-text keys, duplicate keys).
pub(super) fn documents(text: &str) -> Result<Vec<Node>, Fault> {
    let mut builder = Builder { events: Parser::new_from_str(text), anchors: HashMap::new(), weight_bytes: 0 };
    let mut documents = Vec::new();
    loop {
        let (event, span) = builder.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            Event::DocumentStart(_) => builder.anchors.clear(),
            event => documents.push(builder.node(event, span, 0)?),
        }
    }
}

impl Node {
    /// Returns the value of `key`; `None` if this node is not a mapping or has no such key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => {
                let entry = entries.iter().find(|entry| &*entry.key == key)?;
                Some(&entry.node)
            }
            Value::Scalar { .. } | Value::List(_) => None,
        }
    }

    /// Returns the text of a scalar; `None` for a null, a list or a mapping.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Returns whether this is a null in YAML: an unquoted scalar that is empty, `~` or `null`.
    pub(crate) fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar { text, quoted } => !quoted && matches!(&**text, "" | "~" | "null" | "Null" | "NULL"),
            Value::List(_) | Value::Map(_) => false,
        }
    }

    /// Returns the position of a field with this path, for example `spec.ports[0].port` or `metadata.labels["a/b"]`. If
    /// the field does not exist, returns the position of its nearest existing parent.
    pub(crate) fn locate(&self, path: &str) -> Mark {
        let mut node = self;
        let mut rest = path;
        while let Some((step, after)) = first_step(rest) {
            let child = match &node.value {
                Value::List(items) => step.parse().ok().and_then(|at: usize| items.get(at)),
                Value::Map(_) | Value::Scalar { .. } => node.get(step),
            };
            let Some(child) = child else { break };
            (node, rest) = (child, after);
        }
        node.mark
    }

    fn weight_bytes(&self) -> usize {
        let inside: usize = match &self.value {
            Value::Scalar { text, .. } => text.len(),
            Value::List(items) => items.iter().map(Node::weight_bytes).sum(),
            Value::Map(entries) => entries.iter().map(|entry| entry.key.len() + entry.node.weight_bytes()).sum(),
        };
        size_of::<Entry>() + inside
    }
}

/// Splits a path into its first step and the rest, for example `spec.ports[0]` into `spec` and `.ports[0]`. `None` if
/// the path is empty.
fn first_step(path: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = path.strip_prefix("[\"") {
        return quoted.split_once("\"]");
    }
    if let Some(index) = path.strip_prefix('[') {
        return index.split_once(']');
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    let end = path.find(['.', '[']).unwrap_or(path.len());
    path.split_at_checked(end).filter(|(step, _)| !step.is_empty())
}

struct Builder<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    weight_bytes: usize,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.events.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(syntax(&error)),
            // Unreachable: the parser ends after StreamEnd, and no caller reads beyond it.
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Fault> {
        let mark = mark(&span.start);
        if depth > DEPTH_MAX {
            return Err(Fault {
                mark,
                what: format!("nested more than {DEPTH_MAX} deep"),
                fix: "no Kubernetes object needs that: check the brackets",
            });
        }
        let (anchor, value) = match event {
            Event::Alias(anchor) => return self.alias(anchor, mark),
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = style != ScalarStyle::Plain || is_text_tag(tag.as_ref(), mark)?;
                self.weigh(size_of::<Entry>() + text.len(), mark)?;
                let text = text.into();
                (anchor, Value::Scalar { text, quoted })
            }
            Event::SequenceStart(anchor, tag) => {
                is_text_tag(tag.as_ref(), mark)?;
                self.weigh(size_of::<Entry>(), mark)?;
                (anchor, self.list(depth)?)
            }
            Event::MappingStart(anchor, tag) => {
                is_text_tag(tag.as_ref(), mark)?;
                self.weigh(size_of::<Entry>(), mark)?;
                (anchor, self.map(depth)?)
            }
            _ => {
                return Err(Fault {
                    mark,
                    what: "the document ends in the middle of a value".to_owned(),
                    fix: "close what is open",
                });
            }
        };
        let node = Node { mark, value };
        if anchor != 0 {
            self.weigh(node.weight_bytes(), mark)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::List(items));
            }
            items.push(self.node(event, span, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Value::Map(entries));
            }
            let key_mark = mark(&span.start);
            let Event::Scalar(key, ..) = event else {
                return Err(Fault {
                    mark: key_mark,
                    what: "a key that is not text".to_owned(),
                    fix: "write a plain name before the colon",
                });
            };
            self.weigh(key.len(), key_mark)?;
            let key: Box<str> = Cow::into_owned(key).into();
            if !seen.insert(key.clone()) {
                return Err(Fault {
                    mark: key_mark,
                    what: format!("the mapping has the key {} twice", quoted(&key)),
                    fix: "keep one of them",
                });
            }
            let (event, span) = self.next()?;
            let mut node = self.node(event, span, depth + 1)?;
            // Use the position of the key for a list, a mapping or an empty value. A list or a mapping starts on a
            // later line, and an empty value has no position.
            if node.text().is_none() {
                node.mark = key_mark;
            }
            entries.push(Entry { key, key_mark, node });
        }
    }

    fn alias(&mut self, anchor: usize, mark: Mark) -> Result<Node, Fault> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(Fault {
                mark,
                what: "an alias inside the value that it refers to".to_owned(),
                fix: "write the value out",
            });
        };
        self.weigh(node.weight_bytes(), mark)?;
        Ok(Node { mark, ..node })
    }

    fn weigh(&mut self, bytes: usize, mark: Mark) -> Result<(), Fault> {
        self.weight_bytes = self.weight_bytes.saturating_add(bytes);
        if self.weight_bytes <= TREE_MAX_BYTES {
            return Ok(());
        }
        Err(Fault {
            mark,
            what: format!("the file needs more than {} MiB to be read", TREE_MAX_BYTES >> 20),
            fix: "split it, or repeat less with aliases",
        })
    }
}

/// Returns whether the tag marks a string. It is a fault if YAML itself does not define the tag.
fn is_text_tag(tag: Option<&Cow<'_, Tag>>, mark: Mark) -> Result<bool, Fault> {
    match tag {
        None => Ok(false),
        Some(tag) if tag.is_yaml_core_schema() => Ok(tag.suffix == "str"),
        Some(tag) => Err(Fault {
            mark,
            what: format!("the tag {}", quoted(&format!("{}{}", tag.handle, tag.suffix))),
            fix: "remove it: Kubernetes manifests have no tags",
        }),
    }
}

fn syntax(error: &ScanError) -> Fault {
    Fault {
        mark: mark(error.marker()),
        what: format!("this is not YAML: {}", error.info()),
        fix: "correct the syntax here or just above (indentation is made of spaces)",
    }
}

fn mark(marker: &Marker) -> Mark {
    let line = u32::try_from(marker.line()).unwrap_or(u32::MAX);
    let column = u32::try_from(marker.col()).unwrap_or(u32::MAX);
    Mark { line, column: column.saturating_add(1) }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
