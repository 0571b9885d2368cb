//! Versions of resources and of responses.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};

/// The first bytes of a SHA-256 digest. Replicas of any build give equal content the same version. So a client that
/// changes replicas, also during an upgrade, gets only the resources that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Version(u64);

impl Version {
    /// Returns the version of a resource with this content.
    pub(crate) fn of(content: &[u8]) -> Self {
        // The first 8 bytes always exist: a SHA-256 digest has 32 bytes.
        Self(digest(&SHA256, content).as_ref().first_chunk().copied().map_or(0, u64::from_be_bytes))
    }

    /// Returns the version of a response with these resources.
    pub(crate) fn of_resources<'a>(resources: impl Iterator<Item = (&'a str, Self)>) -> Self {
        let text: String = resources.map(|(name, version)| format!("{name} {version}\n")).collect();
        Self::of(text.as_bytes())
    }

    /// Parses a version that a client sent.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;
