//! Counts calls in metrics, and derives rates and latencies from the counts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::peer::{is_mutual_tls, is_unsent};
use crate::cluster::prometheus::Metric;
use crate::cluster::scrape::{Sample, Scrape};
use crate::cluster::source::Growth;

/// Names of the metrics that count calls and opaque connections that policies denied. Their series have no label
/// `direction`, because only the proxy of the called workload counts denials.
pub(crate) const DENIALS: [&str; 2] = ["inbound_http_authz_deny_total", "inbound_tcp_authz_deny_total"];
/// The metrics in [`DENIALS`], for a query to Prometheus.
pub(super) const DENIED: [Metric; 2] = [Metric::counter(DENIALS[0], &[]), Metric::counter(DENIALS[1], &[])];
/// PromQL matchers for the series that count calls to a workload, except kubelets' probes.
/// [`View::has`](super::peer::View::has) selects the same series.
pub(super) const ONLY_INBOUND: &[&str] = &[r#"direction!="outbound""#, r#"no_tls_reason!="probe""#];
/// The gRPC statuses UNAUTHENTICATED and PERMISSION_DENIED, and the HTTP statuses with the same meaning.
const REFUSING_GRPC: [&str; 2] = ["16", "7"];
const REFUSING_HTTP: [&str; 2] = ["401", "403"];

/// Microseconds in a millisecond.
const MS: f64 = 1_000.0;

/// Names of the metrics that count calls in one way: by Service or port, or by method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    calls: &'static str,
    /// Name of the metric that counts responses; its label `classification` is `success`, `failure`, `denied`
    /// (by a policy) or `cancelled`.
    responses: &'static str,
    latency_bucket: &'static str,
    /// Calls and connections that policies denied.
    denials: &'static [&'static str],
    /// The unit of the latency buckets' bounds, in microseconds.
    latency_unit_us: f64,
}

/// The metrics that count calls by Service or port, and by the identity of the peer.
pub(crate) const TRAFFIC: Names = Names {
    calls: "request_total",
    responses: "response_total",
    latency_bucket: "response_latency_ms_bucket",
    denials: &DENIALS,
    latency_unit_us: 1_000.0,
};

/// The metrics that count calls by method.
pub(crate) const METHODS: Names = Names {
    calls: "leno_method_requests_total",
    responses: "leno_method_responses_total",
    latency_bucket: "leno_method_duration_seconds_bucket",
    denials: &[],
    latency_unit_us: 1_000_000.0,
};

impl Names {
    /// The calls, with the labels that distinguish mutual TLS from other calls.
    pub(crate) const fn calls(&self) -> Metric {
        Metric::counter(self.calls, &["tls", "client_id"])
    }

    pub(crate) const fn responses(&self) -> Metric {
        Metric::counter(self.responses, &["classification"])
    }

    /// The responses, with the status labels that distinguish refused calls from other calls.
    pub(crate) const fn responses_with_statuses(&self) -> Metric {
        Metric::counter(self.responses, &["classification", "status_code", "grpc_status"])
    }

    pub(crate) const fn latency_bucket(&self) -> Metric {
        Metric::counter(self.latency_bucket, &["le"])
    }
}

/// Raw counts of calls, which can be added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) calls: f64,
    /// Number of calls over mutual TLS.
    pub(crate) secure_calls: f64,
    /// Number of calls that were never sent, so that they were neither encrypted nor in plaintext.
    pub(crate) unsent_calls: f64,
    pub(crate) successes: f64,
    pub(crate) responses: f64,
    /// Number of calls and connections that policies of the called workload denied.
    pub(crate) denied: f64,
    /// Number of responses 401, 403, UNAUTHENTICATED and PERMISSION_DENIED, whether from a policy or from the
    /// application. Valid only for [`TRAFFIC`]: the gRPC statuses of [`METHODS`] are names, not numbers.
    pub(crate) refused: f64,
    /// Maps each bucket's upper bound, in microseconds, to the number of responses that took at most this long.
    pub(crate) latencies: BTreeMap<u64, f64>,
}

/// The bucket of a latency quantile.
struct Bucket {
    low_us: u64,
    /// `None` for the last bucket, which has no upper bound.
    high_us: Option<u64>,
    /// Where the quantile lies among the bucket's responses: 0 at the lower bound, 1 at the upper bound.
    part: f64,
}

