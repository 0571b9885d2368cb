//! The latencies of a cluster's latest calls, by method. If a hedge's delay is a percentile, its value comes from these
//! latencies. `leno tap --slower-than p99` uses the same type to find slow calls.
//!
//! If the further attempt of a hedged call answers first, the recorded latency of the call is the time for which the
//! first attempt had waited. This time is longer than the delay. So the call still counts as slower than the delay, and
//! hedging does not lower the percentile.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::balance::Method;

/// Maximum number of methods of a cluster whose latencies are recorded. For any further method, there are no
/// percentiles. If a hedge's delay is a percentile, calls of such a method are not hedged. A tap with a percentile does
/// not show them.
const METHODS_MAX: usize = 64;
/// Length of a period. Percentiles are computed from the latencies of the current and of the previous period.
const PERIOD: Duration = Duration::from_secs(30);
/// Time for which a percentile is used before it is computed again.
const FRESH: Duration = Duration::from_millis(100);
/// Minimum number of calls that must be slower than a percentile before the percentile is used. So p95 needs 100 calls,
/// and p99.9 needs 5,000 calls.
const ENOUGH_SLOWER: u64 = 5;
/// In each period, all of the first latencies of a method are recorded, up to this number.
const ALL_MAX: u32 = 10_000;
/// After the first [`ALL_MAX`] latencies, only one latency in `ONE_OF` is recorded, and counts `ONE_OF` times. This
/// saves time: to record a latency costs more than to decide whether to record it.
const ONE_OF: u32 = 8;
/// The largest latency that is recorded, in microseconds. A larger latency is recorded as this latency.
const LONGEST_US: u64 = 60_000_000;
/// Significant digits of a latency; the error of a percentile is at most 7 %.
const DIGITS: u8 = 1;

/// The latencies of the methods of one cluster on one worker.
#[derive(Debug, Default)]
pub struct MethodLatencies {
    /// The methods. There are so few that a linear search is faster than a hash table.
    methods: Vec<Method>,
    /// The latencies of `methods`, in the same order.
    latencies: Vec<Latencies>,
}

/// A percentile of a method's latencies, and the number of calls that it is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPercentile {
    /// `None` while too few calls were made.
    pub value: Option<Duration>,
    /// Number of calls of this period and of the previous period.
    pub calls: u64,
    /// Minimum number of calls from which the percentile can be computed.
    pub calls_needed: u64,
}

/// The latencies of one method in microseconds.
#[derive(Clone, Debug)]
struct Latencies {
    /// The latencies of this period.
    recent: Histogram<u32>,
    /// The latencies of the previous period.
    before: Histogram<u32>,
    /// Number of latencies in this period, whether recorded or not.
    added: u32,
    /// When this period ends.
    ends: Instant,
    /// The percentile that was computed last, in tenths of a percent; its value; and the time until which this value is
    /// used.
    known: Option<(u16, Option<Duration>, Instant)>,
}

impl MethodLatencies {
    /// Adds the latency of a call. For hedging, `latency` is the time until the response headers arrived or, if they
    /// have not arrived, the time that the call has waited. For taps, it is the whole time of the call.
    pub fn add(&mut self, method: Method, latency: Duration, now: Instant) {
        match self.of(method) {
            Some(latencies) => latencies.add(latency, now),
            None => self.add_method(method, latency, now),
        }
    }

    fn of(&mut self, method: Method) -> Option<&mut Latencies> {
        let place = self.methods.iter().position(|known| *known == method)?;
        self.latencies.get_mut(place)
    }

    /// Adds the first latency of a method. If [`METHODS_MAX`] methods are recorded already, first removes the methods
    /// without recent calls. If every recorded method has recent calls, drops the latency.
    #[cold]
    fn add_method(&mut self, method: Method, latency: Duration, now: Instant) {
        if self.methods.len() >= METHODS_MAX {
            let all = std::mem::take(&mut self.methods).into_iter().zip(std::mem::take(&mut self.latencies));
            (self.methods, self.latencies) = all.filter(|(_, latencies)| now < latencies.ends + PERIOD).unzip();
        }
        if self.methods.len() >= METHODS_MAX {
            return;
        }
        if let Some(mut latencies) = Latencies::new(now) {
            latencies.add(latency, now);
            self.methods.push(method);
            self.latencies.push(latencies);
        }
    }

