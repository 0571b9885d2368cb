//! Counts of the policy decisions that have one set of labels.

use super::Counter;

/// One worker's counts of decisions with the same [`AuthorizationLabels`](super::AuthorizationLabels).
#[derive(Debug, Default)]
pub struct AuthorizationMetrics {
    /// Decisions about requests.
    pub http: Decisions,
    /// Decisions about connections that carry no requests.
    pub tcp: Decisions,
}

/// Decisions, each counted once.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Allowed by policy.
    pub allowed: Counter,
    /// Not allowed by policy, but only audited.
    pub audited: Counter,
    /// Denied.
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
    /// Allowed by policy.
    pub(super) allowed: u64,
    /// Not allowed by policy, but only audited.
    pub(super) audited: u64,
    /// Denied.
    pub(super) denied: u64,
}

impl DecisionTotals {
    /// Allowed and audited decisions.
    pub(super) fn let_through(&self) -> u64 {
        self.allowed + self.audited
    }
}
