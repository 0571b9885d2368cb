//! Edits the text of a YAML document, and keeps its comments, its layout and its line ends.
//!
//! An edit works on whole lines in block style, the style of manifests. [`edit()`] parses the new text again. If the
//! text does not have exactly the wanted value, [`edit()`] returns `None`, and the caller writes the document anew.

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Value, json};

use super::read::{DEPTH_MAX, read};
use super::write::write;
use crate::patch::{Operation, unescape};

/// Makes these changes in `text` and returns the new text, whose value must be `wanted`; `None` if that is not
/// possible.
pub fn edit(text: &str, operations: &[Operation], wanted: &Value) -> Option<String> {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let line_end = if lines.first().is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" };
    if let Some(last) = lines.last_mut().filter(|line| !line.ends_with('\n')) {
        last.push_str(line_end);
    }
    for operation in operations {
        change(&mut lines, operation, line_end)?;
    }
    let text = lines.concat();
    (read(&text).ok().as_ref() == Some(wanted)).then_some(text)
}

fn change(lines: &mut Vec<String>, operation: &Operation, line_end: &str) -> Option<()> {
    let text = lines.concat();
    let root = Tree { events: Parser::new_from_str(&text), lines }.root()?;
    let (Operation::Add { path, .. } | Operation::Remove { path }) = operation;
    let (parent, last) = path.rsplit_once('/')?;
    let parent = parent.split('/').skip(1).try_fold(&root, |node, token| node.child(&unescape(token)))?;
    match operation {
        Operation::Add { value, .. } => {
            let (at, value) = parent.place(&unescape(last), value, lines)?;
            let indent = " ".repeat(parent.column);
            let new = write(&value);
            let new = new
                .lines()
                .map(|line| if line.is_empty() { line_end.to_owned() } else { format!("{indent}{line}{line_end}") });
            let at = at.min(lines.len());
            lines.splice(at..at, new);
        }
        Operation::Remove { .. } => {
            let child = parent.child(&unescape(last))?;
            // Do not remove an only child from the text: the parent would become null, not an empty mapping or list.
            if parent.children.len() < 2 || !parent.is_block {
                return None;
            }
            let end = (child.last_line + 1).min(lines.len());
            if child.first_line >= end {
                return None;
            }
            lines.drain(child.first_line..end);
        }
    }
    Some(())
}

/// The position of a value in the text. Lines and columns are counted from 0.
struct Node {
    /// The line of the value's key or dash, and the last line that belongs to the value.
    first_line: usize,
    last_line: usize,
    /// The column in which the keys or dashes of the children begin.
    column: usize,
    is_block: bool,
    is_list: bool,
    /// The members of a mapping by name, or the items of a list by number.
    children: Vec<(String, Node)>,
}

impl Node {
    fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|(of, _)| of == name).map(|(_, child)| child)
    }

    /// The line before which to insert a new member or item, and the value to write there.
    fn place(&self, name: &str, value: &Value, lines: &[String]) -> Option<(usize, Value)> {
        if !self.is_block || self.children.is_empty() {
            return None;
        }
        let end = self.last_line + 1;
        if !self.is_list {
            // Return `None` if the member exists: the caller would have to replace it, not insert it.
            return self.child(name).is_none().then(|| (end, json!({name: value})));
        }
        let at = match self.child(name) {
            Some(next) => above_comments(next.first_line, self.column, lines),
            None => end,
        };
        Some((at, json!([value])))
    }
}

/// Returns the first line of the comments that belong to a line: the comment lines directly above it whose `#` is in
/// `column`. Returns the line itself if there are no such comments.
fn above_comments(line: usize, column: usize, lines: &[String]) -> usize {
    let is_comment = |line: &&String| line.find('#') == Some(column) && line.trim_start().starts_with('#');
    line - lines.get(..line).unwrap_or_default().iter().rev().take_while(is_comment).count()
}

/// Parses a text into [`Node`]s.
struct Tree<'a, 'l> {
    events: Parser<'a, StrInput<'a>>,
    lines: &'l [String],
}

impl<'a> Tree<'a, '_> {
    fn next(&mut self) -> Option<(Event<'a>, Span)> {
        self.events.next_event()?.ok()
    }

    fn root(&mut self) -> Option<Node> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                event => return self.node(&event, &span, 0),
            }
        }
    }

    fn node(&mut self, event: &Event<'a>, span: &Span, depth: usize) -> Option<Node> {
        let (line, column) = (span.start.line().checked_sub(1)?, span.start.col());
        let begins_flow =
            self.lines.get(line).and_then(|text| text.chars().nth(column)).is_some_and(|c| "{[".contains(c));
        let is_list = matches!(event, Event::SequenceStart(..));
        let mut node =
            Node { first_line: line, last_line: line, column, is_block: !begins_flow, is_list, children: Vec::new() };
        match event {
            _ if depth > DEPTH_MAX => return None,
            Event::Scalar(_, style, ..) => {
                // If a key has no value, the parser reports the position of the next item, so ignore this position.
                let is_written = span.start.index() != span.end.index();
                node.last_line = if is_written { self.last_line(*style, span) } else { 0 };
                node.is_block = false;
            }
            Event::Alias(_) => node.is_block = false,
            Event::SequenceStart(..) => loop {
                let (event, span) = self.next()?;
                if event == Event::SequenceEnd {
                    node.end(&span);
                    break;
                }
                let item = self.node(&event, &span, depth + 1)?;
                if node.children.is_empty() {
                    node.column = self.dash_column(item.first_line).unwrap_or(node.column);
                }
                node.last_line = node.last_line.max(item.last_line);
                node.children.push((node.children.len().to_string(), item));
            },
            Event::MappingStart(..) => loop {
                let (event, span) = self.next()?;
                let key = match event {
                    Event::MappingEnd => {
                        node.end(&span);
                        break;
                    }
                    Event::Scalar(key, ..) => key.into_owned(),
                    _ => return None,
                };
                let key_line = span.start.line().checked_sub(1)?;
                if node.children.is_empty() {
                    node.column = span.start.col();
                }
                let (event, value_span) = self.next()?;
                let mut value = self.node(&event, &value_span, depth + 1)?;
                value.first_line = key_line;
                value.last_line = value.last_line.max(key_line);
                node.last_line = node.last_line.max(value.last_line);
                node.children.push((key, value));
            },
            _ => return None,
        }
        Some(node)
    }

    /// The column of the dash that a line begins with.
    fn dash_column(&self, line: usize) -> Option<usize> {
        let line = self.lines.get(line)?;
        line.trim_start().starts_with('-').then(|| line.len() - line.trim_start().len())
    }

    /// Returns the last line of a scalar. This function must find the end of a block scalar itself, because the parser
    /// reports the position of the item that follows.
    fn last_line(&self, style: ScalarStyle, span: &Span) -> usize {
        let (start, end) = (span.start.line().saturating_sub(1), span.end.line().saturating_sub(1));
        if !matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
            return end.max(start);
        }
        let within = self.lines.get(start + 1..end).unwrap_or_default();
        let blank = within.iter().rev().take_while(|line| line.trim().is_empty()).count();
        start + within.len() - blank
    }
}

impl Node {
    /// Sets the last line of a collection in flow style, which ends with its bracket.
    fn end(&mut self, span: &Span) {
        if !self.is_block {
            self.last_line = self.last_line.max(span.end.line().saturating_sub(1));
        }
    }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
