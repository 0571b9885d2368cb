//! One group's figure over another's.
//!
//! The targets take turns within a repeat, so that a noisy minute hits both runs of a pair: the ratio within
//! a repeat is surer than that of the medians, and is used wherever there are pairs.

use crate::experiment::record::Run;

use super::group::Group;
use super::spread::{Estimate, Spread};

/// The median of the ratios of `figure` within each repeat. Without a repeat that both have, the ratio of
/// the medians, which has no interval; none when that is not a number either.
pub(super) fn ratio(group: &Group, base: &Group, figure: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
    let pairs = group.alive().filter_map(|run| {
        let other = base.alive().find(|other| other.repeat == run.repeat)?;
        divided(figure(run)?, figure(other)?)
    });
    if let Some(spread) = Spread::of(pairs) {
        return Some(spread.estimate());
    }
    let value = divided(group.spread(&figure)?.median, base.spread(&figure)?.median)?;
    Some(Estimate { value, interval: None, repeats: 0 })
}

fn divided(value: f64, base: f64) -> Option<f64> {
    Some(value / base).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
#[path = "ratio_tests.rs"]
mod tests;
