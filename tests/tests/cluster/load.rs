//! Calls from inside a Pod, by ghz.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Child;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jiff::Timestamp;
use leno_tests::kubernetes::Cluster;
use serde_json::Value;

/// The method that the load calls. [`PAYLOAD`] is its request.
pub(super) const METHOD: &str = "leno.echo.v1.Echo/Unary";
pub(super) const PAYLOAD: &str = r#"{"payload":"aGVsbG8="}"#;

/// kubectl's arguments to run a program in the client's Pod.
pub(super) fn in_client<'a>(program: &[&'a str]) -> Vec<&'a str> {
    [&["-n", "shop", "exec", "deploy/web", "-c", "web", "--"], program].concat()
}

/// A running ghz in the client's Pod. It ends by itself.
pub(super) struct Load {
    kubectl: Child,
    /// The thread that reads kubectl's output while the load runs. Otherwise kubectl would block, and lose its
    /// connection.
    printed: JoinHandle<String>,
}

/// The result of a load.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) calls: u64,
    /// For each status, the number of calls.
    pub(super) statuses: Value,
    /// Median, over all half seconds, of the 99th percentile of the call times.
    pub(super) p99: Duration,
    /// The longest time of a call.
    pub(super) slowest: Duration,
    /// Start times of the calls that failed, in order.
    failures: Vec<Timestamp>,
}

/// Calls that failed.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) calls: usize,
    /// Time from the start of the first failed call to the start of the last failed call.
    pub(super) within: Duration,
}

impl Load {
    /// Calls `echo` of the namespace shop from the Deployment web, 200 times a second over 2 connections.
    pub(super) fn start(cluster: &Cluster, seconds: u32) -> Self {
        Self::at_rate(cluster, seconds, 200)
    }

    /// Calls `echo` of the namespace shop from the Deployment web, `per_second` times a second over 2 connections.
    pub(super) fn at_rate(cluster: &Cluster, seconds: u32, per_second: u32) -> Self {
        Self::to(cluster, "echo", seconds, per_second)
    }

    /// Calls `service` of the namespace shop from the Deployment web, `per_second` times a second over 2 connections.
    pub(super) fn to(cluster: &Cluster, service: &str, seconds: u32, per_second: u32) -> Self {
        let (duration, rate) = (format!("{seconds}s"), per_second.to_string());
        let destination = format!("{service}:50051");
        let what = [
            "/ghz",
            "--insecure",
            "--call",
            METHOD,
            "-d",
            PAYLOAD,
            "-z",
            &duration,
            "--duration-stop=wait",
            "-c",
            "20",
            "--connections",
            "2",
            "--rps",
            &rate,
            "-O",
            "json",
            &destination,
        ];
        let mut kubectl = cluster.start_kubectl(&in_client(&what));
        let mut stdout = kubectl.stdout.take().expect("a pipe");
        let printed = thread::spawn(move || {
            let mut printed = String::new();
            stdout.read_to_string(&mut printed).expect("ghz prints UTF-8");
            printed
        });
        Self { kubectl, printed }
    }

    /// Kills kubectl and drops its output.
    pub(super) fn abandon(mut self) {
        self.kubectl.kill().ok();
        self.kubectl.wait().expect("it is ours");
    }

    /// Waits for the load's end, and returns its result.
    pub(super) fn end(self) -> Report {
        let printed = self.printed.join().expect("it is read");
        let output = self.kubectl.wait_with_output().expect("kubectl ends");
        let report: Value = serde_json::from_str(&printed)
            .unwrap_or_else(|error| panic!("{error}: {printed}{}", String::from_utf8_lossy(&output.stderr)));
        Report {
            calls: report["count"].as_u64().unwrap_or_default(),
            statuses: report["statusCodeDistribution"].clone(),
            p99: p99_of_the_median_half_second(&report),
            slowest: Duration::from_nanos(report["slowest"].as_u64().unwrap_or_default()),
            failures: failures(&report),
        }
    }
}

/// Returns the median of the 99th percentiles of all half seconds. So a stall of the machine while a Pod starts does
/// not affect the result.
fn p99_of_the_median_half_second(report: &Value) -> Duration {
    let mut halves: BTreeMap<(String, bool), Vec<u64>> = BTreeMap::new();
    for call in report["details"].as_array().expect("ghz tells of each call") {
        // ghz writes timestamps as 2026-01-01T12:00:00.75Z. It omits a fraction of 0.
        let (second, rest) = call["timestamp"].as_str().and_then(|time| time.split_at_checked(19)).expect("a time");
        let is_second_half = rest.strip_prefix('.').is_some_and(|fraction| fraction >= "5");
        let latency = call["latency"].as_u64().expect("nanoseconds");
        halves.entry((second.to_owned(), is_second_half)).or_default().push(latency);
    }
    let p99 = |mut half: Vec<u64>| {
        half.sort_unstable();
        half[half.len() * 99 / 100]
    };
    let mut p99s: Vec<u64> = halves.into_values().map(p99).collect();
    p99s.sort_unstable();
    Duration::from_nanos(p99s[p99s.len() / 2])
}

fn failures(report: &Value) -> Vec<Timestamp> {
    let calls = report["details"].as_array().expect("ghz tells of each call").iter();
    let failed = calls.filter(|call| call["status"] != "OK");
    let began = |call: &Value| call["timestamp"].as_str().and_then(|time| time.parse().ok()).expect("a time");
    let mut began: Vec<Timestamp> = failed.map(began).collect();
    began.sort_unstable();
    began
}

impl Report {
    /// Returns the number of failed calls, and the time from the first to the last of them.
    pub(super) fn lost(&self) -> Lost {
        let ends = self.failures.first().zip(self.failures.last());
        let within = ends.map_or(Duration::ZERO, |(first, last)| last.duration_since(*first).unsigned_abs());
        Lost { calls: self.failures.len(), within }
    }

    /// Asserts that there were at least `at_least` calls, and that no call failed.
    pub(super) fn assert_well(&self, at_least: u64) {
        assert!(self.calls >= at_least, "{self:?}");
        assert_eq!(self.statuses, serde_json::json!({ "OK": self.calls }), "{self:?}");
    }
}
