//! The spread of a figure over the repeats, and the uncertainty of its median.
//!
//! The 95 % interval of a median is exact and assumes no distribution. It spans the k-th smallest to the k-th largest
//! value. It misses the true median only if fewer than k values lie below the true median, or fewer than k above it.
//!
//! Each value lies below the true median with a probability of 1/2, so the number of values below it is binomial. k is
//! the largest number for which the probability of fewer than k values below it is at most 2.5 %. By symmetry, the same
//! k applies above it. With fewer than [`LEAST_REPEATS`] values, there is no such k, and therefore no interval.

/// Minimum number of repeats for a 95 % interval of a median.
pub(super) const LEAST_REPEATS: usize = 6;

/// Maximum probability that the true value lies below a 95 % interval; the same holds above it.
const TAIL: f64 = 0.025;
/// Number of standard deviations above the mean of a normal distribution beyond which the probability is [`TAIL`].
pub(crate) const TAIL_DEVIATIONS: f64 = 1.959_964;

/// A summary of the values that a figure has in the repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(super) count: usize,
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// Standard deviation with the divisor n - 1. `None` if there is only one value, or if a value is infinite.
    pub(crate) sd: Option<f64>,
    /// 95 % interval of the median; `None` if there are too few values.
    pub(super) interval: Option<(f64, f64)>,
}

/// A figure and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// 95 % interval; `None` if there are too few repeats.
    pub(super) interval: Option<(f64, f64)>,
    pub(super) repeats: usize,
}

impl Spread {
    /// The spread of `values`, which may be infinite; `None` if there are no values.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let interval = rank(values.len()).map(|rank| (values[rank - 1], values[values.len() - rank]));
        Some(Self { count: values.len(), median: middle(&values), min, max, sd: deviation(&values), interval })
    }

    /// The median and its interval.
    pub(super) fn estimate(&self) -> Estimate {
        Estimate { value: self.median, interval: self.interval, repeats: self.count }
    }

    /// The standard deviation as a fraction of the median.
    ///
    /// Its interval assumes a normal distribution (chi-square), because no distribution-free interval is known.
    pub(super) fn relative_sd(&self) -> Option<Estimate> {
        let value = self.sd.filter(|_| self.median > 0.0)? / self.median;
        let freedom = (self.count - 1) as f64;
        let bound = |deviations: f64| value * (freedom / chi_square(freedom, deviations)).sqrt();
        let interval = (self.count >= LEAST_REPEATS).then(|| (bound(TAIL_DEVIATIONS), bound(-TAIL_DEVIATIONS)));
        Some(Estimate { value, interval, repeats: self.count })
    }
}

impl Estimate {
    /// Half of the width of the interval, as a fraction of `value`.
    pub(super) fn plus_minus(&self) -> Option<f64> {
        let (least, most) = self.interval?;
        Some((most - least) / 2.0 / self.value).filter(|part| part.is_finite())
    }

    /// Whether the true value may be `value`: the interval contains it, or there is no interval to exclude it.
    pub(super) fn may_be(&self, value: f64) -> bool {
        self.interval.is_none_or(|(least, most)| (least..=most).contains(&value))
    }
}

fn middle(sorted: &[f64]) -> f64 {
    let (lower, upper) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    if lower == upper { lower } else { f64::midpoint(lower, upper) }
}

fn deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()).filter(|sd| sd.is_finite())
}

/// The rank k for the 95 % interval of a median: the interval spans the k-th smallest to the k-th largest of `count`
/// values. `None` if there are too few values.
fn rank(count: usize) -> Option<usize> {
    let n = count as f64;
    // Add probabilities of the binomial distribution. Compute them as logarithms, because 2^-n underflows a float for
    // large n.
    let mut ln_probability = n * 0.5_f64.ln();
    let mut below = ln_probability.exp();
    let mut rank = 0;
    while below <= TAIL {
        rank += 1;
        ln_probability += ((n - rank as f64 + 1.0) / rank as f64).ln();
        below += ln_probability.exp();
    }
    (rank > 0).then_some(rank)
}

/// A quantile of the chi-square distribution with `freedom` degrees of freedom, by Wilson and Hilferty's approximation.
/// The quantile is the one that lies `deviations` standard deviations from the mean in a normal distribution. Accurate
/// to 1 % from 5 degrees of freedom.
fn chi_square(freedom: f64, deviations: f64) -> f64 {
    let part = 2.0 / (9.0 * freedom);
    freedom * (1.0 - part + deviations * part.sqrt()).powi(3)
}

#[cfg(test)]
#[path = "spread_tests.rs"]
mod tests;