    /// Returns the latency of a method at the percentile `permille`, which is in tenths of a percent; `None` if too few
    /// calls were made.
    pub fn percentile(&mut self, method: Method, permille: u16, now: Instant) -> Option<Duration> {
        let latencies = self.of(method)?;
        match latencies.known {
            Some((of, value, until)) if of == permille && now < until => value,
            _ => latencies.find_percentile(permille, now),
        }
    }
}

impl MethodLatencies {
    /// Describes a percentile, in tenths of a percent, of the latencies of a method.
    pub fn describe(&self, method: Method, permille: u16, now: Instant) -> KnownPercentile {
        let calls_needed = (1_000 * ENOUGH_SLOWER).div_ceil(u64::from(1_000u16.saturating_sub(permille)).max(1));
        let Some(mut latencies) = self.find(method).cloned() else {
            return KnownPercentile { value: None, calls: 0, calls_needed };
        };
        latencies.pass_to(now);
        let calls = latencies.before.len() + latencies.recent.len();
        KnownPercentile { value: latencies.percentile(permille), calls, calls_needed }
    }

    /// Returns which percentile was computed last for a method, in tenths of a percent: 990 for p99.
    pub fn latest_permille(&self, method: Method) -> Option<u16> {
        self.find(method)?.known.map(|(permille, ..)| permille)
    }

    fn find(&self, method: Method) -> Option<&Latencies> {
        self.latencies.get(self.methods.iter().position(|known| *known == method)?)
    }
}

impl Latencies {
    /// Never returns `None`: a histogram accepts these constant bounds.
    fn new(now: Instant) -> Option<Self> {
        let empty = || Histogram::new_with_bounds(1, LONGEST_US, DIGITS).ok();
        Some(Self { recent: empty()?, before: empty()?, added: 0, ends: now + PERIOD, known: None })
    }

    fn add(&mut self, latency: Duration, now: Instant) {
        self.pass_to(now);
        self.added = self.added.wrapping_add(1);
        let weight = match self.added {
            ..=ALL_MAX => 1,
            number if is_chosen(number) => ONE_OF,
            _ => return,
        };
        let us = latency.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(latency.subsec_micros()));
        self.recent.saturating_record_n(us, weight);
    }

    /// Begins a new period if the current period has ended before `now`.
    #[inline]
    fn pass_to(&mut self, now: Instant) {
        if now >= self.ends {
            self.begin_period(now);
        }
    }

    #[cold]
    fn begin_period(&mut self, now: Instant) {
        std::mem::swap(&mut self.recent, &mut self.before);
        self.recent.reset();
        self.added = 0;
        // The last call was more than a period ago, so its latencies do not belong to the previous period.
        if now >= self.ends + PERIOD {
            self.before.reset();
        }
        self.ends = now + PERIOD;
    }

    /// Computes a percentile, and remembers it for [`FRESH`].
    #[cold]
    fn find_percentile(&mut self, permille: u16, now: Instant) -> Option<Duration> {
        self.pass_to(now);
        let value = self.percentile(permille);
        self.known = Some((permille, value, now + FRESH));
        value
    }

    fn percentile(&self, permille: u16) -> Option<Duration> {
        let mut all = self.before.clone();
        // Both histograms have the same bounds, so this addition cannot fail.
        all.add(&self.recent).ok()?;
        let slower = all.len() * u64::from(1_000u16.saturating_sub(permille)) / 1_000;
        let us = all.value_at_quantile(f64::from(permille) / 1_000.0);
        (slower >= ENOUGH_SLOWER).then(|| Duration::from_micros(us))
    }
}

/// Returns whether to record the latency with this number. Chooses about one of [`ONE_OF`] numbers. Does not choose
/// exactly every eighth call: a balancer may use the endpoints in turn, so all chosen calls could go to the same
/// endpoint. Instead, the choice uses multiples of the golden ratio, which are spread evenly and without a period
/// (Fibonacci hashing).
#[inline]
fn is_chosen(number: u32) -> bool {
    number.wrapping_mul(0x9e37_79b9) < u32::MAX / ONE_OF
}

#[cfg(test)]
#[path = "latencies_tests.rs"]
mod tests;
