//! The time until a slow backend has its fair share of the calls again.

use crate::load::Slice;

/// Number of slices, 0.1 s each, over which a backend's share of the calls is measured.
const WINDOW: usize = 10;
/// Number of consecutive slices, 0.1 s each, for which the share must stay fair.
const STAYS: usize = 10;
/// A share is fair if it is at least this fraction of an equal share.
const FAIR: f64 = 0.8;
const SLICE_S: f64 = 0.1;

/// Returns the seconds from the recovery until `server` has a fair share of the calls, and keeps it for a second.
///
/// The recovery is at the beginning of slice `recovered`. A share is fair at a moment if, in the second before, the
/// server got at least 80 % of an equal share. This second may begin before the recovery. So the result is 0 if the
/// target never sent fewer calls to the slow server. `None` if the server never keeps a fair share.
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
