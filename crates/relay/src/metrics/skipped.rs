//! Counts of the retries and hedges that requests did not get, by the reason.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};

use super::keyed::CountByKey;
use super::labels::Labels;
use super::text::{counter, encode_count};

/// The names of the reasons that the relay also counts in other metrics.
pub(crate) mod reason {
    /// The request has used all its retries, or all its hedges.
    pub(crate) const ATTEMPTS: &str = "attempts";
    /// The retry budget is spent.
    pub(crate) const BUDGET: &str = "budget";
    /// The Service is loaded.
    pub(crate) const LOADED: &str = "loaded";
}

/// Maximum number of reasons with counters of their own. The code has fewer reasons.
const REASONS: usize = 12;

/// One worker's counts for one series about a route.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    pub(super) retries: CountByKey<&'static str, REASONS>,
    pub(super) hedges: CountByKey<&'static str, REASONS>,
}

/// [`Skipped`], summed over workers and backends.
#[derive(Debug, Default)]
pub(super) struct SkippedTotals {
    retries: BTreeMap<&'static str, u64>,
    hedges: BTreeMap<&'static str, u64>,
}

impl SkippedTotals {
    pub(super) fn is_empty(&self) -> bool {
        self.retries.is_empty() && self.hedges.is_empty()
    }

    pub(super) fn add(&mut self, counts: &Skipped) {
        sum(&mut self.retries, counts.retries.counts());
        sum(&mut self.hedges, counts.hedges.counts());
    }

    pub(super) fn merge(&mut self, other: &Self) {
        sum(&mut self.retries, other.retries.iter().map(|(reason, count)| (*reason, *count)));
        sum(&mut self.hedges, other.hedges.iter().map(|(reason, count)| (*reason, *count)));
    }
}

fn sum(totals: &mut BTreeMap<&'static str, u64>, counts: impl Iterator<Item = (&'static str, u64)>) {
    counts.for_each(|(reason, count)| *totals.entry(reason).or_default() += count);
}

/// Writes the counts of routes with these labels.
pub(super) fn encode(encoder: &mut DescriptorEncoder, routes: &BTreeMap<Labels, SkippedTotals>) -> fmt::Result {
    let help = "Failed requests that were not sent again although their rule has retries, by the reason";
    let metric = counter(encoder, "leno_route_retry_skipped", help)?;
    encode_reasons(metric, routes.iter().map(|(labels, totals)| (labels, &totals.retries)))?;
    let help = "Hedges that were not made although the rule hedges the request's method, by the reason";
    let metric = counter(encoder, "leno_route_hedge_skipped", help)?;
    encode_reasons(metric, routes.iter().map(|(labels, totals)| (labels, &totals.hedges)))
}

fn encode_reasons<'a>(
    mut metric: MetricEncoder,
    routes: impl Iterator<Item = (&'a Labels, &'a BTreeMap<&'static str, u64>)>,
) -> fmt::Result {
    for (labels, counts) in routes {
        for (reason, count) in counts {
            encode_count(metric.encode_family(&(labels.clone(), [("reason", *reason)]))?, *count)?;
        }
    }
    Ok(())
}
