//! When a backend that was slow has its fair share of the calls again.

use crate::load::Slice;

/// Slices in which a share is taken: 1 s.
const WINDOW: usize = 10;
/// How long the share must stay fair, in slices: 1 s.
const STAYS: usize = 10;
/// What is fair enough: this part of an equal share.
const FAIR: f64 = 0.8;
const SLICE_S: f64 = 0.1;

/// Seconds from the recovery, at the beginning of slice `recovered`, until the share of `server` over the last second
/// is 80 % of an equal share and stays so for a second; none when that never was.
///
/// The seconds before the recovery count for targets that never took calls away from the server: they have 0.
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
