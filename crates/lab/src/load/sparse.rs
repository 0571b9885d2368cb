//! Histograms of microseconds in messages between processes.

use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};

/// The recorded values of a histogram, each with its count. Adding these pairs to an empty histogram with the same
/// bounds recreates the original histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sparse(Vec<(u64, u64)>);

impl Sparse {
    pub(super) fn of<T: Counter>(us: &Histogram<T>) -> Self {
        Self(us.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value().as_u64())).collect())
    }

    /// The sum of all counts.
    pub(super) fn calls(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Adds the pairs to a histogram. A value above the histogram's maximum counts as the maximum.
    ///
    /// # Errors
    /// If a count is too large for a counter of the histogram.
    pub(super) fn add_to<T: Counter>(&self, us: &mut Histogram<T>) -> Result<(), String> {
        // Skip pairs whose count is 0: recording them would change the histogram's minimum or maximum.
        for &(value, count) in self.0.iter().filter(|(_, count)| *count > 0) {
            let count = T::from_u64(count).ok_or_else(|| format!("{count} calls of {value} us are too many"))?;
            us.saturating_record_n(value, count);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "sparse_tests.rs"]
mod tests;
