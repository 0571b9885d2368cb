//! One group's figure relative to another group's: the quotient or the difference of the two.
//!
//! The targets take turns within a repeat, so that a noisy minute affects both runs of a pair. The ratio within a
//! repeat is therefore more certain than the ratio of the medians. The ratio of the medians is used only if no repeat
//! gives a ratio.

use crate::experiment::record::Run;

use super::group::Group;
use super::spread::{Estimate, Spread};

/// The median of the ratios of `figure` within each repeat. If no repeat gives a finite ratio: the ratio of the
/// medians, without an interval. `None` if that ratio is not finite either.
pub(super) fn ratio(group: &Group, base: &Group, figure: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
    paired(group, base, figure, |value, base| value / base)
}

/// The median of the differences of `figure` within each repeat. If no repeat gives a finite difference: the
/// difference of the medians, without an interval.
pub(super) fn added(group: &Group, base: &Group, figure: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
    paired(group, base, figure, |value, base| value - base)
}

fn paired(
    group: &Group,
    base: &Group,
    figure: impl Fn(&Run) -> Option<f64>,
    combine: fn(f64, f64) -> f64,
) -> Option<Estimate> {
    let combined = |value, base| Some(combine(value, base)).filter(|value| value.is_finite());
    let pairs = group.alive().filter_map(|run| {
        let other = base.alive().find(|other| other.repeat == run.repeat)?;
        combined(figure(run)?, figure(other)?)
    });
    if let Some(spread) = Spread::of(pairs) {
        return Some(spread.estimate());
    }
    let value = combined(group.spread(&figure)?.median, base.spread(&figure)?.median)?;
    Some(Estimate { value, interval: None, repeats: 0 })
}

#[cfg(test)]
#[path = "ratio_tests.rs"]
mod tests;
