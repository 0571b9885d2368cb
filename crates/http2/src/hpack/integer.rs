//! Integers with a prefix (RFC 7541 section 5.1).

use super::DecodeError;

/// Maximum number of bytes after the prefix: enough for every 32-bit value, too few for a flood of zeros.
const MAX_CONTINUATION_BYTES: u32 = 5;

/// Decodes an integer whose first byte, `first`, has been removed from `input`; `prefix_bits` is 1 to 8.
///
/// # Errors
/// [`DecodeError::Truncated`] and [`DecodeError::IntegerOverflow`].
#[inline]
pub(super) fn decode(first: u8, prefix_bits: u32, input: &mut &[u8]) -> Result<usize, DecodeError> {
    let prefix_max = prefix_max(prefix_bits);
    let prefix = first & prefix_max;
    if prefix < prefix_max {
        return Ok(usize::from(prefix));
    }
    decode_continuation(prefix_max, input)
}

fn decode_continuation(prefix_max: u8, input: &mut &[u8]) -> Result<usize, DecodeError> {
    let mut value = u64::from(prefix_max);
    for position in 0..MAX_CONTINUATION_BYTES {
        let (&byte, rest) = input.split_first().ok_or(DecodeError::Truncated)?;
        *input = rest;
        // At most 7 * 4 + 7 bits and a prefix, so that 64 bits cannot overflow.
        value += u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return u32::try_from(value).map(|value| value as usize).map_err(|_| DecodeError::IntegerOverflow);
        }
    }
    Err(DecodeError::IntegerOverflow)
}

/// Writes `value`; the bits of the first byte above `prefix_bits` (1 to 8) come from `pattern`.
#[inline]
pub(super) fn encode(value: usize, prefix_bits: u32, pattern: u8, output: &mut Vec<u8>) {
    let prefix_max = prefix_max(prefix_bits);
    if value < usize::from(prefix_max) {
        output.push(pattern | value as u8);
    } else {
        output.push(pattern | prefix_max);
        encode_continuation(value - usize::from(prefix_max), output);
    }
}

fn encode_continuation(mut rest: usize, output: &mut Vec<u8>) {
    while rest >= 0x80 {
        output.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    output.push(rest as u8);
}

fn prefix_max(prefix_bits: u32) -> u8 {
    u8::MAX >> (8 - prefix_bits)
}

#[cfg(test)]
#[path = "integer_tests.rs"]
mod tests;
