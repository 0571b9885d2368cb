//! The spread of a figure over the repeats, and the uncertainty of its median.
//!
//! The interval of a median is exact and assumes no distribution. Each value lies below the true median with
//! probability 1/2, so the number of values below it is binomial. The interval from the k-th smallest to the k-th
//! largest value contains the true median in at least 95 of 100 experiments if the binomial number is below k with a
//! probability of at most 2.5 %. With fewer than [`LEAST_REPEATS`] values there is no interval.

/// Minimum number of repeats for an interval of 95 %.
pub(super) const LEAST_REPEATS: usize = 6;

/// Largest probability that the true value lies beyond an interval, on each side.
const TAIL: f64 = 0.025;
/// Number of standard deviations of a normal distribution beyond which the probability is [`TAIL`], on each side.
pub(crate) const TAIL_DEVIATIONS: f64 = 1.959_964;

/// A figure over the repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(super) count: usize,
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// Standard deviation (n - 1), if there are at least two values and all are finite.
    pub(crate) sd: Option<f64>,
    /// 95 % interval of the median.
    pub(super) interval: Option<(f64, f64)>,
}

/// A figure and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// 95 % interval; `None` with too few repeats.
    pub(super) interval: Option<(f64, f64)>,
    pub(super) repeats: usize,
}

impl Spread {
    /// The spread of `values`, which may be infinite; `None` without values.
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
    /// Half of the interval as a fraction of the value.
    pub(super) fn plus_minus(&self) -> Option<f64> {
        let (least, most) = self.interval?;
        Some((most - least) / 2.0 / self.value).filter(|part| part.is_finite())
    }

    /// Whether the interval contains `value`; also true without an interval, because then any value is possible.
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

/// The rank k, from 1, for the interval of a median: the interval begins at the k-th smallest of `count` values and
/// ends at the k-th largest. `None` if there are too few values.
fn rank(count: usize) -> Option<usize> {
    let n = count as f64;
    // Use logarithms, because 2^-n underflows a float for large n.
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

/// The quantile of the chi-square distribution at `deviations` of the normal distribution (Wilson and Hilferty's
/// approximation, accurate to 1 % from 5 degrees of `freedom`).
fn chi_square(freedom: f64, deviations: f64) -> f64 {
    let part = 2.0 / (9.0 * freedom);
    freedom * (1.0 - part + deviations * part.sqrt()).powi(3)
}

#[cfg(test)]
#[path = "spread_tests.rs"]
mod tests;
