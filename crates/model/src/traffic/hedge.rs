//! Hedging: a call is sent to a second endpoint before the first endpoint has answered (gRFC A6, "Hedging Policy").

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::Repeatable;
use crate::settings::{format_duration, parse_duration};

/// Maximum number of further attempts of one call that a policy may allow.
pub const HEDGES_MAX: u8 = 3;
/// Shortest delay before a further attempt. With a shorter delay, most calls would be sent twice.
const SHORTEST_DELAY: Duration = Duration::from_millis(1);
const LONGEST_DELAY: Duration = Duration::from_secs(3_600);
/// The percentiles that a delay may name, in tenths of a percent. Below the median, most calls would be sent twice.
/// Above 99.9 %, the proxy does not record enough calls of a method to compute the percentile.
const PERMILLE: std::ops::RangeInclusive<u16> = 500..=999;

/// A hedging policy: when, how often and for which methods the proxy sends a call to a further endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hedge {
    /// The time from the start of the latest attempt to the next attempt.
    pub delay: HedgeDelay,
    /// Maximum number of further attempts of one call: 1 to [`HEDGES_MAX`].
    pub attempts: u8,
    /// The methods whose calls may be sent more than once. Shared, because the relay copies the policy of each call
    /// that it hedges.
    pub methods: Arc<[Repeatable]>,
}

/// The time after which a call is sent to another endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HedgeDelay {
    Fixed(Duration),
    /// A percentile of the latencies of the call's method, in tenths of a percent: 500 to 999.
    Percentile(u16),
}

impl Hedge {
    /// Returns whether a call may be sent more than once. `name` is the `:path` of a gRPC call, and the `:method` of
    /// any other call.
    pub fn applies_to(&self, is_grpc: bool, name: &[u8]) -> bool {
        self.methods.iter().any(|method| method.is_match(is_grpc, name))
    }

    /// Returns the size of the list of methods, in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        self.methods.iter().map(Repeatable::size_bytes).sum()
    }
}

impl HedgeDelay {
    /// Returns the expected share of calls that are slower than the delay, in tenths of a percent: 10 for p99, and 0
    /// for a fixed delay.
    pub fn expected_permille(self) -> u16 {
        match self {
            Self::Fixed(_) => 0,
            Self::Percentile(permille) => 1_000u16.saturating_sub(permille),
        }
    }
}

impl FromStr for HedgeDelay {
    type Err = &'static str;

    /// Reads a duration, such as `50ms`, or a percentile, such as `p95` or `p99.9`. The error says what to write.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(percentile) = text.strip_prefix('p') else {
            let delay = parse_duration(text).filter(|delay| (SHORTEST_DELAY..=LONGEST_DELAY).contains(delay));
            return delay.map(Self::Fixed).ok_or("write a duration from 1ms to 1h, or a percentile such as p95");
        };
        let permille = match percentile.split_once('.') {
            None => number(percentile, 3).and_then(|whole| whole.checked_mul(10)),
            Some((whole, tenths)) => number(whole, 2).zip(number(tenths, 1)).map(|(whole, tenths)| whole * 10 + tenths),
        };
        let known = permille.filter(|permille| PERMILLE.contains(permille));
        known.map(Self::Percentile).ok_or("use p50 to p99.9, with at most one digit after the dot")
    }
}

/// Reads a number of at most `max_digits` digits.
fn number(text: &str, max_digits: usize) -> Option<u16> {
    let is_number = (1..=max_digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for HedgeDelay {
    /// Writes the delay in the form that a policy uses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(delay) => f.write_str(&format_duration(*delay)),
            Self::Percentile(permille) if permille % 10 == 0 => write!(f, "p{}", permille / 10),
            Self::Percentile(permille) => write!(f, "p{}.{}", permille / 10, permille % 10),
        }
    }
}

impl Serialize for HedgeDelay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
#[path = "hedge_tests.rs"]
mod tests;