/// Figures derived from [`Counts`]. A figure is `None` if there was nothing to measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) calls_per_second: f64,
    /// Share of answered calls that succeeded, 0 to 1.
    pub(crate) success_rate: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

impl Counts {
    /// Returns the counts of the proxies by key. `key` returns the key of a series, or `None` to ignore the series.
    pub(crate) fn by<'a, K: Ord>(
        names: Names,
        proxies: impl Iterator<Item = &'a Growth>,
        key: impl Fn(&Sample) -> Option<K>,
    ) -> BTreeMap<K, Self> {
        let mut counts = BTreeMap::<K, Self>::new();
        for Growth { grown, .. } in proxies {
            let mut add = |name: &str, add: &dyn Fn(&mut Self, &Sample)| {
                for sample in grown.all(name, &[]) {
                    if let Some(key) = key(sample) {
                        add(counts.entry(key).or_default(), sample);
                    }
                }
            };
            add(names.calls, &|counts, sample| {
                counts.calls += sample.value;
                counts.secure_calls += if is_mutual_tls(sample) { sample.value } else { 0.0 };
                counts.unsent_calls += if is_unsent(sample) { sample.value } else { 0.0 };
            });
            add(names.responses, &|counts, sample| {
                let class = sample.label("classification");
                counts.responses += if matches!(class, "cancelled" | "denied") { 0.0 } else { sample.value };
                counts.successes += if class == "success" { sample.value } else { 0.0 };
                counts.refused += if is_refusal(sample) { sample.value } else { 0.0 };
            });
            for denials in names.denials {
                add(denials, &|counts, sample| counts.denied += sample.value);
            }
            add(names.latency_bucket, &|counts, sample| {
                let bound = bound_us(sample.label("le"), names.latency_unit_us);
                *counts.latencies.entry(bound).or_default() += sample.value;
            });
        }
        counts
    }

    /// Returns the counts of all series for which `counts` returns true.
    pub(crate) fn of<'a>(
        names: Names,
        proxies: impl Iterator<Item = &'a Growth>,
        counts: impl Fn(&Sample) -> bool,
    ) -> Self {
        Self::by(names, proxies, |sample| counts(sample).then_some(())).remove(&()).unwrap_or_default()
    }

    /// Adds the counts of other calls.
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.secure_calls += other.secure_calls;
        self.unsent_calls += other.unsent_calls;
        self.successes += other.successes;
        self.responses += other.responses;
        self.denied += other.denied;
        self.refused += other.refused;
        for (bound, count) in &other.latencies {
            *self.latencies.entry(*bound).or_default() += count;
        }
    }

    pub(crate) fn figures(&self, window: Duration) -> Figures {
        Figures {
            calls_per_second: self.calls / window.as_secs_f64(),
            success_rate: share(self.successes, self.responses),
            p50_ms: self.quantile_ms(0.5),
            p99_ms: self.quantile_ms(0.99),
        }
    }

    /// Share of the calls sent that used mutual TLS, 0 to 1.
    pub(crate) fn tls_share(&self) -> Option<f64> {
        share(self.secure_calls, self.calls - self.unsent_calls)
    }

    /// Estimates a latency quantile, in milliseconds, by linear interpolation within a bucket, as Prometheus'
    /// `histogram_quantile` does. If the quantile is above the last finite bound, returns that bound.
    fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        let Bucket { low_us, high_us, part } = self.bucket(quantile)?;
        let high_us = high_us.unwrap_or(low_us);
        Some((low_us as f64 + (high_us - low_us) as f64 * part) / MS)
    }

    /// Returns the bounds, in milliseconds, of the bucket that contains a latency quantile. The last bucket has no
    /// upper bound.
    pub(crate) fn quantile_bounds_ms(&self, quantile: f64) -> Option<(f64, Option<f64>)> {
        let Bucket { low_us, high_us, .. } = self.bucket(quantile)?;
        Some((low_us as f64 / MS, high_us.map(|high_us| high_us as f64 / MS)))
    }

    /// Returns the share of the responses that took longer than `ms`, 0 to 1. `ms` should be the bound of a bucket:
    /// otherwise the next higher bound is used, which makes the share too low.
    pub(crate) fn share_above(&self, ms: f64) -> Option<f64> {
        let total = self.latencies.get(&u64::MAX)?;
        let within = self.latencies.iter().find(|(bound_us, _)| **bound_us as f64 >= ms * MS)?.1;
        share(total - within, *total)
    }

    fn bucket(&self, quantile: f64) -> Option<Bucket> {
        let total = self.latencies.get(&u64::MAX).copied().filter(|total| *total > 0.0)?;
        let rank = quantile * total;
        let (mut low_us, mut below) = (0_u64, 0.0);
        for (&bound_us, &within) in &self.latencies {
            if within >= rank {
                let part = if within > below { (rank - below) / (within - below) } else { 1.0 };
                return Some(Bucket { low_us, high_us: (bound_us != u64::MAX).then_some(bound_us), part });
            }
            (low_us, below) = (bound_us, within);
        }
        None
    }
}

