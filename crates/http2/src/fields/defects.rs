//! Checks fields for defects. A field in a compression table or a remembered section is checked only once, however many
//! messages contain it.

use std::hash::Hasher;
use std::ops::{BitOr, BitOrAssign, Range};

use rustc_hash::FxHasher;

use super::Known;

/// A set of reasons for which a field section is malformed (RFC 9113 sections 8.2 and 8.3) or too large.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Defects(u8);

impl Defects {
    /// No defect.
    pub const NONE: Self = Self(0);
    /// A name is empty, or has an upper-case letter or a byte that is not allowed in a token (RFC 9113 section 8.2.1).
    pub const BAD_NAME: Self = Self(1);
    /// A value holds NUL, CR or LF, or the value of a pseudo-header field starts or ends with white space (RFC 9113
    /// section 8.2.1).
    pub const BAD_VALUE: Self = Self(1 << 1);
    /// A pseudo-header field follows a regular one (RFC 9113 section 8.3).
    pub const PSEUDO_AFTER_REGULAR: Self = Self(1 << 2);
    /// A field that is specific to an HTTP/1.1 connection, or `te` with a value other than `trailers` (RFC 9113 section
    /// 8.2.2).
    pub const CONNECTION_SPECIFIC: Self = Self(1 << 3);
    /// A pseudo-header field that is not in [`Known`].
    pub const UNKNOWN_PSEUDO: Self = Self(1 << 4);
    /// A defined pseudo-header field appears twice.
    pub const DUPLICATE_PSEUDO: Self = Self(1 << 5);
    /// The section exceeds the limit. Its size counts all fields, but only its first fields are stored.
    pub const OVERSIZE: Self = Self(1 << 6);

    /// A value starts or ends with white space, which [`FieldSection::trim_values`](super::FieldSection::trim_values)
    /// removes.
    pub(crate) const PADDED_VALUE: Self = Self(1 << 7);

    /// Whether there is no defect at all.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether any of the defects of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The defects of this set that are not in `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Keeps only the defects that depend on the name alone.
    pub(crate) const fn of_name(self) -> Self {
        Self(self.0 & (Self::BAD_NAME.0 | Self::UNKNOWN_PSEUDO.0))
    }
}

impl BitOr for Defects {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Defects {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The results of checking one name or one field. They do not depend on the other fields of the section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    /// The field's hash, by which an encoder finds the field in its table. 0 if only a name was checked, or if the
    /// field is in the static table.
    pub(crate) hash: u32,
    pub(crate) known: Known,
    pub(crate) defects: Defects,
}

impl Facts {
    /// Checks a name.
    pub(crate) fn of_name(name: &[u8]) -> Self {
        let known = Known::of(name);
        let defects = match known {
            Known::Other => bad_name_unless(is_token(name)),
            Known::UnknownPseudo => {
                let after_colon = name.get(1..).unwrap_or_default();
                Defects::UNKNOWN_PSEUDO | bad_name_unless(is_token(after_colon))
            }
            _ => Defects::NONE,
        };
        Self { hash: 0, known, defects }
    }

    /// Checks a field whose name is already checked, with the result `name`. `text` is the name, of `name_len` bytes,
    /// followed by the value.
    pub(crate) fn of_field(name: Self, text: &[u8], name_len: usize) -> Self {
        let value = text.get(name_len..).unwrap_or_default();
        let mut defects = name.defects.of_name();
        if !is_value(value) {
            defects |= Defects::BAD_VALUE;
        }
        if is_space(value.first()) || is_space(value.last()) {
            defects |= Defects::PADDED_VALUE;
        }
        let is_trailers = || value.get(trimmed(value)).is_some_and(|text| text.eq_ignore_ascii_case(b"trailers"));
        let te_beyond_trailers = name.known == Known::Te && !is_trailers();
        if te_beyond_trailers || name.known.is_connection_specific() {
            defects |= Defects::CONNECTION_SPECIFIC;
        }
        Self { hash: hash(text, name_len), known: name.known, defects }
    }
}

/// Number of bytes that are hashed at each end of a long field. The middle is not hashed: a peer can refer to a long
/// name in a table with a few bytes, so hashing all of it each time would cost too much.
const HASHED_END_BYTES: usize = 64;

/// Hashes a field. The hash is not keyed: a collision costs only compression, because bytes are compared before use.
fn hash(text: &[u8], name_len: usize) -> u32 {
    let mut hasher = FxHasher::default();
    match (text.first_chunk::<HASHED_END_BYTES>(), text.last_chunk::<HASHED_END_BYTES>()) {
        (Some(first), Some(last)) if text.len() > 2 * HASHED_END_BYTES => {
            hasher.write(first);
            hasher.write(last);
            hasher.write_usize(text.len());
        }
        _ => hasher.write(text),
    }
    hasher.write_usize(name_len);
    hasher.finish() as u32
}

fn bad_name_unless(valid: bool) -> Defects {
    if valid { Defects::NONE } else { Defects::BAD_NAME }
}

fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| is_lower_case_token_byte(byte))
}

/// Whether a byte may be in a token (RFC 9110 section 5.6.2) and is not upper case.
fn is_lower_case_token_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'!' | b'#' | b'$' | b'%' | b'&'
        | b'\'' | b'*' | b'+' | b'^' | b'`' | b'|' | b'~')
}

/// Returns the range of a value that excludes the white space at the value's ends.
pub(crate) fn trimmed(value: &[u8]) -> Range<usize> {
    let is_text = |byte: &u8| !is_space(Some(byte));
    let start = value.iter().position(is_text).unwrap_or(value.len());
    start..value.iter().rposition(is_text).map_or(start, |last| last + 1)
}

fn is_space(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b' ' | b'\t'))
}

fn is_value(value: &[u8]) -> bool {
    // First find the smallest byte, since the compiler vectorizes this search. Only if it is not greater than CR,
    // search for NUL, CR and LF; few values have such a byte.
    let least = value.iter().copied().fold(u8::MAX, u8::min);
    least > b'\r' || !value.iter().any(|&byte| matches!(byte, 0 | b'\r' | b'\n'))
}

#[cfg(test)]
#[path = "defects_tests.rs"]
mod tests;
