//! Writes single metrics.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::histogram::{BOUNDS, BOUNDS_MS, HistogramTotals};
use super::labels::Labels;

/// Begins a counter; its samples are written as `<name>_total`.
pub fn counter<'a>(
    encoder: &'a mut DescriptorEncoder,
    name: &'a str,
    help: &str,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}

/// Begins a gauge.
pub fn gauge<'a>(
    encoder: &'a mut DescriptorEncoder,
    name: &'a str,
    help: &str,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)
}

/// Writes a counter's sample.
pub fn encode_count(mut metric: MetricEncoder, count: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, u64, f64>(&count, None)
}

/// Writes a counter with a sample for each series.
pub(super) fn encode_counters<T>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: &[(Labels, T)],
    get: impl Fn(&T) -> u64,
) -> fmt::Result {
    let mut metric = counter(encoder, name, help)?;
    series.iter().try_for_each(|(labels, totals)| encode_count(metric.encode_family(labels)?, get(totals)))
}

/// Writes a gauge with a sample for each series.
pub(super) fn encode_gauges<T>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: &[(Labels, T)],
    get: impl Fn(&T) -> u64,
) -> fmt::Result {
    let mut metric = gauge(encoder, name, help)?;
    series.iter().try_for_each(|(labels, totals)| metric.encode_family(labels)?.encode_gauge(&get(totals)))
}

/// Writes a histogram in milliseconds with samples for each series.
pub(super) fn encode_histograms<T>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: &[(Labels, T)],
    get: impl Fn(&T) -> &HistogramTotals<BOUNDS>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (labels, totals) in series {
        let totals = get(totals);
        let (sum_ms, count, buckets) = (totals.sum_ms(), totals.count(), totals.buckets(&BOUNDS_MS, 1.0));
        metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum_ms, count, &buckets, None)?;
    }
    Ok(())
}

/// Writes the samples of one series of a histogram in seconds.
pub(super) fn encode_seconds<const N: usize>(
    mut metric: MetricEncoder,
    totals: &HistogramTotals<N>,
    bounds_ms: &[u32; N],
) -> fmt::Result {
    metric.encode_histogram::<NoLabelSet>(totals.sum_s(), totals.count(), &totals.buckets(bounds_ms, 1_000.0), None)
}
