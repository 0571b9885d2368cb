//! Means over repeats, their 95 % intervals, and gaps between means.
//!
//! The intervals assume that a figure is normally distributed over the repeats. A mean has Student's interval; the
//! difference of two means has Welch's interval.

use super::spread::Spread;
use super::student::standard_errors;

/// The mean of a figure over some runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mean {
    pub(crate) value: f64,
    /// Half of the width of the mean's 95 % interval; `None` if there is only one run.
    pub(crate) plus_minus: Option<f64>,
    runs: usize,
    /// Standard deviation between the runs; `None` if there is only one run.
    sd: Option<f64>,
}

/// The difference between a mean and a base mean, in percent of the base mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gap {
    pub(crate) percent: f64,
    /// Half of the width of the difference's 95 % interval, in percent of the base mean. `None` if either mean has only
    /// one run.
    pub(crate) plus_minus: Option<f64>,
}

impl Mean {
    /// The mean of `values`. `None` if there are no values, or if a value is infinite.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let runs = values.len();
        let sd = Spread::of(values.iter().copied())?.sd;
        let value = values.iter().sum::<f64>() / runs as f64;
        if !value.is_finite() {
            return None;
        }
        let errors = standard_errors(runs as f64 - 1.0);
        let plus_minus = sd.zip(errors).map(|(sd, errors)| errors * sd / (runs as f64).sqrt());
        Some(Self { value, plus_minus, runs, sd })
    }

    /// Standard deviation between the runs; `None` if there is only one run.
    pub(crate) fn deviation(&self) -> Option<f64> {
        self.sd
    }

    /// The difference from `base`, in percent of `base`. `None` if the base mean is 0.
    pub(crate) fn gap(&self, base: &Self) -> Option<Gap> {
        let of_base = |value: f64| value / base.value.abs() * 100.0;
        let percent = of_base(self.value - base.value);
        let plus_minus = self.welch(base).map(of_base);
        percent.is_finite().then_some(Gap { percent, plus_minus })
    }

    /// Whether the repeats can distinguish this mean from `other`: the 95 % interval of the difference excludes 0.
    /// Returns false if either mean has only one run, because the difference then has no interval.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        self.welch(other).is_some_and(|half| (self.value - other.value).abs() > half)
    }

    /// Half of the width of the 95 % interval of the difference from `other` (Welch).
    fn welch(&self, other: &Self) -> Option<f64> {
        // For a mean over n runs with standard deviation sd, returns v = sd² / n (the squared standard error) and v² /
        // (n - 1).
        let parts = |mean: &Self| {
            let variance = mean.sd?.powi(2) / mean.runs as f64;
            Some((variance, variance.powi(2) / (mean.runs as f64 - 1.0)))
        };
        let ((one, one_part), (two, two_part)) = (parts(self)?, parts(other)?);
        let variance = one + two;
        if variance == 0.0 {
            return Some(0.0);
        }
        let freedom = variance.powi(2) / (one_part + two_part);
        Some(standard_errors(freedom)? * variance.sqrt())
    }
}

impl Gap {
    /// Whether the repeats cannot distinguish the difference from 0. False if the difference has no interval.
    pub(crate) fn may_be_zero(&self) -> bool {
        self.plus_minus.is_some_and(|half| self.percent.abs() <= half)
    }
}

#[cfg(test)]
#[path = "mean_tests.rs"]
mod tests;
