//! The units of memory and data in all figures of the lab: powers of 1,000, as in published comparisons.

/// A KB has 1,000 bytes.
pub(crate) const BYTES_PER_KB: f64 = 1e3;
/// A MB has 10^6 bytes.
pub(crate) const BYTES_PER_MB: u64 = 1_000_000;

/// Converts bytes to MB.
pub(crate) fn mb(bytes: u64) -> f64 {
    bytes as f64 / BYTES_PER_MB as f64
}
