//! What an experiment leaves behind: `lab.json` says what was run where, and `runs.jsonl` has one line
//! for each run. Reports are made from these two files alone.

use serde::{Deserialize, Serialize};

/// What happens to the backends while calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// One backend answers every call later than the others by the skew.
    SlowPod,
    /// The same with 1, 2, 4 and 8 client connections.
    Connections,
    /// One backend fails every call at once.
    FastFail,
    /// One backend is slow and then well again: how long until it has its fair share?
    Recover,
    /// 10,000 connections make a burst of calls and leave: what memory stays?
    Memory,
    /// Bytes without any meaning go up for half of the time, and down for the other half.
    Tcp,
    /// Clients connect with mutual TLS again and again, each time from nothing.
    Handshakes,
}

/// What the calls go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// No proxy: every connection goes to one backend, chosen at random for each run.
    Direct,
    /// Netfilter rules as kube-proxy writes them: the kernel chooses a backend for each connection.
    L4,
    /// Leno's proxy with one worker.
    Leno,
    /// HAProxy with one thread, HTTP/2 on both sides, leastconn.
    Haproxy,
    /// Envoy with one worker, HTTP/2 on both sides, LEAST_REQUEST.
    Envoy,
    /// Leno's proxy beside the client and in front of each backend, mutual TLS between them.
    LenoMesh,
    /// HAProxy beside the client and in front of each backend, mutual TLS between them.
    HaproxyMesh,
    /// Envoy beside the client and in front of each backend, mutual TLS between them.
    EnvoyMesh,
    /// A TLS tunnel on rustls without a proxy around it: bytes, and no calls.
    Tunnel,
}

/// What clients speak, and the backends.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Unary gRPC calls: many at a time on each connection.
    #[default]
    Grpc,
    /// Requests of HTTP/1.1 on connections that stay open, one at a time on each.
    Http1,
    /// Bytes without any meaning.
    #[value(skip)]
    Tcp,
}

/// One run: one target under one load for some seconds. A line of `runs.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What happened to the backends.
    pub scenario: Scenario,
    /// What the calls went through.
    pub target: TargetKind,
    /// How much later one backend answered than the others, in ms.
    pub skew_ms: u32,
    /// Client connections.
    pub connections: u32,
    /// Calls in flight, of all connections together: kept so in a closed loop, at most so in an open one. 0 where no
    /// calls are made.
    pub concurrency: u32,
    /// Calls per second of an open loop; none in a closed one, which calls as fast as it is answered.
    pub rate_per_s: Option<u32>,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Calls answered with OK.
    pub calls: u64,
    /// Calls that were not.
    pub errors: u64,
    /// Why the first of them failed.
    pub first_error: Option<String>,
    /// Calls answered with OK per second.
    pub rps: f64,
    /// Half of the calls took at most this; in an open loop from the intended time of sending.
    pub p50_ms: f64,
    /// 90 of 100 calls took at most this.
    pub p90_ms: f64,
    /// 99 of 100 calls took at most this.
    pub p99_ms: f64,
    /// 999 of 1,000 calls took at most this.
    pub p999_ms: f64,
    /// The longest call.
    pub max_ms: f64,
    /// The latency curve, ascending by quantile.
    pub curve: Vec<CurvePoint>,
    /// The part of the measured calls that went to the slow or failing backend, 0 to 1. While no backend is
    /// slow: the part of the one that would be.
    pub slow_share: f64,
    /// CPU time of the proxy for each call in us, user and kernel mode, all threads; in a mesh of all its proxies
    /// together; none without a proxy.
    pub proxy_cpu_us_per_call: Option<f64>,
    /// The part of it that a mesh's proxies in front of the backends used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_proxy_cpu_us_per_call: Option<f64>,
    /// The most memory of the proxy that was resident while calls were counted, in bytes; in a mesh of the one beside the
    /// client.
    pub proxy_rss_peak_bytes: Option<u64>,
    /// The same of the largest of a mesh's proxies in front of the backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_proxy_rss_peak_bytes: Option<u64>,
    /// Resident memory of the proxy after the calls ended, in bytes; in the scenario `memory`, 10 s after.
    pub proxy_rss_after_bytes: Option<u64>,
    /// CPU time that programs outside the experiment used, in CPUs: 0.1 is a tenth of one CPU.
    pub foreign_cpu: f64,
    /// Whether the calls per second are within 20 % of what the load reaches without any proxy, so that they
    /// say more of the lab than of the target.
    pub at_ceiling: bool,
    /// Calls of an open loop that were sent over 1 ms late, because the load itself could not run.
    #[serde(default)]
    pub late: u64,
    /// The longest time by which a call was sent late for that reason, in ms.
    #[serde(default)]
    pub held_up_ms: f64,
    /// Scenario `recover`: seconds from recovery until the backend had 80 % of its fair share; none when it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_after_s: Option<f64>,
    /// Scenario `tcp`: what went through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// Scenario `memory`: resident memory of the proxy before the connections came, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_rss_before_bytes: Option<u64>,
}

/// How fast bytes went through a target, 10^6 bytes to the MB. CPU time is that of the proxies; none without any.
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
    /// The part of the calls, 0 to 1.
    pub quantile: f64,
    /// What they took at most, in ms.
    pub ms: f64,
}

/// What was run, where, and what could not be. The file `lab.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// What happened to the backends.
    pub scenario: Scenario,
    /// What clients and backends spoke.
    #[serde(default)]
    pub protocol: Protocol,
    /// The command line, to repeat it.
    pub command: String,
    /// When it began, as RFC 3339 in UTC.
    pub started: String,
    /// Measured seconds of each run.
    pub duration_s: u32,
    /// Seconds of each run before anything is counted.
    pub warm_up_s: u32,
    /// Number of backends.
    pub backends: u32,
    /// The machine.
    pub machine: Machine,
    /// The targets that were measured, in the order asked for.
    pub targets: Vec<TargetKind>,
    /// Version line of each target's program, by the target.
    pub versions: Vec<Version>,
    /// The targets that were not measured.
    pub skipped: Vec<Skipped>,
    /// What the load reaches without any proxy.
    pub ceiling: Ceiling,
}

/// The machine that an experiment ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Number of CPUs.
    pub cpus: u32,
    /// The CPU's name, as the kernel says it.
    pub cpu_model: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
}

/// The version of a target's program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The target.
    pub target: TargetKind,
    /// What the program says of itself, in one line.
    pub version: String,
}

/// A target that was not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The target.
    pub target: TargetKind,
    /// Why, and how to mend it, in one line.
    pub why: String,
}

/// What the load reaches without any proxy; zero where no calls are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Calls per second that the load, on one CPU of its own, makes of a bare backend on another.
    pub load_rps: f64,
    /// Calls per second that the load makes directly of all backends of the experiment, each connection's
    /// calls spread evenly over them: the most that any proxy could reach here.
    pub backends_rps: f64,
}
