//! What is counted about policy's decisions that have the same labels.

use super::Counter;

/// One worker's counts of the decisions that have the same [`AuthorizationLabels`](super::AuthorizationLabels).
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
    /// Let through because policy allows it.
    pub allowed: Counter,
    /// Let through although policy does not allow it, because it only audits.
    pub audited: Counter,
    /// Turned away.
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
    /// About requests.
    pub(super) http: DecisionTotals,
    /// About connections.
    pub(super) tcp: DecisionTotals,
}

/// Sums of [`Decisions`].
#[derive(Debug, Default)]
pub(super) struct DecisionTotals {
    /// Let through because policy allows it.
    pub(super) allowed: u64,
    /// Let through because policy only audits.
    pub(super) audited: u64,
    /// Turned away.
    pub(super) denied: u64,
}

impl DecisionTotals {
    /// All that were let through.
    pub(super) fn let_through(&self) -> u64 {
        self.allowed + self.audited
    }
}
