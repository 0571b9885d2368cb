//! The 95 % interval of a mean, with Student's t: the interval that publications print. It assumes that the repeats vary
//! normally, and it exists from two repeats on. The interval of a median in [`super::spread`] assumes nothing, but needs
//! six repeats.

/// The quantile 0.975 of Student's distribution, for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// The same quantile of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// A mean over the repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mean {
    pub(super) value: f64,
    /// Half the width of the 95 % interval; `None` with fewer than two repeats.
    pub(super) plus_minus: Option<f64>,
}

impl Mean {
    /// The mean of `values`; `None` without values, or if one is infinite.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        if !value.is_finite() {
            return None;
        }
        let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
        let plus_minus = t(values.len().saturating_sub(1)).map(|t| t * (squares / (count - 1.0) / count).sqrt());
        Some(Self { value, plus_minus })
    }
}

/// The quantile 0.975 for this many degrees of freedom; `None` for 0.
fn t(freedom: usize) -> Option<f64> {
    let index = freedom.checked_sub(1)?;
    // Above 30, the first term of the expansion around the normal distribution is exact to 0.1 %.
    let normal = || NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * freedom as f64);
    Some(T.get(index).copied().unwrap_or_else(normal))
}

#[cfg(test)]
#[path = "student_tests.rs"]
mod tests;
