//! A digest that is the same in all builds of `leno`.
//!
//! Runs of different builds must derive the same names and addresses. The standard library's hasher is not suitable,
//! because its values may change with the compiler.

use aws_lc_rs::digest::{self, SHA256};

/// Returns the first 64 bits of the SHA-256 of `bytes`.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    digest::digest(&SHA256, bytes).as_ref().first_chunk().copied().map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
#[path = "digest_tests.rs"]
mod tests;
