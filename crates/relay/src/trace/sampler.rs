//! Sampler: draws a share of the calls at random.

/// Draws each call with the same probability, independent of the earlier calls.
///
/// The number of calls between two drawn calls has a geometric distribution. One random number decides how many calls
/// come before the next drawn call, so a call that is not drawn costs one subtraction.
#[derive(Debug)]
pub(super) struct Sampler {
    ratio: f64,
    /// Number of calls that pass before the next call is drawn.
    until_next: u64,
}

impl Sampler {
    /// `ratio` is the probability, from 0 to 1.
    pub(super) fn new(ratio: f64, random: &mut fastrand::Rng) -> Self {
        Self { ratio, until_next: gap(ratio, random) }
    }

    /// Returns whether the next call is drawn.
    #[inline]
    pub(super) fn draws(&mut self, random: &mut fastrand::Rng) -> bool {
        let left = self.until_next.checked_sub(1);
        self.until_next = left.unwrap_or_else(|| gap(self.ratio, random));
        left.is_none()
    }
}

/// Returns how many calls pass before a call is drawn.
#[cold]
fn gap(ratio: f64, random: &mut fastrand::Rng) -> u64 {
    if ratio <= 0.0 {
        return u64::MAX;
    }
    // The inverse of the distribution function. A ratio of 1 divides by minus infinity, which gives 0. The conversion
    // to an integer rounds down and saturates.
    ((-random.f64()).ln_1p() / (-ratio).ln_1p()) as u64
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
