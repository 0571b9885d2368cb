//! The records of an experiment: `lab.json` describes the experiment and the machine, and `runs.jsonl` has one line for
//! each run. A report needs only these two files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::condition::{CallPolicy, Condition, Fault};
pub use super::description::{
    Ceiling, Cluster, ClusterNode, Experiment, GraphShape, Machine, Placement, Skipped, Version, Workload,
};
pub(crate) use super::findings::SECOND_PHASE;
pub use super::findings::{Capacity, ControlPlane, Footprint, Restarts, Rollout, SlowMethod};
pub use crate::targets::kind::TargetKind;

/// A scenario: what the load and the backends do during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// One backend answers every call later than the others, by the skew.
    SlowPod,
    /// The same with 1, 2, 4 and 8 client connections.
    Connections,
    /// One backend fails every call at once.
    FastFail,
    /// One backend is slow and then recovers: how long until it has its fair share?
    Recover,
    /// 10,000 connections make a burst of calls and close: how much memory remains?
    Memory,
    /// Arbitrary bytes flow up for half of the time, and down for the other half.
    Tcp,
    /// Clients connect with mutual TLS again and again, without resumption.
    Handshakes,
    /// HTTP/1.1 requests at several rates, each after a warm-up at half the rate.
    Ladder,
    /// The highest rate at which fewer than 0.1 % of the calls fail.
    Capacity,
    /// Calls at a steady rate over 10,000 client connections.
    Crowd,
    /// Memory of the proxies: idle, under a load, with idle connections, and after a burst on them.
    Footprint,
    /// The load begins when a proxy starts: how long does it take until the latency is steady?
    Steady,
    /// The backends restart one after the other, first gracefully and then abruptly.
    Rollout,
    /// Long bidirectional streams.
    Streams,
    /// A fast and a slow method of one service.
    Methods,
    /// A tree of services that call each other, each behind proxies of its own.
    Graph,
    /// Servers that fail calls, one after the other or in a chain, and proxies that retry them.
    RetryStorm,
    /// Two servers and proxies that hedge. One server or both are slow at random.
    Tail,
}

/// The protocol of clients and backends.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Unary gRPC calls: many at a time on each connection.
    #[default]
    Grpc,
    /// HTTP/1.1 requests on persistent connections, one at a time on each.
    Http1,
    /// HTTP/2 requests without gRPC: many at a time on each connection.
    Http2,
    /// Arbitrary bytes.
    #[value(skip)]
    Tcp,
}

