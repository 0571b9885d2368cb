//! Student's t distribution.

use super::spread::TAIL_DEVIATIONS;

/// The 97.5 % quantiles of Student's t distribution, for 1 to 30 degrees of freedom.
const QUANTILES: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Half of the width of a mean's 95 % interval, in standard errors, for `freedom` degrees of freedom (Student's
/// distribution). The function rounds `freedom` down, so the interval is never too narrow. `None` below 1 degree.
pub(super) fn standard_errors(freedom: f64) -> Option<f64> {
    let whole = freedom.floor();
    if whole.is_nan() || whole < 1.0 {
        return None;
    }
    let beyond = || {
        // The first terms of the expansion around the normal distribution. The result is exact to 0.001 from 30 degrees
        // of freedom.
        let z = TAIL_DEVIATIONS;
        z + (z.powi(3) + z) / (4.0 * whole) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * whole.powi(2))
    };
    Some(QUANTILES.get(whole as usize - 1).copied().unwrap_or_else(beyond))
}

#[cfg(test)]
#[path = "student_tests.rs"]
mod tests;
