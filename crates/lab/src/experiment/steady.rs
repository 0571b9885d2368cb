//! Finds the time until the latency of a run is steady, from the latencies in its windows of 1 s.
//!
//! The rule, for the median and for the p99 alike:
//!
//! 1. The second half of the measured windows is the reference. The median of the reference is the center of the band
//!    in step 3.
//! 2. The noise is a standard deviation, estimated from the differences between neighboring reference windows. A slow
//!    drift hardly changes these differences. So a drift cannot widen the band, and a drifting latency leaves the band.
//! 3. The band is the center, plus and minus the larger of two values: three times the noise, and 10 % of the center.
//! 4. Each window is replaced by the median of itself and its two neighbors, so that one disturbed second does not
//!    count. The first window keeps its own value, so that a slow start always counts.
//! 5. The latency is steady from the first window for which this holds: the window itself and all later windows are
//!    inside the band.
//!
//! The time is unknown if the run becomes steady only within the reference, or if there are fewer than
//! [`LEAST_WINDOWS`] reference windows.

use crate::load::{WINDOW, Window};

/// Smallest number of reference windows.
const LEAST_WINDOWS: usize = 3;
/// Width of the band on each side, in standard deviations of the noise.
const DEVIATIONS: f64 = 3.0;
/// Smallest width of the band on each side, as a fraction of its center.
const LEAST_WIDTH: f64 = 0.1;
/// Median of the absolute difference of two normally distributed values with the standard deviation 1.
const MEDIAN_DIFFERENCE: f64 = 0.954;

/// Returns the seconds from the start of the load until the latency was steady. The first `warm_up` windows are not
/// part of the reference, but the latency may already be steady in these windows. `None` if the time is unknown.
pub(super) fn steady_after_s(windows: &[Window], warm_up: usize) -> Option<f64> {
    let measured = windows.len().checked_sub(warm_up)?;
    let reference = warm_up + measured / 2;
    if windows.len() - reference < LEAST_WINDOWS {
        return None;
    }
    let first = |figure: fn(&Window) -> f64| first_steady(windows, reference, figure);
    let window = first(|window| window.p50_ms)?.max(first(|window| window.p99_ms)?);
    Some(window as f64 * WINDOW.as_secs_f64())
}

/// Returns the index of the first window from which `figure` stays inside its band until the end of the run.
fn first_steady(windows: &[Window], reference: usize, figure: fn(&Window) -> f64) -> Option<usize> {
    // A window without an answered call is not steady.
    let value = |window: &Window| if window.calls == 0 { f64::INFINITY } else { figure(window) };
    let values: Vec<f64> = windows.iter().map(value).collect();
    let centre = median(values.get(reference..)?)?;
    let differences: Vec<f64> = values.get(reference..)?.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let noise = median(&differences)? / MEDIAN_DIFFERENCE;
    let width = (DEVIATIONS * noise).max(LEAST_WIDTH * centre);
    // Every value would be inside a band of infinite or unknown width. Such a band cannot show when the latency is
    // steady.
    if !width.is_finite() {
        return None;
    }
    let smooth = smoothed(&values);
    let outside = smooth.iter().rposition(|value| (value - centre).abs() > width);
    let first = outside.map_or(0, |last| last + 1);
    (first <= reference).then_some(first)
}

/// Replaces each value except the first by the median of this value and its two neighbors. The last value has one
/// neighbor, so the median of the last three values replaces it.
fn smoothed(values: &[f64]) -> Vec<f64> {
    let around = |index: usize| {
        let first = index.saturating_sub(1).min(values.len().saturating_sub(3));
        let three = values.get(first..(first + 3).min(values.len())).unwrap_or_default();
        median(three).unwrap_or(f64::INFINITY)
    };
    let first = values.first().copied();
    first.into_iter().chain((1..values.len()).map(around)).collect()
}

/// Returns the median. For an even number of values, this is the lower of the two middle values.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
#[path = "steady_tests.rs"]
mod tests;