/// One run: one target under one load for some seconds. A line of `runs.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub scenario: Scenario,
    pub target: TargetKind,
    /// Additional latency of one backend, in ms.
    pub skew_ms: u32,
    /// The random faults of the servers, and what the proxies may do about them.
    #[serde(default, skip_serializing_if = "Condition::is_usual")]
    pub condition: Condition,
    /// Client connections.
    pub connections: u32,
    /// Calls in flight on all connections together: a constant number in a closed loop, a maximum in an open loop. 0 if
    /// there are no calls.
    pub concurrency: u32,
    /// Calls per second of an open loop; `None` in a closed loop, in which each answer triggers the next call.
    pub rate_per_s: Option<u32>,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Calls answered with OK.
    pub calls: u64,
    /// Calls that were not answered with OK. In the scenario `footprint`, also the failed calls of the burst or of the
    /// second load.
    pub errors: u64,
    /// Calls that the servers received, with all retries and hedges, as the servers count them. In a chain, only the
    /// last servers count. `None` in the scenarios without conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_calls: Option<u64>,
    /// The error of the first failed call.
    pub first_error: Option<String>,
    /// The calls that were not answered with OK, by class, such as `gRPC UNAVAILABLE`, `HTTP 503`, `connection` or
    /// `time-out`; at most 65 classes. In the scenario `footprint`, the failed calls of the burst or of the second load
    /// have a class of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub error_classes: BTreeMap<String, u64>,
    /// Calls answered with OK per second.
    pub rps: f64,
    /// Latency of the shortest call. `None` in the scenarios without latencies, and in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ms: Option<f64>,
    /// Mean of all latencies; `None` in the same cases as `min_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// Standard deviation of the latencies from their mean; `None` in the same cases as `min_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub std_dev_ms: Option<f64>,
    /// Half of the calls took at most this time. In an open loop, a call's time begins at the scheduled time of
    /// sending.
    pub p50_ms: f64,
    /// 90 of 100 calls took at most this time, in ms.
    pub p90_ms: f64,
    /// 99 of 100 calls took at most this time, in ms.
    pub p99_ms: f64,
    /// 999 of 1,000 calls took at most this time, in ms.
    pub p999_ms: f64,
    /// Latency of the longest call.
    pub max_ms: f64,
    /// The latency curve, ascending by quantile.
    pub curve: Vec<CurvePoint>,
    /// Fraction of the measured calls that reached the slow or failing backend, 0 to 1. At a skew of 0, no backend is
    /// slow: the fraction then belongs to the backend that would be slow at another skew.
    pub slow_share: f64,
    /// CPU time of the proxy for each call that was sent, in us: user and kernel mode, all threads. In a mesh, the CPU
    /// time of all proxies together. In the scenario `methods`, the CPU time divided by the calls of both methods.
    /// `None` without a proxy.
    pub proxy_cpu_us_per_call: Option<f64>,
    /// The part of `proxy_cpu_us_per_call` that a mesh's proxies in front of the backends used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_proxy_cpu_us_per_call: Option<f64>,
    /// Peak of the proxy's resident memory while calls were counted, in bytes. In a mesh, this is the peak of the proxy
    /// beside the client.
    pub proxy_rss_peak_bytes: Option<u64>,
    /// Peak of the resident memory of the largest of a mesh's proxies in front of the backends, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_proxy_rss_peak_bytes: Option<u64>,
    /// Resident memory of the proxy after the calls ended, in bytes. In the scenario `memory`, 10 s after the clients
    /// have disconnected.
    pub proxy_rss_after_bytes: Option<u64>,
    /// CPU time that programs outside the experiment used, in CPUs: 0.1 is a tenth of one CPU.
    pub foreign_cpu: f64,
    /// Whether the figures may describe the lab rather than the target. True if the calls per second are at least 80 %
    /// of the load's maximum without a proxy. In the scenario `capacity`, also true if the load sent over 1 % of the
    /// calls late.
    pub at_ceiling: bool,
    /// Calls of an open loop that the load generator sent over 1 ms late, because it could not run in time.
    #[serde(default)]
    pub late: u64,
    /// Longest delay of a call, in ms, that the load generator itself caused, because it could not run in time.
    #[serde(default)]
    pub held_up_ms: f64,
    /// Scenario `recover`: seconds from recovery until the backend had 80 % of its fair share; `None` if it never had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_after_s: Option<f64>,
    /// Scenario `tcp`: the throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// Scenario `memory`: resident memory of the proxy before the connections opened, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_rss_before_bytes: Option<u64>,
    /// Seconds from the start of the load, warm-up included, until the latency was steady; `None` if it never was, or
    /// if the run is too short to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_after_s: Option<f64>,
    /// The memory of all proxies together; `None` without a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub footprint: Option<Footprint>,
    /// Scenario `capacity`: the result of the search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Scenario `rollout`: the calls that succeeded and that failed during the restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// Scenario `streams`: messages per second that each backend answered, in the order of the backends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages_per_s: Vec<f64>,
    /// Scenario `methods`: the calls of the slow method. The run's other figures describe the fast method, except for
    /// CPU time and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_method: Option<SlowMethod>,
    /// In a cluster: the mesh's control plane. `None` without a mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ControlPlane>,
}

/// Throughput of bytes through a target, and the CPU time of its proxies. Without a proxy, the CPU times are `None`.
/// 1 MB is 10^6 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// MB per second from the client.
    pub up_mb_per_s: f64,
    /// MB per second to the client.
    pub down_mb_per_s: f64,
    /// CPU time for each MB from the client, in us.
    pub up_cpu_us_per_mb: Option<f64>,
    /// CPU time for each MB to the client, in us.
    pub down_cpu_us_per_mb: Option<f64>,
}

/// One point of a latency curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Fraction of the calls, 0 to 1.
    pub quantile: f64,
    /// Longest latency of this fraction of the calls, in ms.
    pub ms: f64,
}
