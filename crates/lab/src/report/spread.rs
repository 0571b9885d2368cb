//! How much a figure varies over the repeats, and how sure its median is.
//!
//! The interval of a median is exact and needs no assumption on how values are spread: each value lies
//! below the true median with probability 1/2, so the number of those that do is binomial. The interval
//! from the k-th smallest to the k-th largest value holds the true median in at least 95 of 100
//! experiments when at most 2.5 % of the binomial lie below k. Fewer than [`LEAST_REPEATS`] have none.

/// Repeats that an interval of 95 % needs.
pub(super) const LEAST_REPEATS: usize = 6;

/// The most that may lie on each side of an interval.
const TAIL: f64 = 0.025;
/// How many standard deviations of a normal distribution that is.
const TAIL_DEVIATIONS: f64 = 1.959_964;

/// A figure over the repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) count: usize,
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// Standard deviation (n - 1); of two finite values and more.
    pub(super) sd: Option<f64>,
    /// Of the median, 95 %.
    pub(super) interval: Option<(f64, f64)>,
}

/// A figure and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// Of 95 %; none with too few repeats.
    pub(super) interval: Option<(f64, f64)>,
    pub(super) repeats: usize,
}

impl Spread {
    /// The spread of `values`; infinite ones are allowed. None of none.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
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

    /// The standard deviation as a part of the median.
    ///
    /// Its interval is that of a normal distribution (chi-square), since none is known that holds for all.
    pub(super) fn relative_sd(&self) -> Option<Estimate> {
        let value = self.sd.filter(|_| self.median > 0.0)? / self.median;
        let freedom = (self.count - 1) as f64;
        let bound = |deviations: f64| value * (freedom / chi_square(freedom, deviations)).sqrt();
        let interval = (self.count >= LEAST_REPEATS).then(|| (bound(TAIL_DEVIATIONS), bound(-TAIL_DEVIATIONS)));
        Some(Estimate { value, interval, repeats: self.count })
    }
}

impl Estimate {
    /// Half of the interval as a part of the value.
    pub(super) fn plus_minus(&self) -> Option<f64> {
        let (least, most) = self.interval?;
        Some((most - least) / 2.0 / self.value).filter(|part| part.is_finite())
    }

    /// Whether the interval holds `value`; true as well when there is none, for then anything may be.
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

/// From which value of `count`, counted from 1 and from both ends, the interval of the median goes.
fn rank(count: usize) -> Option<usize> {
    let n = count as f64;
    // In logarithms, for 2^-n is nothing in a float when n is large.
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

/// The quantile of the chi-square distribution that lies so many `deviations` from the normal one's middle
/// (Wilson and Hilferty's approximation, good to 1 % from 5 degrees of `freedom`).
fn chi_square(freedom: f64, deviations: f64) -> f64 {
    let part = 2.0 / (9.0 * freedom);
    freedom * (1.0 - part + deviations * part.sqrt()).powi(3)
}

#[cfg(test)]
#[path = "spread_tests.rs"]
mod tests;
