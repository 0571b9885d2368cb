//! Mistakes in manifests, described so that a person can correct them without further help.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// A position in a file; lines and columns count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Mark {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// The place in a manifest to which a [`Problem`] or [`Notice`] refers: file, position, field and object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Place {
    /// The file's path, as the caller passed it; empty for an object from a Kubernetes API.
    pub file: Arc<str>,
    #[serde(flatten)]
    pub mark: Mark,
    /// The field's path, for example `spec.ports[0].port`; empty for the whole object or file.
    pub field: String,
    /// Kind, namespace and name, for example `Service default/echo`; empty if the file has no readable object.
    pub object: String,
}

/// A mistake in a manifest: the file is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Problem {
    #[serde(flatten)]
    pub place: Place,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub fix: String,
}

/// A remark for the user, for example that the reader skips an object. The file stays valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    #[serde(flatten)]
    pub place: Place,
    pub what: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:{}: ", self.file, self.mark.line)?;
        }
        match (self.field.as_str(), self.object.as_str()) {
            ("", "") => Ok(()),
            ("", object) => write!(f, "{object}: "),
            (field, "") => write!(f, "{field}: "),
            (field, object) => write!(f, "{field} of {object}: "),
        }
    }
}

impl fmt::Display for Problem {
    /// Writes one line, for example `echo.yaml:12: spec.ports[0].port of Service default/echo: 70000 is not a port; use
    /// 1 to 65535`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}; {}", self.place, self.what, self.fix)
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.what)
    }
}

impl Place {
    /// The namespace of the object; `None` if the place names no object.
    pub fn namespace(&self) -> Option<&str> {
        let (_, name) = self.object.split_once(' ')?;
        Some(name.split_once('/')?.0)
    }
}

impl Problem {
    /// Returns the text without file and object, for a reader who knows both: `spec.ports[0].port: 70000 is not a port;
    /// use 1 to 65535`.
    pub fn within_object(&self) -> String {
        match self.place.field.as_str() {
            "" => format!("{}; {}", self.what, self.fix),
            field => format!("{field}: {}; {}", self.what, self.fix),
        }
    }
}

/// Limit on the names that a message lists: a Service may have thousands of ports, and the message must stay readable.
const LISTED_MAX: usize = 8;

/// Joins the first `max` reasons in one line, followed by the number of further reasons.
pub fn in_a_line<T: ToString>(reasons: &[T], max: usize) -> String {
    first(reasons.iter().map(T::to_string), max, ". ")
}

/// Lists the first [`LISTED_MAX`] names, followed by the number of further names. Takes only the listed names from the
/// iterator.
pub(crate) fn listed<T: ToString>(names: impl ExactSizeIterator<Item = T>) -> String {
    first(names.map(|name| name.to_string()), LISTED_MAX, ", ")
}

fn first(all: impl ExactSizeIterator<Item = String>, max: usize, separator: &str) -> String {
    let more = all.len().saturating_sub(max);
    let mut shown: Vec<String> = all.take(max).collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(separator)
}

/// Quotes text from a file, escaped and cut, so that a message stays one short line.
pub fn quoted(text: &str) -> String {
    const QUOTED_MAX_CHARS: usize = 64;
    let cut = text.char_indices().nth(QUOTED_MAX_CHARS);
    match cut.and_then(|(end, _)| text.get(..end)) {
        Some(head) => format!("{head:?}..."),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
#[path = "problem_tests.rs"]
mod tests;
