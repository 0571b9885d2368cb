//! Records the most recent picks, from which the balancer computes each endpoint's share.

/// Number of recent picks from which shares are computed.
pub(super) const RECENT_PICKS: usize = 1024;

/// Replaces the slot of an endpoint that has been removed since its pick.
const GONE: u32 = u32::MAX;

/// A ring buffer of the slots that were picked most recently.
#[derive(Debug, Clone)]
pub(super) struct RecentPicks {
    slots: Vec<u32>,
    oldest: usize,
}

impl RecentPicks {
    pub(super) fn new() -> Self {
        Self { slots: Vec::with_capacity(RECENT_PICKS), oldest: 0 }
    }

    pub(super) fn push(&mut self, slot: usize) {
        let slot = slot as u32;
        if self.slots.len() < RECENT_PICKS {
            self.slots.push(slot);
        } else {
            self.slots[self.oldest] = slot;
            self.oldest = (self.oldest + 1) % RECENT_PICKS;
        }
    }

    /// Marks the picks of the endpoints in the slots `gone`, which were removed. Call this before new endpoints use
    /// these slots.
    pub(super) fn forget(&mut self, gone: &[usize]) {
        for slot in &mut self.slots {
            if gone.contains(&(*slot as usize)) {
                *slot = GONE;
            }
        }
    }

    /// Returns two numbers: of the recent picks of `slot`, and of all recent picks.
    pub(super) fn count(&self, slot: usize) -> (usize, usize) {
        let count = self.slots.iter().filter(|recent| **recent as usize == slot).count();
        (count, self.slots.len())
    }
}
