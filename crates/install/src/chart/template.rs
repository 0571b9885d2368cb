//! The part of Helm's template language that the chart uses.
//!
//! Text with actions: `{{ pipeline }}`, `{{ if pipeline }} .. {{ else }} .. {{ end }}`, `{{ /* comment */ }}`, with `-`
//! to trim white space. A pipeline is commands with `|` between them. A command is a field (`.Values.a`), a literal, or
//! a function with arguments: default, eq, fail, has, indent, ne, nindent, or, quote, toYaml, .Files.Get.

use std::vec::IntoIter;

use serde_json::Value;

use crate::yaml;

/// Deepest nesting of `if`s.
const DEPTH_MAX: usize = 16;

/// The reason why a template cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The action is malformed or not supported.
    #[error("{{{{ {0} }}}} is not understood")]
    Syntax(String),
    #[error("an if without its end, or an end without its if")]
    Unbalanced,
    /// The template prints a field that has no value, or inserts a file that does not exist.
    #[error("{0} has no value")]
    Missing(String),
    /// The template called `fail`.
    #[error("{0}")]
    Fail(String),
}

/// Renders a template; `context` holds `Values`, `Release`, `Chart`, and `Files` by their names.
///
/// # Errors
/// The first action that fails.
pub(super) fn render(template: &str, context: &Value) -> Result<String, TemplateError> {
    let mut tokens = tokens(template)?.into_iter();
    let mut text = String::new();
    let end = block(&mut tokens, context, Some(&mut text), 0)?;
    if end.is_some() { Err(TemplateError::Unbalanced) } else { Ok(text) }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Text(&'a str),
    Action(&'a str),
}

/// Splits a template into text and actions, and trims white space at each `-`.
fn tokens(template: &str) -> Result<Vec<Token<'_>>, TemplateError> {
    let mut tokens = Vec::new();
    let mut rest = template;
    let mut trims = false;
    while let Some((text, after)) = rest.split_once("{{") {
        let (action, after) = after.split_once("}}").ok_or_else(|| TemplateError::Syntax(after.trim().to_owned()))?;
        let text = if trims { text.trim_start() } else { text };
        let (text, action) = match action.strip_prefix('-') {
            Some(action) => (text.trim_end(), action),
            None => (text, action),
        };
        trims = action.ends_with('-');
        tokens.push(Token::Text(text));
        tokens.push(Token::Action(action.strip_suffix('-').unwrap_or(action).trim()));
        rest = after;
    }
    tokens.push(Token::Text(if trims { rest.trim_start() } else { rest }));
    Ok(tokens)
}

/// Renders up to the next `else` or `end` of this block, and returns which of these two words it is. Returns `None` at
/// the end of the template. Without `output`, the block is skipped instead of rendered.
fn block<'a>(
    tokens: &mut IntoIter<Token<'a>>,
    context: &Value,
    mut output: Option<&mut String>,
    depth: usize,
) -> Result<Option<&'a str>, TemplateError> {
    if depth > DEPTH_MAX {
        return Err(TemplateError::Unbalanced);
    }
    while let Some(token) = tokens.next() {
        match token {
            Token::Text(text) => {
                if let Some(output) = output.as_deref_mut() {
                    output.push_str(text);
                }
            }
            Token::Action(end @ ("end" | "else")) => return Ok(Some(end)),
            Token::Action(comment) if comment.starts_with("/*") => {}
            Token::Action(action) => match (action.strip_prefix("if "), output.as_deref_mut()) {
                (Some(condition), output) => condition_block(tokens, context, condition, output, depth)?,
                (None, Some(output)) => output.push_str(&printed(action, pipeline(action, context)?)?),
                (None, None) => {}
            },
        }
    }
    Ok(None)
}

fn condition_block<'a>(
    tokens: &mut IntoIter<Token<'a>>,
    context: &Value,
    condition: &str,
    mut output: Option<&mut String>,
    depth: usize,
) -> Result<(), TemplateError> {
    let holds = output.is_some() && is_true(&pipeline(condition, context)?);
    let taken = output.as_deref_mut().filter(|_| holds);
    let mut end = block(tokens, context, taken, depth + 1)?;
    if end == Some("else") {
        let otherwise = output.filter(|_| !holds);
        end = block(tokens, context, otherwise, depth + 1)?;
    }
    if end == Some("end") { Ok(()) } else { Err(TemplateError::Unbalanced) }
}

