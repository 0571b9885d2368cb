//! Regular expressions of routes.

use std::fmt;
use std::sync::OnceLock;

use regex_lite::{Regex, RegexBuilder};
use serde::{Serialize, Serializer};

use super::re2;

/// A regular expression in RE2's syntax, without Unicode classes, that must match a whole text.
///
/// Matching takes time proportional to the product of the text's length and the pattern's size, because the engine does
/// not backtrack. A pattern's size is at most [`Pattern::SIZE_MAX_BYTES`]. A pattern of this size compiles to about a
/// hundred steps.
#[derive(Clone)]
pub struct Pattern {
    text: Box<str>,
    /// Empty after [`Pattern::forget_compiled`], until the next match.
    regex: OnceLock<Option<Regex>>,
    size_bytes: usize,
}

/// Why a text is not a [`Pattern`]. The message is one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The text has a mistake, or the compiled pattern would be too large.
    #[error(transparent)]
    Invalid(regex_lite::Error),
    /// RE2, with which Envoy and gRPC clients match, refuses a construct in the text or reads it differently.
    #[error("this is not RE2's syntax: {0}")]
    NotRe2(&'static str),
}

impl Pattern {
    /// Maximum size of a compiled pattern.
    pub const SIZE_MAX_BYTES: usize = 16 << 10;
    /// Minimum size that is recorded for a compiled pattern. A smaller pattern is recorded with this size.
    const SIZE_MIN_BYTES: usize = 256;
    /// Maximum nesting of groups.
    const NEST_MAX: u32 = 32;

    /// Compiles a pattern.
    ///
    /// # Errors
    /// [`PatternError`]; its text names the fault.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        // Compile the text alone first: `a)(b` is a mistake, but would be valid within the added parentheses.
        compile(text, Self::SIZE_MAX_BYTES)?;
        if let Some(construct) = re2::difference(text) {
            return Err(PatternError::NotRe2(construct));
        }
        let whole = whole(text);
        // The engine does not report a pattern's size, but rejects a pattern that is larger than a given limit. So
        // double the limit until the engine accepts the pattern.
        let mut limit_bytes = Self::SIZE_MIN_BYTES;
        let regex = loop {
            match compile(&whole, limit_bytes) {
                Err(_) if limit_bytes < Self::SIZE_MAX_BYTES => limit_bytes *= 2,
                compiled => break compiled?,
            }
        };
        let regex = OnceLock::from(Some(regex));
        Ok(Self { text: text.into(), regex, size_bytes: limit_bytes + text.len() })
    }

    /// Returns an upper bound of the pattern's size in bytes, including its text. For the compiled form, the bound is a
    /// power of two: at most twice the true size, but at least 256 bytes.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Returns the pattern's text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern matches all of `text`; never for invalid UTF-8.
    pub fn is_match(&self, text: &[u8]) -> bool {
        let compiled = self.regex.get_or_init(|| compile(&whole(&self.text), Self::SIZE_MAX_BYTES).ok());
        str::from_utf8(text).is_ok_and(|text| compiled.as_ref().is_some_and(|regex| regex.is_match(text)))
    }

    /// Frees the compiled form, which may take 16 KiB for a pattern of a few letters. The next match compiles the
    /// pattern again. Programs that store patterns without matching them call this function.
    pub fn forget_compiled(&mut self) {
        self.regex = OnceLock::new();
    }
}

fn whole(text: &str) -> String {
    format!("^(?:{text})$")
}

fn compile(text: &str, limit_bytes: usize) -> Result<Regex, PatternError> {
    let mut builder = RegexBuilder::new(text);
    builder.nest_limit(Pattern::NEST_MAX).size_limit(limit_bytes);
    builder.build().map_err(PatternError::Invalid)
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
