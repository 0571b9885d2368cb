//! How much memory a review takes once it is parsed, estimated from its bytes.
//!
//! Parsed JSON takes up to a hundred times the memory of its text: `{"":0},` is 7 bytes, and a map of its own.

/// Most memory of one parsed review, in bytes. A Pod of a thousand values takes a tenth of a MiB.
pub(super) const WEIGHT_MAX_BYTES: usize = 8 << 20;

/// A value in its array, which grows by doubling.
const VALUE_BYTES: usize = 96;
/// The allocation of a text beyond its bytes.
const TEXT_BYTES: usize = 32;
/// The smallest array that is not empty.
const ARRAY_BYTES: usize = 144;
/// The smallest map that is not empty.
const MAP_BYTES: usize = 672;
/// An entry of a map beyond its value.
const ENTRY_BYTES: usize = 64;

/// The memory of `json` once parsed, in bytes, at most. Bytes that are no JSON have a weight too.
pub(super) fn weight(json: &[u8]) -> usize {
    let (mut weight, mut is_text, mut is_escaped) = (json.len(), false, false);
    for &byte in json {
        if is_text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_text = false,
                _ => {}
            }
            continue;
        }
        weight += match byte {
            b'"' => {
                is_text = true;
                TEXT_BYTES
            }
            b'{' => MAP_BYTES,
            b'[' => ARRAY_BYTES,
            b',' => VALUE_BYTES,
            b':' => ENTRY_BYTES,
            _ => 0,
        };
    }
    weight
}

#[cfg(test)]
#[path = "weight_tests.rs"]
mod tests;
