//! Remembers the issuers of tokens that the API server has accepted.

/// Maximum number of remembered issuers. A cluster has one issuer, or two while it changes to another one.
const ISSUERS_MAX: usize = 4;

/// The issuers of accepted tokens; the issuer of the latest token is first.
#[derive(Debug, Default)]
pub(super) struct Issuers(Vec<String>);

impl Issuers {
    /// Returns whether the API server may accept tokens of this issuer: it has accepted one before, or it has not
    /// accepted any token yet, so that its issuers are unknown.
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
