//! Estimates the memory of a parsed review from the review's bytes.
//!
//! Parsed JSON takes up to a hundred times the memory of its text: `{"":0},` has 7 bytes, and becomes a map.

/// Maximum memory of one parsed review, in bytes. A Pod of a thousand values takes a tenth of a MiB.
pub(super) const WEIGHT_MAX_BYTES: usize = 8 << 20;

/// Memory of a value in its array, which grows by doubling.
const VALUE_BYTES: usize = 96;
/// Memory of a text's allocation, in addition to the text's bytes.
const TEXT_BYTES: usize = 32;
/// Memory of the smallest array that is not empty.
const ARRAY_BYTES: usize = 144;
/// Memory of the smallest map that is not empty.
const MAP_BYTES: usize = 672;
/// Memory of a map's entry, in addition to the memory of its value.
const ENTRY_BYTES: usize = 64;

/// Returns an upper bound of the memory of `json` once parsed, in bytes. Accepts bytes that are no JSON too.
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
