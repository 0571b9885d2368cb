//! Checks fields for defects. A field in a compression table or a remembered section is checked only once, however many
//! messages contain it.

use std::hash::Hasher;
use std::ops::{BitOr, BitOrAssign, Range};

use rustc_hash::FxHasher;

use super::Known;
use crate::syntax;

/// A set of reasons for which a field section is malformed (RFC 9113 sections 8.2 and 8.3), too large or unusual.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Defects(u16);

impl Defects {
    /// No defect.
    pub const NONE: Self = Self(0);
    /// A name is empty, or has an upper-case letter or a byte that is not allowed in a token (RFC 9113 section 8.2.1).
    pub const BAD_NAME: Self = Self(1);
    /// A value contains a control character (RFC 9110 section 5.5), or the value of a request's pseudo-header field
    /// violates the field's [`syntax`].
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

    /// The path has a character that URIs may not contain ([`syntax::is_uri_path`]). The message is not malformed: many
    /// servers accept such paths, but some HTTP/2 servers reset the stream.
    pub const UNUSUAL_PATH: Self = Self(1 << 8);
    /// `:authority` or `host` is not a host ([`syntax::is_authority`]). The message is not malformed: some gRPC clients
    /// send the name of a cluster or of a socket's file. But some HTTP/2 servers reject such requests.
    pub const UNUSUAL_AUTHORITY: Self = Self(1 << 9);

    /// A value starts or ends with white space, which [`FieldSection::trim_values`](super::FieldSection::trim_values)
    /// removes.
    pub(crate) const PADDED_VALUE: Self = Self(1 << 7);

    /// Whether there is no defect at all.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether there is a defect other than [`Defects::UNUSUAL_PATH`] and [`Defects::UNUSUAL_AUTHORITY`].
    pub const fn is_malformed(self) -> bool {
        !self.without(Self::UNUSUAL_PATH).without(Self::UNUSUAL_AUTHORITY).is_empty()
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
        let is_valid = match name.known {
            Known::Method => syntax::is_token(value),
            Known::Path => syntax::is_path(value),
            Known::Authority => syntax::is_visible(value),
            _ => syntax::is_value(value),
        };
        if !is_valid {
            defects |= Defects::BAD_VALUE;
        } else {
            defects |= unusual(name.known, value);
        }
        if is_space(value.first()) || is_space(value.last()) {
            defects |= Defects::PADDED_VALUE;
        }
        // Other spellings are valid (RFC 9110 section 10.1.4), but some servers reject them.
        let te_beyond_trailers = name.known == Known::Te && value.get(trimmed(value)) != Some(b"trailers");
        if te_beyond_trailers || name.known.is_connection_specific() {
            defects |= Defects::CONNECTION_SPECIFIC;
        }
        Self { hash: hash(text, name_len), known: name.known, defects }
    }
}

/// Returns the defect of a valid value that some HTTP/2 servers reject.
fn unusual(known: Known, value: &[u8]) -> Defects {
    match known {
        Known::Path if !syntax::is_uri_path(value) => Defects::UNUSUAL_PATH,
        Known::Authority | Known::Host if !syntax::is_authority(value) => Defects::UNUSUAL_AUTHORITY,
        _ => Defects::NONE,
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
    syntax::is_token_byte(byte) && !byte.is_ascii_uppercase()
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

#[cfg(test)]
#[path = "defects_tests.rs"]
mod tests;
