//! One group's figure relative to another group's.
//!
//! The targets take turns within a repeat, so that a noisy minute affects both runs of a pair. The ratio within a
//! repeat is therefore more certain than the ratio of the medians. It is used if both groups have runs of the same
//! repeat.

use crate::experiment::record::Run;

use super::group::Group;
use super::spread::{Estimate, Spread};

/// The median of the ratios of `figure` within each repeat. If the groups share no repeat: the ratio of the medians,
/// without an interval. `None` if that ratio is not a number either.
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
