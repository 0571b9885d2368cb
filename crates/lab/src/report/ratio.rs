//! Computes the ratio or the difference between a figure of one group and the same figure of a base group.
//!
//! The runs of a repeat follow each other closely, so a slow phase of the machine affects both groups. A ratio within
//! each repeat is therefore more certain than the ratio of the two medians. The latter is used only if no repeat yields
//! a ratio.

use crate::experiment::record::Run;

use super::group::Group;
use super::spread::{Estimate, Spread};

/// The figure in `group` divided by the figure in `base`: the median of the ratios of all repeats.
///
/// If no repeat yields a finite ratio, returns the ratio of the two medians, without an interval. `None` if that ratio
/// is not finite either.
pub(super) fn ratio(group: &Group, base: &Group, figure: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
    paired(group, base, figure, |value, base| value / base)
}

/// The figure in `group` minus the figure in `base`: the median of the differences of all repeats. If no repeat yields
/// a finite difference, returns the difference of the two medians, without an interval.
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
