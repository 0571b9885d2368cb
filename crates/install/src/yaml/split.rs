//! Splits a file into its documents.

use serde_json::Value;

use super::read::{Fault, read};

/// One document of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document<'a> {
    /// The lines before the content: the `---` marker, comments, empty lines.
    pub head: &'a str,
    /// The rest of the document's text.
    pub body: &'a str,
    /// The document's value; null for an empty document.
    pub value: Value,
}

/// Splits a file of YAML documents, or of JSON objects one after the other.
///
/// A line that starts a document begins with `---`. Such a line cannot be part of other content (YAML 1.2 section
/// 9.1.2), so this function finds such lines without a parser.
///
/// # Errors
/// The first document that is neither YAML nor JSON, with its line in the file.
pub fn split(text: &str) -> Result<Vec<Document<'_>>, Fault> {
    let mut documents = Vec::new();
    let mut line = 0;
    for part in parts(text) {
        let (head, body) = part.split_at(head_length(part));
        let line_of_body = line + lines(head);
        match json(body) {
            Some(objects) => {
                let heads = std::iter::once(head).chain(std::iter::repeat(""));
                documents.extend(objects.into_iter().zip(heads).map(|((body, value), head)| Document {
                    head,
                    body,
                    value,
                }));
            }
            None => {
                let value =
                    read(body).map_err(|fault| Fault { line: fault.line.saturating_add(line_of_body), ..fault })?;
                documents.push(Document { head, body, value });
            }
        }
        line += lines(part);
    }
    Ok(documents)
}

/// Splits a text before each marker; each part but the first begins with its marker.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if is_marker(line) && at > start {
            parts.push(&text[start..at]);
            start = at;
        }
        at += line.len();
    }
    if at > start {
        parts.push(&text[start..at]);
    }
    parts
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.starts_with([' ', '\t', '\r', '\n']) || rest.is_empty())
}

/// Returns the length of a part's head: its marker, directives, comments and empty lines.
///
/// A marker with content after it, for example `--- {a: 1}`, is not part of the head: the parser reads it.
fn head_length(part: &str) -> usize {
    let is_head = |line: &&str| {
        let rest = if is_marker(line) { line.get(3..).unwrap_or_default() } else { line };
        let rest = rest.trim();
        rest.is_empty() || rest.starts_with('#') || line.starts_with('%')
    };
    part.split_inclusive('\n').take_while(is_head).map(str::len).sum()
}

/// The JSON objects in `text`, each with its own text; `None` if the text contains anything else.
fn json(text: &str) -> Option<Vec<(&str, Value)>> {
    if !text.starts_with(|c: char| c == '{' || c.is_whitespace()) || text.trim().is_empty() {
        return None;
    }
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut objects = Vec::new();
    let mut start = 0;
    while let Some(value) = stream.next() {
        let value = value.ok()?;
        let end = stream.byte_offset();
        objects.push((text.get(start..end)?, value));
        start = end;
    }
    // Add the white space after the last object, such as a newline, to the text of this object.
    if let Some((last, _)) = objects.last_mut() {
        *last = text.get(start - last.len()..)?;
    }
    Some(objects)
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|b| *b == b'\n').count()
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
