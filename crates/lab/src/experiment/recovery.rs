//! The time until a slow backend has its fair share of the calls again.

use crate::load::Slice;

/// Number of slices over which a share is measured: 1 s in total.
const WINDOW: usize = 10;
/// The share must stay fair in this many slices in a row, which last 1 s together.
const STAYS: usize = 10;
/// A share is fair if it is at least this fraction of an equal share.
const FAIR: f64 = 0.8;
const SLICE_S: f64 = 0.1;

/// Returns the seconds from the recovery until `server` has a fair share of the calls, and keeps it for a second. A
/// fair share is at least 80 % of an equal share over the last second. `None` if the server never keeps a fair share.
/// The recovery is at the beginning of slice `recovered`.
///
/// The last second may begin before the recovery, so the result is 0 for targets that never took calls away from the
/// server.
pub(super) fn recovered_after_s(timeline: &[Slice], server: usize, recovered: usize) -> Option<f64> {
    let is_fair = |end: usize| is_fair(&timeline[end - WINDOW..end], server);
    let last = timeline.len().checked_sub(STAYS)?;
    let end = (recovered.max(WINDOW)..=last).find(|&end| (end..=end + STAYS).all(is_fair))?;
    Some((end - recovered) as f64 * SLICE_S)
}

fn is_fair(window: &[Slice], server: usize) -> bool {
    let servers = window.iter().map(|slice| slice.calls.len()).max().unwrap_or_default();
    let all: u64 = window.iter().flat_map(|slice| &slice.calls).sum();
    let its: u64 = window.iter().filter_map(|slice| slice.calls.get(server)).sum();
    all > 0 && its as f64 >= all as f64 / servers as f64 * FAIR
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