fn pipeline(text: &str, context: &Value) -> Result<Value, TemplateError> {
    let mut piped = None;
    for command in text.split('|') {
        let words = words(command)?;
        piped = Some(evaluate(text, &words, piped, context)?);
    }
    piped.ok_or_else(|| TemplateError::Syntax(text.to_owned()))
}

/// Evaluates one command. The `piped` value becomes the last argument of the command.
fn evaluate(action: &str, words: &[String], piped: Option<Value>, context: &Value) -> Result<Value, TemplateError> {
    let syntax = || TemplateError::Syntax(action.to_owned());
    let (first, rest) = words.split_first().ok_or_else(syntax)?;
    if let (Some(value), [], None) = (term(first, context), rest, &piped) {
        return Ok(value);
    }
    let arguments: Option<Vec<Value>> = rest.iter().map(|word| term(word, context)).collect();
    let mut arguments = arguments.ok_or_else(syntax)?;
    arguments.extend(piped);
    match (first.as_str(), arguments.as_slice()) {
        ("default", [default, value]) => Ok(if is_true(value) { value.clone() } else { default.clone() }),
        // With several arguments after the first, Go's `eq` compares the first with each of them.
        ("eq", [one, others @ ..]) if !others.is_empty() => Ok(others.contains(one).into()),
        ("has", [item, Value::Array(items)]) => Ok(items.contains(item).into()),
        ("ne", [one, other]) => Ok((one != other).into()),
        ("or", [one, other]) => Ok(if is_true(one) { one.clone() } else { other.clone() }),
        // Fail if the file does not exist; Helm would insert nothing and report no error.
        (".Files.Get", [Value::String(name)]) => {
            context["Files"].get(name).cloned().ok_or_else(|| TemplateError::Missing(action.to_owned()))
        }
        ("fail", [Value::String(why)]) => Err(TemplateError::Fail(why.clone())),
        ("quote", [value]) => Ok(Value::String(printed(action, value.clone())?).to_string().into()),
        ("toYaml", [value]) => Ok(yaml::write(value).trim_end().into()),
        ("indent", [Value::Number(width), value]) => Ok(indented(width, &printed(action, value.clone())?).into()),
        ("nindent", [Value::Number(width), value]) => {
            Ok(format!("\n{}", indented(width, &printed(action, value.clone())?)).into())
        }
        _ => Err(syntax()),
    }
}

/// Evaluates a field or a literal; `None` for anything else, such as a function's name.
fn term(word: &str, context: &Value) -> Option<Value> {
    if let Some(path) = word.strip_prefix('.') {
        let mut value = context;
        for step in path.split('.') {
            value = value.get(step).unwrap_or(&Value::Null);
        }
        return Some(value.clone());
    }
    let is_literal = word.starts_with(|c: char| c == '"' || c.is_ascii_digit());
    is_literal.then(|| serde_json::from_str(word).ok()).flatten()
}

/// Splits at white space; quoted text is one word.
fn words(command: &str) -> Result<Vec<String>, TemplateError> {
    let mut words = Vec::new();
    let mut rest = command.trim();
    while !rest.is_empty() {
        let end = match rest.strip_prefix('"') {
            Some(inside) => inside.find('"').ok_or_else(|| TemplateError::Syntax(command.to_owned()))? + 2,
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at(end);
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(words)
}

fn printed(action: &str, value: Value) -> Result<String, TemplateError> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null => Err(TemplateError::Missing(action.to_owned())),
        // Reject lists and mappings: Go would print them in its own notation, which the chart never needs.
        Value::Array(_) | Value::Object(_) => Err(TemplateError::Syntax(action.to_owned())),
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

fn indented(width: &serde_json::Number, text: &str) -> String {
    let margin = " ".repeat(width.as_u64().and_then(|width| width.try_into().ok()).unwrap_or_default());
    text.lines().map(|line| format!("{margin}{line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
