//! The issuers of tokens that the API server has accepted so far.

/// Limit on remembered issuers: a cluster has one issuer, or two while it moves to another issuer.
const ISSUERS_MAX: usize = 4;

/// Issuers of accepted tokens, the latest first.
#[derive(Debug, Default)]
pub(super) struct Issuers(Vec<String>);

impl Issuers {
    /// Returns whether the API server may accept tokens of this issuer. Until the API server has accepted a first
    /// token, it may accept tokens of any issuer.
    pub(super) fn may_be(&self, issuer: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|known| known == issuer)
    }

    /// Records that the API server has accepted a token of this issuer.
    pub(super) fn accepted(&mut self, issuer: String) {
        self.0.retain(|known| *known != issuer);
        self.0.insert(0, issuer);
        self.0.truncate(ISSUERS_MAX);
    }
}

#[cfg(test)]
#[path = "issuers_tests.rs"]
mod tests;
