//! The fields of Fortio's results that `fortio report` shows. Names and units come from `periodic.RunnerResults`,
//! `fhttp.HTTPRunnerResults` and `fgrpc.GRPCRunnerResults` of Fortio 1.68.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The result of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Document {
    pub(super) run_type: String,
    pub(super) labels: String,
    /// Start time, in the format of RFC 3339.
    pub(super) start_time: String,
    /// Calls per second as text, or `max` in a closed loop.
    #[serde(rename = "RequestedQPS")]
    pub(super) requested_qps: String,
    /// A duration of Go, such as `10s`, or a number of calls.
    pub(super) requested_duration: String,
    #[serde(rename = "ActualQPS")]
    pub(super) actual_qps: f64,
    /// Duration in ns.
    pub(super) actual_duration: u64,
    /// Number of Fortio's threads. Each thread has one connection.
    pub(super) num_threads: u32,
    pub(super) version: String,
    pub(super) duration_histogram: Histogram,
    /// The failed calls; absent in results of older versions of Fortio.
    #[serde(default)]
    pub(super) errors_duration_histogram: Option<Histogram>,
    /// Name of the file without extension. Fortio writes it since 1.60.
    #[serde(default, rename = "ID")]
    pub(super) id: String,
    /// Number of calls for each code.
    pub(super) ret_codes: BTreeMap<String, u64>,
    /// The URL of the requests; only in results of HTTP.
    #[serde(default, rename = "URL", skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    /// The address of the server; only in results of gRPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) destination: Option<String>,
}

/// Latencies in seconds.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Histogram {
    pub(super) count: u64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) sum: f64,
    pub(super) avg: f64,
    pub(super) std_dev: f64,
    /// The buckets; `null` if there are no calls.
    pub(super) data: Option<Vec<Bucket>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) percentiles: Vec<Percentile>,
}

/// The calls with latencies from `start` to `end`, in s.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Bucket {
    pub(super) start: f64,
    pub(super) end: f64,
    /// The calls in this bucket and in all buckets before it, in percent of all calls.
    pub(super) percent: f64,
    pub(super) count: u64,
}

/// A percentile: `percentile` percent of all calls took at most this latency.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Percentile {
    /// Percent of the calls, 0 to 100.
    pub(super) percentile: f64,
    /// Latency in s.
    pub(super) value: f64,
}