impl Figures {
    /// The column headers of the figures.
    pub(crate) const HEADS: [&'static str; 4] = ["#CALLS/S", "#SUCCESS", "#P50 MS", "#P99 MS"];

    /// The cells of the columns [`Self::HEADS`].
    pub(crate) fn cells(&self) -> [String; 4] {
        [number(Some(self.calls_per_second)), percent(self.success_rate), number(self.p50_ms), number(self.p99_ms)]
    }
}

/// Whether a series counts responses that refuse the call: 401, 403, UNAUTHENTICATED or PERMISSION_DENIED.
fn is_refusal(sample: &Sample) -> bool {
    match sample.label("grpc_status") {
        "" => REFUSING_HTTP.contains(&sample.label("status_code")),
        status => REFUSING_GRPC.contains(&status),
    }
}

/// Returns the sums of a metric by key.
pub(crate) fn sums<'a, K: Ord>(
    name: &str,
    pages: impl Iterator<Item = &'a Scrape>,
    key: impl Fn(&Sample) -> Option<K>,
) -> BTreeMap<K, f64> {
    joined(name, pages, key, |sum, value| sum + value)
}

/// Returns the values of a metric by key. `join` combines two values with the same key.
pub(super) fn joined<'a, K: Ord>(
    name: &str,
    pages: impl Iterator<Item = &'a Scrape>,
    key: impl Fn(&Sample) -> Option<K>,
    join: impl Fn(f64, f64) -> f64,
) -> BTreeMap<K, f64> {
    let mut all = BTreeMap::new();
    for page in pages {
        for sample in page.all(name, &[]) {
            if let Some(key) = key(sample) {
                all.entry(key).and_modify(|value| *value = join(*value, sample.value)).or_insert(sample.value);
            }
        }
    }
    all
}

/// Formats the rate of rare events, such as denials; `-` for `None`. Shows a rate between 0 and 0.1 as `<0.1`, because
/// rounding to 0.0 would hide a single denial.
pub(crate) fn rare(rate: Option<f64>) -> String {
    match rate {
        Some(rate) if rate > 0.0 && rate < 0.1 => "<0.1".to_owned(),
        rate => number(rate),
    }
}

pub(crate) fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Formats a number for a table; `-` for `None`.
pub(crate) fn number(number: Option<f64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.1}"))
}

/// Formats a share, 0 to 1, as a percentage for a table; `-` for `None`. Shows any other share than 0 and 1 as 0.01 %
/// to 99.99 %, because rounding to 0 or 100 % would hide a failure.
pub(crate) fn percent(share: Option<f64>) -> String {
    const ROUNDING_ERROR: f64 = 1e-9;
    let hundredths = |share: f64| match share * 10_000.0 {
        part if share > ROUNDING_ERROR && share < 1.0 - ROUNDING_ERROR => part.round().clamp(1.0, 9_999.0),
        whole => whole,
    };
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", hundredths(share) / 100.0))
}

/// Upper bound of a bucket in microseconds; `u64::MAX` for the bucket without a bound.
fn bound_us(bound: &str, unit_us: f64) -> u64 {
    let bound = bound.parse::<f64>().ok().filter(|bound| bound.is_finite());
    // This cast cannot overflow: a cast from floating point saturates at `u64::MAX`.
    bound.map_or(u64::MAX, |bound| (bound * unit_us).round() as u64)
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
