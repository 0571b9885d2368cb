//! Writes a run of the lab as Fortio's JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::super::{name, own};
use super::document::{Bucket, Document, Histogram, Percentile};
use crate::error::{Result, io};
use crate::experiment::record::{CurvePoint, Experiment, Protocol, Run, Scenario};

/// Directory for Fortio's files within an experiment's directory.
pub(crate) const DIR: &str = "fortio";

const MS_PER_S: f64 = 1e3;
const NS_PER_S: f64 = 1e9;

/// Writes the file of a run that has just ended into the directory [`DIR`] of `out`. A run without latencies has no
/// file.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn save(out: &Path, experiment: &Experiment, run: &Run) -> Result<()> {
    let took = SignedDuration::try_from_secs_f64(own::seconds(experiment, run)).unwrap_or_default();
    let start =
        Timestamp::now().checked_sub(took).map_or_else(|_| experiment.started.clone(), |start| start.to_string());
    write(out, experiment, run, start).map(drop)
}

/// Writes the file of a run that began at `start`. Returns the file's path, or `None` for a run without latencies.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::formats) fn write(
    out: &Path,
    experiment: &Experiment,
    run: &Run,
    start: String,
) -> Result<Option<PathBuf>> {
    if !own::has_latencies(run) {
        return Ok(None);
    }
    let path = out.join(DIR).join(name::file_stem(run) + ".json");
    let text = serde_json::to_string_pretty(&document(experiment, run, start)).map_err(std::io::Error::from);
    let write = |text: String| {
        fs::create_dir_all(out.join(DIR))?;
        fs::write(&path, text + "\n")
    };
    text.and_then(write).map_err(io(format!("writing {}", path.display())))?;
    Ok(Some(path))
}

/// Describes a run with latencies. The lab times only answered calls, so the buckets, the percentiles and the mean
/// leave out failed calls. A run of an earlier version has no mean and no deviation; the function estimates both from
/// the run's latency curve.
pub(super) fn document(experiment: &Experiment, run: &Run, start_time: String) -> Document {
    let seconds = own::seconds(experiment, run);
    let is_http = experiment.protocol == Protocol::Http1;
    let destination = match &experiment.workload {
        Some(workload) => format!("{}, {} of {}", run.target, workload.call, workload.service),
        None => format!("{}, {} backends", run.target, experiment.backends),
    };
    let (url, destination) = if is_http { (Some(destination), None) } else { (None, Some(destination)) };
    let (ok, failed) = if is_http { ("200", "-1") } else { ("SERVING", "ERROR") };
    let mut ret_codes = BTreeMap::from([(ok.to_owned(), run.calls)]);
    if run.errors > 0 {
        ret_codes.insert(failed.to_owned(), run.errors);
    }
    Document {
        run_type: match (run.scenario, is_http) {
            (Scenario::Handshakes, _) => "TLS handshakes",
            (_, true) => "HTTP",
            (_, false) => "GRPC",
        }
        .to_owned(),
        labels: name::label(run),
        start_time,
        requested_qps: run.rate_per_s.map_or_else(|| "max".to_owned(), |rate| rate.to_string()),
        requested_duration: format!("{}s", experiment.duration_s),
        actual_qps: (run.calls + run.errors) as f64 / seconds,
        actual_duration: (seconds * NS_PER_S) as u64,
        num_threads: run.connections,
        version: concat!("leno ", env!("CARGO_PKG_VERSION")).to_owned(),
        duration_histogram: histogram(run),
        errors_duration_histogram: Some(errors(run.errors)),
        id: name::file_stem(run),
        ret_codes,
        url,
        destination,
    }
}

fn histogram(run: &Run) -> Histogram {
    let points = points(run);
    let (mean_ms, std_dev_ms) = match (run.mean_ms, run.std_dev_ms) {
        (Some(mean_ms), Some(std_dev_ms)) => (mean_ms, std_dev_ms),
        _ => estimate(&points),
    };
    let min_ms = points.first().map_or(0.0, |point| point.ms);
    let of = |percentile, ms: f64| Percentile { percentile, value: ms / MS_PER_S };
    Histogram {
        // Include the failed calls: Fortio computes the error rate as failed calls divided by `count`.
        count: run.calls + run.errors,
        min: min_ms / MS_PER_S,
        max: run.max_ms / MS_PER_S,
        sum: mean_ms / MS_PER_S * run.calls as f64,
        avg: mean_ms / MS_PER_S,
        std_dev: std_dev_ms / MS_PER_S,
        data: Some(buckets(&points, run.calls)),
        percentiles: vec![of(50.0, run.p50_ms), of(90.0, run.p90_ms), of(99.0, run.p99_ms), of(99.9, run.p999_ms)],
    }
}

/// Returns the histogram of the failed calls. Their latencies are unknown, so all of them are in a bucket at 0 s.
fn errors(count: u64) -> Histogram {
    let bucket = Bucket { start: 0.0, end: 0.0, percent: 100.0, count };
    Histogram { count, data: (count > 0).then(|| vec![bucket]), ..Histogram::default() }
}

/// The latency curve, from the shortest call to the longest.
fn points(run: &Run) -> Vec<CurvePoint> {
    let first = run.curve.first().map_or(0.0, |point| point.ms);
    let shortest = CurvePoint { quantile: 0.0, ms: run.min_ms.unwrap_or(first) };
    let longest = CurvePoint { quantile: 1.0, ms: run.max_ms };
    [shortest].into_iter().chain(run.curve.iter().copied()).chain([longest]).collect()
}

/// Turns a latency curve into buckets between its points. Points with the same latency share a bucket.
fn buckets(points: &[CurvePoint], calls: u64) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut counted = 0;
    for (from, point) in pairs(points) {
        let count = ((point.quantile * calls as f64).round() as u64).saturating_sub(counted);
        let (start, end, percent) = (from.ms / MS_PER_S, point.ms / MS_PER_S, point.quantile * 100.0);
        counted += count;
        match buckets.last_mut() {
            Some(last) if last.end == end => (last.percent, last.count) = (percent, last.count + count),
            _ if count == 0 => {}
            _ => buckets.push(Bucket { start, end, percent, count }),
        }
    }
    buckets
}

/// Estimates mean and standard deviation, in ms, as if all calls of a bucket had the latency in the middle of the
/// bucket.
fn estimate(points: &[CurvePoint]) -> (f64, f64) {
    let parts = || pairs(points).map(|(from, to)| (to.quantile - from.quantile, f64::midpoint(from.ms, to.ms)));
    let mean: f64 = parts().map(|(part, ms)| part * ms).sum();
    let variance: f64 = parts().map(|(part, ms)| part * (ms - mean).powi(2)).sum();
    (mean, variance.sqrt())
}

fn pairs(points: &[CurvePoint]) -> impl Iterator<Item = (&CurvePoint, &CurvePoint)> {
    points.iter().zip(points.iter().skip(1))
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
