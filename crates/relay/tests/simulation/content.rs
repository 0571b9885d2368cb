//! Content whose bytes identify their call and their position. All contents are sections of the same random bytes, and
//! the content of each call begins at another position in them.

use std::sync::LazyLock;

use fastrand::Rng;

/// Longest content of a call.
pub(crate) const LONGEST_BYTES: usize = 200_000;
/// Number of positions in the random bytes at which contents begin.
const BEGINNINGS: usize = 1 << 16;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0; BEGINNINGS + LONGEST_BYTES];
    Rng::with_seed(1).fill(&mut bytes);
    bytes
});

/// Returns `length` bytes of a call's content, from `offset` on.
pub(crate) fn part(call: u64, offset: usize, length: usize) -> &'static [u8] {
    let beginning = (call.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
    &BYTES[beginning + offset..][..length]
}

/// Returns whether these bytes are the content of a call from `offset` on.
pub(crate) fn is_part(call: u64, offset: usize, bytes: &[u8]) -> bool {
    offset + bytes.len() <= LONGEST_BYTES && bytes == part(call, offset, bytes.len())
}
