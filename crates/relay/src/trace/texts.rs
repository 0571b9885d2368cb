//! The texts of a traced call, in one allocation.

use std::fmt::Write as _;

/// A text of a traced call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// The request's `tracestate`, without the members at its end that exceed [`Texts::MAX_BYTES`].
    TraceState,
    /// The request's method.
    Method,
    /// The request's `:path` without its query.
    Path,
    Authority,
    /// The Service's port, or the address, that the call goes to.
    Target,
    /// The kind, namespace and name of the route that the call matched.
    Route,
}

/// The texts of a traced call, each at most [`Texts::MAX_BYTES`] long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    all: String,
    /// The position in `all` at which each text ends.
    ends: [u16; Text::ALL.len()],
}

impl Text {
    /// All texts, in the order of their numbers.
    const ALL: [Self; 6] = [Self::TraceState, Self::Method, Self::Path, Self::Authority, Self::Target, Self::Route];
}

impl Texts {
    /// Longest text, in bytes. The rest of a longer text is left out.
    pub const MAX_BYTES: usize = 256;

    /// Creates the texts with one call of `write` for each text. If `write` appends nothing, the text is unknown.
    pub fn new(mut write: impl FnMut(Text, &mut String)) -> Self {
        // Most calls need less than half of this capacity.
        let mut texts = Self { all: String::with_capacity(Self::MAX_BYTES), ..Self::default() };
        for (text, end) in Text::ALL.into_iter().zip(&mut texts.ends) {
            let longest = texts.all.len() + Self::MAX_BYTES;
            write(text, &mut texts.all);
            texts.all.truncate(texts.all.floor_char_boundary(longest));
            *end = u16::try_from(texts.all.len()).unwrap_or(u16::MAX);
        }
        texts
    }

    /// Returns a text; empty if it is unknown.
    pub fn get(&self, text: Text) -> &str {
        let end_of = |place: usize| self.ends.get(place).map(|end| usize::from(*end));
        let place = text as usize;
        let start = place.checked_sub(1).and_then(end_of).unwrap_or(0);
        end_of(place).and_then(|end| self.all.get(start..end)).unwrap_or_default()
    }

    /// Returns the memory that the texts have allocated, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.all.capacity()
    }
}

/// Appends at most [`Texts::MAX_BYTES`] of a peer's text. Escapes unprintable bytes.
pub(crate) fn push_printable(bytes: &[u8], text: &mut String) {
    let bytes = bytes.get(..Texts::MAX_BYTES).unwrap_or(bytes);
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\\' | b'"' | b'\'');
    match std::str::from_utf8(bytes) {
        Ok(plain) if bytes.iter().all(is_plain) => text.push_str(plain),
        // Writing to a string cannot fail.
        _ => drop(write!(text, "{}", bytes.escape_ascii())),
    }
}

/// Appends the members of a request's `tracestate`, which may be divided into several fields (W3C Trace Context section
/// 3.3.1). Appends only as many whole members as [`Texts::MAX_BYTES`] allows, and nothing if one of the members up to the
/// limit is not printable ASCII.
pub(crate) fn push_trace_state<'a>(fields: impl Iterator<Item = &'a [u8]>, text: &mut String) {
    let start = text.len();
    let longest = start + Texts::MAX_BYTES;
    let members = fields.flat_map(|field| field.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    for member in members.filter(|member| !member.is_empty()) {
        let is_printable = member.iter().all(|byte| matches!(byte, b' '..=b'~'));
        let Some(member) = std::str::from_utf8(member).ok().filter(|_| is_printable) else {
            return text.truncate(start);
        };
        let comma = if text.len() > start { "," } else { "" };
        if text.len() + comma.len() + member.len() > longest {
            return;
        }
        text.extend([comma, member]);
    }
}

#[cfg(test)]
#[path = "texts_tests.rs"]
mod tests;
