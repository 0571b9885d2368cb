//! The scenario `rollout`: all backends restart one after the other, gracefully in the first half of the measured time,
//! and abruptly in the second. Each backend keeps its address, so no configuration changes.

use std::time::{Duration, Instant};

use super::measure::Stage;
use super::record::{Restarts, Rollout};
use crate::backends::Stop;
use crate::error::Result;
use crate::load::{Load, SLICE, Slice};

impl Stage<'_> {
    /// Restarts every backend twice during the measured time, which began at `start`: once in the first half of the
    /// time and once in the second. The time is divided into equal periods, one for each restart. A restart happens in
    /// the middle of its period, so that its consequences stay within the same half. Returns the number of restarts
    /// that were complete within each half.
    ///
    /// # Errors
    /// If a backend does not start again.
    pub(super) fn restart_all_twice(&mut self, load: &Load, start: Instant) -> Result<[u32; 2]> {
        let backends = self.backends.addresses().len();
        let share = self.share_of_a_restart();
        let mut due = start + share / 2;
        let half = self.settings.measured / 2;
        let mut complete = [0; 2];
        for ((stop, end), complete) in
            [(Stop::Graceful, start + half), (Stop::Abrupt, start + half * 2)].into_iter().zip(&mut complete)
        {
            for backend in 0..backends {
                self.stay(load, due)?;
                self.backends.restart(backend, stop)?;
                *complete += u32::from(Instant::now() <= end);
                due += share;
            }
        }
        Ok(complete)
    }

    fn share_of_a_restart(&self) -> Duration {
        let restarts = u32::try_from(self.backends.addresses().len() * 2).unwrap_or(u32::MAX);
        self.settings.measured / restarts.max(1)
    }
}

/// Returns the results of the two halves of the measured time. `restarts` has the number of restarts in each half.
pub(super) fn rollout_of(measured: Duration, timeline: &[Slice], restarts: [u32; 2]) -> Rollout {
    let half = (measured / 2).as_nanos() / SLICE.as_nanos();
    halves(timeline, usize::try_from(half).unwrap_or(usize::MAX), restarts)
}

fn halves(timeline: &[Slice], half: usize, [graceful, abrupt]: [u32; 2]) -> Rollout {
    let (first, second) = timeline.split_at(half.min(timeline.len()));
    let of = |slices: &[Slice], restarts| Restarts {
        restarts,
        calls: slices.iter().flat_map(|slice| &slice.calls).sum(),
        lost: slices.iter().map(|slice| slice.failed).sum(),
    };
    Rollout { graceful: of(first, graceful), abrupt: of(second, abrupt) }
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
