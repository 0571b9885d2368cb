//! Counts policy decisions, separately for each set of labels.

use super::Counter;

/// One worker's counts of decisions with the same [`AuthorizationLabels`](super::AuthorizationLabels).
#[derive(Debug, Default)]
pub struct AuthorizationMetrics {
    /// Decisions about requests.
    pub http: Decisions,
    /// Decisions about connections that carry no requests.
    pub tcp: Decisions,
}

/// The number of decisions of each kind. Each decision is counted once.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Number of decisions to allow.
    pub allowed: Counter,
    /// Number of decisions to deny that were only audited, so that the proxy let the request or connection through.
    pub audited: Counter,
    /// Number of decisions to deny.
    pub denied: Counter,
}

impl AuthorizationMetrics {
    /// Adds these counts to `totals`.
    pub(super) fn add_to(&self, totals: &mut AuthorizationTotals) {
        self.http.add_to(&mut totals.http);
        self.tcp.add_to(&mut totals.tcp);
    }
}

impl Decisions {
    fn add_to(&self, totals: &mut DecisionTotals) {
        totals.allowed += self.allowed.get();
        totals.audited += self.audited.get();
        totals.denied += self.denied.get();
    }
}

/// Decisions with the same labels, summed over the workers.
#[derive(Debug, Default)]
pub(super) struct AuthorizationTotals {
    /// Decisions about requests.
    pub(super) http: DecisionTotals,
    /// Decisions about connections.
    pub(super) tcp: DecisionTotals,
}

/// Sums of [`Decisions`].
#[derive(Debug, Default)]
pub(super) struct DecisionTotals {
    /// Number of decisions to allow.
    pub(super) allowed: u64,
    /// Number of decisions to deny that were only audited, so that the proxy let the request or connection through.
    pub(super) audited: u64,
    /// Number of decisions to deny.
    pub(super) denied: u64,
}

impl DecisionTotals {
    /// Returns the number of decisions after which the proxy let the request or connection through.
    pub(super) fn let_through(&self) -> u64 {
        self.allowed + self.audited
    }
}
