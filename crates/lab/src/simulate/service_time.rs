//! The time for which a call occupies a worker.

use std::path::Path;
use std::sync::Arc;

use crate::error::{self, Error, Result};

/// A distribution of service times.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ServiceTime {
    /// Lognormal: most calls are near the median, and a few take several times as long.
    Lognormal {
        median_ms: f64,
        /// Standard deviation of the logarithm of the service time. At 0.5, the 99th percentile is 3.2 times the
        /// median.
        sigma: f64,
    },
    /// An empirical distribution.
    Counted(Arc<Counts>),
}

/// A cumulative distribution: service times in ms, each with the fraction of all calls that took at most this time.
/// Both ascend.
#[derive(Debug, PartialEq)]
pub(super) struct Counts {
    steps: Vec<(f64, f64)>,
    mean_ms: f64,
}

impl ServiceTime {
    pub(super) fn lognormal(median_ms: f64) -> Self {
        Self::Lognormal { median_ms, sigma: 0.5 }
    }

    /// Reads lines of `ms count`: a time in milliseconds, and the number of calls that took this time. `#` begins a
    /// comment.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Usage`] if a line is invalid.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(error::io(path.display().to_string()))?;
        let counts = Counts::parse(&text).map_err(|why| Error::Usage(format!("{}: {why}", path.display())))?;
        Ok(Self::Counted(Arc::new(counts)))
    }

    pub(super) fn mean_ms(&self) -> f64 {
        match self {
            Self::Lognormal { median_ms, sigma } => median_ms * (sigma * sigma / 2.0).exp(),
            Self::Counted(counts) => counts.mean_ms,
        }
    }

    pub(super) fn median_ms(&self) -> f64 {
        match self {
            Self::Lognormal { median_ms, .. } => *median_ms,
            Self::Counted(counts) => counts.at(0.5),
        }
    }

    pub(super) fn draw_ms(&self, random: &mut fastrand::Rng) -> f64 {
        match self {
            Self::Lognormal { median_ms, sigma } => median_ms * (sigma * normal(random)).exp(),
            Self::Counted(counts) => counts.at(random.f64()),
        }
    }
}

impl Counts {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut counts: Vec<(f64, f64)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            counts.push(parse_line(line).ok_or_else(|| {
                format!("line {}: {line:?} is not `ms count`, two numbers such as `2.5 1000`", index + 1)
            })?);
        }
        counts.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let total: f64 = counts.iter().map(|(_, count)| count).sum();
        if total <= 0.0 {
            return Err("no service times; write lines of `ms count`, such as `2.5 1000`".to_owned());
        }
        let mean_ms = counts.iter().map(|(ms, count)| ms * count / total).sum();
        let mut below = 0.0;
        for (_, count) in &mut counts {
            below += *count / total;
            *count = below;
        }
        Ok(Self { steps: counts, mean_ms })
    }

    /// The quantile `part` of the service time: the fraction `part` of the calls takes at most this time.
    fn at(&self, part: f64) -> f64 {
        let index = self.steps.partition_point(|(_, below)| *below <= part);
        self.steps[index.min(self.steps.len() - 1)].0
    }
}

fn parse_line(line: &str) -> Option<(f64, f64)> {
    let (ms, count) = line.split_once(char::is_whitespace)?;
    let ms: f64 = ms.parse().ok()?;
    let count: u64 = count.trim().parse().ok()?;
    (ms.is_finite() && ms >= 0.0).then_some((ms, count as f64))
}

/// A random number with a standard normal distribution (Box-Muller).
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// A random number with an exponential distribution of mean 1.
pub(super) fn exponential(random: &mut fastrand::Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

#[cfg(test)]
#[path = "service_time_tests.rs"]
mod tests;
