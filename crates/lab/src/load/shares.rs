//! Divides a plan among several processes, which together send the same load as one process would.

use super::{Pattern, Plan};

impl Plan {
    /// Divides the plan into at most `parts` plans. Each part has at least one client, one call in flight and one call
    /// per second. If the plan has fewer than `parts` of any of these, there are fewer parts.
    ///
    /// The clients are assigned to the parts round-robin. Each client has the same rate and the same number of calls in
    /// flight as in the whole plan.
    pub(crate) fn shares(&self, parts: usize) -> Vec<Self> {
        let parts = self.pattern.parts(self.clients.len(), parts);
        let mut random = fastrand::Rng::with_seed(self.seed);
        (0..parts)
            .map(|part| Self {
                clients: self.clients.iter().skip(part).step_by(parts).cloned().collect(),
                pattern: self.pattern_of(part, parts),
                seed: random.u64(..),
                ..self.clone()
            })
            .collect()
    }

    fn pattern_of(&self, part: usize, parts: usize) -> Pattern {
        let share = |total| share(total, self.clients.len(), part, parts);
        match self.pattern {
            Pattern::Closed { in_flight } => Pattern::Closed { in_flight: share(in_flight) },
            Pattern::Open { rate_per_s, max_in_flight } => {
                Pattern::Open { rate_per_s: share(rate_per_s), max_in_flight: share(max_in_flight) }
            }
        }
    }
}

impl Pattern {
    /// Returns the number of plans into which [`Plan::shares`] divides a plan with this number of clients.
    pub(crate) fn parts(self, clients: usize, at_most: usize) -> usize {
        let calls = match self {
            Self::Closed { in_flight } => in_flight,
            Self::Open { rate_per_s, max_in_flight } => rate_per_s.min(max_in_flight),
        };
        clients.min(calls as usize).min(at_most)
    }
}

/// Returns the share of `total` calls that belongs to the part with the index `part`. The calls are assigned to the
/// clients round-robin, and the clients to the parts round-robin.
fn share(total: u32, clients: usize, part: usize, parts: usize) -> u32 {
    let dealt_to_part = |count: usize| count.saturating_sub(part).div_ceil(parts);
    let (rounds, rest) = (total as usize / clients, total as usize % clients);
    // The share is at most `total`, so it always fits into a u32.
    u32::try_from(rounds * dealt_to_part(clients) + dealt_to_part(rest)).unwrap_or(total)
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
