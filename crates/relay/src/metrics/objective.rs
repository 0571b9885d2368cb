//! Counts of the calls to which the objective of a method applies, and of the calls that miss it.
//!
//! Every answered call counts once for success. Only successful calls count for latency, so a call never misses both.

use std::fmt;
use std::time::Duration;

use leno_model::traffic::{Objective, Share};
use prometheus_client::encoding::DescriptorEncoder;

use super::labels::Labels;
use super::text::{counter, encode_count, gauge};
use super::{Counter, Gauge};

/// The parts of an objective, in the order of [`ObjectiveTotals::parts`].
const PARTS: [&str; 2] = ["success", LATENCY];
const LATENCY: &str = "latency";

/// One worker's counts for the objective of one series of calls.
#[derive(Debug, Default)]
pub(super) struct ObjectiveMetrics {
    success: Part,
    latency: Part,
    /// Longest duration of a call that meets the latency part of the objective, in microseconds.
    bound_us: Gauge,
}

/// The counts for one part of an objective.
#[derive(Debug, Default)]
struct Part {
    /// The share of calls that should meet this part of the objective, in thousandths of a percent; 0 without an
    /// objective.
    share: Gauge,
    calls: Counter,
    misses: Counter,
}

/// Counts for one part of an objective, summed over the workers.
#[derive(Debug, Default, Clone, Copy)]
struct PartTotals {
    /// The share of calls that should meet this part of the objective, in thousandths of a percent; 0 without an
    /// objective.
    share: u64,
    calls: u64,
    misses: u64,
}

/// Counts for both parts of an objective, summed over the workers.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ObjectiveTotals {
    parts: [PartTotals; PARTS.len()],
    /// Longest duration of a call that meets the latency part of the objective, in microseconds.
    bound_us: u64,
}

impl ObjectiveMetrics {
    /// Replaces the objective. The counts are not reset: the new objective applies to calls that end from now on.
    pub(super) fn set(&self, objective: Option<&Objective>) {
        let thousandths = |share: Option<Share>| share.map_or(0, Share::thousandths).into();
        let latency = objective.and_then(|objective| objective.latency);
        let bound_us = latency.map_or(0, |latency| u64::try_from(latency.bound.as_micros()).unwrap_or(u64::MAX));
        self.bound_us.set(bound_us);
        self.latency.share.set(thousandths(latency.map(|latency| latency.share)));
        self.success.share.set(thousandths(objective.and_then(|objective| objective.success)));
    }

    pub(super) fn is_set(&self) -> bool {
        self.success.share.get() > 0 || self.latency.share.get() > 0
    }

    /// Counts a call that was answered.
    pub(super) fn count(&self, is_failure: bool, duration: Duration) {
        self.success.count(is_failure);
        if !is_failure {
            self.latency.count(duration > Duration::from_micros(self.bound_us.get()));
        }
    }

    /// Adds the counts to `totals`. If the objective `is_current`, also adds the objective. It is not current if no
    /// worker updates the series any more: the series then keeps an objective that may be out of date.
    pub(super) fn add_to(&self, totals: &mut ObjectiveTotals, is_current: bool) {
        // While only some workers have received a new objective, the old and the new objective are both in use. Export
        // the larger bound and the larger shares.
        let current = |gauge: &Gauge| if is_current { gauge.get() } else { 0 };
        totals.bound_us = totals.bound_us.max(current(&self.bound_us));
        for (total, part) in totals.parts.iter_mut().zip([&self.success, &self.latency]) {
            total.share = total.share.max(current(&part.share));
            total.calls += part.calls.get();
            total.misses += part.misses.get();
        }
    }
}

impl Part {
    fn count(&self, is_miss: bool) {
        if self.share.get() == 0 {
            return;
        }
        self.calls.add(1);
        self.misses.add(is_miss.into());
    }
}

impl PartTotals {
    /// Returns whether the series has an objective, or has had one.
    fn is_known(&self) -> bool {
        self.share > 0 || self.calls > 0
    }
}

/// Writes the counts of all series that have an objective, or have had one, and the objectives.
pub(super) fn encode<'a>(
    series: impl Iterator<Item = (&'a Labels, &'a ObjectiveTotals)> + Clone,
    encoder: &mut DescriptorEncoder,
) -> fmt::Result {
    let parts = || {
        let of_one = |(labels, totals): (&'a Labels, &'a ObjectiveTotals)| {
            PARTS
                .into_iter()
                .zip(&totals.parts)
                .map(move |(name, part)| ((labels.clone(), [("objective", name)]), part))
        };
        series.clone().flat_map(of_one).filter(|(_, part)| part.is_known())
    };
    let help = "Calls that count for the objective of their method";
    let mut calls = counter(encoder, "leno_method_objective_calls", help)?;
    for (labels, part) in parts() {
        encode_count(calls.encode_family(&labels)?, part.calls)?;
    }
    let help = "Calls that missed the objective of their method: failed calls, or calls slower than its bound";
    let mut misses = counter(encoder, "leno_method_objective_misses", help)?;
    for (labels, part) in parts() {
        encode_count(misses.encode_family(&labels)?, part.misses)?;
    }
    let help = "The share of calls that should reach the objective of their method, 0 to 1";
    let mut ratio = gauge(encoder, "leno_method_objective_ratio", help)?;
    for (labels, part) in parts().filter(|(_, part)| part.share > 0) {
        let share = u32::try_from(part.share).unwrap_or(u32::MAX);
        ratio.encode_family(&labels)?.encode_gauge(&Share::ratio(share))?;
    }
    let help = "The longest time of a fast call, in seconds, as the objective of its method sets it";
    let mut bound = gauge(encoder, "leno_method_objective_bound_seconds", help)?;
    for (labels, totals) in series.filter(|(_, totals)| totals.bound_us > 0) {
        let labels = (labels.clone(), [("objective", LATENCY)]);
        bound.encode_family(&labels)?.encode_gauge(&Duration::from_micros(totals.bound_us).as_secs_f64())?;
    }
    Ok(())
}
