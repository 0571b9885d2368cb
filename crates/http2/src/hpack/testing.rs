//! Helpers of this module's tests.

use super::table::DynamicTable;
use super::{DecodeError, Decoder};
use crate::fields::FieldSection;

/// Size limit for lists in tests that do not test the limit.
pub(super) const NO_LIMIT: usize = 1 << 20;

pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

pub(super) fn pairs(fields: &[(&str, &str)]) -> Pairs {
    fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

pub(super) fn pairs_of(section: &FieldSection) -> Pairs {
    section.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
}

pub(super) fn section(fields: &[(&str, &str)]) -> FieldSection {
    let mut section = FieldSection::new();
    for (name, value) in fields {
        section.push(name.as_bytes(), value.as_bytes());
    }
    section
}

/// The dynamic table's entries, newest first, as the RFC's examples print them.
pub(super) fn entries_of(table: &DynamicTable) -> Pairs {
    (0..table.len())
        .filter_map(|age| table.get(age))
        .map(|field| (field.name().to_vec(), field.value().to_vec()))
        .collect()
}

pub(super) fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<FieldSection, DecodeError> {
    let mut section = FieldSection::new();
    decoder.decode(block, NO_LIMIT, &mut section).map(|()| section)
}

/// Parses hexadecimal digits. Ignores spaces.
pub(super) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| {
            let text = std::str::from_utf8(pair).expect("hexadecimal digits are ASCII");
            u8::from_str_radix(text, 16).expect("two hexadecimal digits")
        })
        .collect()
}
