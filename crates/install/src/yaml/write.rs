//! Writes a value as YAML that every reader, of YAML 1.1 or 1.2, reads as the same value.

use std::fmt::Write as _;

use serde_json::Value;

use super::scalar;

/// Writes a value as one document, without the marker `---`.
pub fn write(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(&mut text, value, 0),
        Value::Array(items) if !items.is_empty() => block(&mut text, value, 0),
        scalar => {
            inline(&mut text, scalar, 0);
            text.push('\n');
        }
    }
    text
}

/// Writes a non-empty mapping or list; the caller has indented the first line.
fn block(text: &mut String, value: &Value, indent: usize) {
    let mut is_first = true;
    let mut begin_line = |text: &mut String| {
        if !is_first {
            (0..indent).for_each(|_| text.push(' '));
        }
        is_first = false;
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                begin_line(text);
                string(text, key, None);
                text.push(':');
                member(text, value, indent);
            }
        }
        Value::Array(items) => {
            for item in items {
                begin_line(text);
                text.push('-');
                text.push(' ');
                if is_block(item) {
                    block(text, item, indent + 2);
                } else {
                    inline(text, item, indent);
                    text.push('\n');
                }
            }
        }
        _ => {}
    }
}

/// Writes the value of a mapping's member, after `key:`. A list begins in the column of its key, as in kubectl's YAML.
fn member(text: &mut String, value: &Value, indent: usize) {
    if !is_block(value) {
        text.push(' ');
        inline(text, value, indent);
        text.push('\n');
        return;
    }
    let inner = if value.is_array() { indent } else { indent + 2 };
    text.push('\n');
    (0..inner).for_each(|_| text.push(' '));
    block(text, value, inner);
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn inline(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(content) => string(text, content, Some(indent)),
        Value::Object(_) => text.push_str("{}"),
        Value::Array(_) => text.push_str("[]"),
        // Null, booleans and numbers look the same in YAML and in JSON. Writing to a String cannot fail.
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

/// Writes a string: plain, as a literal block, or quoted. For a key, `indent` is `None`: a key stays on one line.
fn string(text: &mut String, content: &str, indent: Option<usize>) {
    match indent {
        Some(indent) if fits_literal(content) => literal(text, content, indent + 2),
        _ if fits_plain(content) => text.push_str(content),
        _ => quoted(text, content),
    }
}

/// Returns whether every YAML reader reads the text without quotes as a string with this content.
fn fits_plain(content: &str) -> bool {
    // Quote text that begins like a number or a date: a reader may parse it as one. Command-line flags and quantities
    // begin with a dash or a digit too, but every reader parses them as strings.
    let flag = content.strip_prefix("--").or(content.strip_prefix('-')).unwrap_or(content);
    let starts = flag.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_') || is_quantity(content);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "/_.-+=@,;()$% :#".contains(c);
    let is_comment_or_key = content.contains(": ") || content.contains(" #") || content.ends_with([':', ' ']);
    starts && content.chars().all(allowed) && !is_comment_or_key && scalar::resolve(content).is_string()
}

/// Returns whether the text is a whole number and a unit, for example 10m, 16Mi or 25%.
fn is_quantity(content: &str) -> bool {
    let unit = content.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < content.len() && ["m", "s", "k", "M", "G", "Ki", "Mi", "Gi", "%"].contains(&unit)
}

/// Returns whether a literal block reproduces the text unchanged.
fn fits_literal(content: &str) -> bool {
    let is_printable =
        |c: char| c == '\n' || c == '\t' || (!c.is_control() && !"\u{feff}\u{2028}\u{2029}\u{85}".contains(c));
    let lines = content.strip_suffix('\n').unwrap_or(content);
    let ends_early = lines.ends_with(['\n', ' ', '\t']) || lines.is_empty();
    lines.contains('\n') && !ends_early && !content.starts_with([' ', '\t', '\n']) && content.chars().all(is_printable)
}

fn literal(text: &mut String, content: &str, indent: usize) {
    text.push_str(if content.ends_with('\n') { "|" } else { "|-" });
    for line in content.lines() {
        text.push('\n');
        if !line.is_empty() {
            (0..indent).for_each(|_| text.push(' '));
            text.push_str(line);
        }
    }
}

/// Writes a string in double quotes with JSON's escapes, which YAML also has.
fn quoted(text: &mut String, content: &str) {
    text.push('"');
    for c in content.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            // Writing to a String cannot fail.
            c if c.is_control() || "\u{feff}\u{2028}\u{2029}".contains(c) => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
