//! Calls from inside a Pod, by ghz.

use std::process::Child;
use std::time::Duration;

use leno_tests::kubernetes::Cluster;
use serde_json::Value;

/// What is called, and with what.
pub(super) const METHOD: &str = "leno.echo.v1.Echo/Unary";
pub(super) const PAYLOAD: &str = r#"{"payload":"aGVsbG8="}"#;

/// kubectl's arguments to run a program in the client's Pod.
pub(super) fn in_client<'a>(program: &[&'a str]) -> Vec<&'a str> {
    [&["-n", "shop", "exec", "deploy/web", "-c", "web", "--"], program].concat()
}

/// A load that runs; it ends by itself.
pub(super) struct Load(Child);

/// What came of a load.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) calls: u64,
    /// Calls by their status.
    pub(super) statuses: Value,
    /// The time that 99 of 100 calls did not exceed.
    pub(super) p99: Duration,
}

impl Load {
    /// Calls `echo` of the namespace shop from the Deployment web, 200 times a second over 2 connections.
    pub(super) fn start(cluster: &Cluster, seconds: u32) -> Self {
        Self::at_rate(cluster, seconds, 200)
    }

    /// The same, so many times a second.
    pub(super) fn at_rate(cluster: &Cluster, seconds: u32, per_second: u32) -> Self {
        let (duration, rate) = (format!("{seconds}s"), per_second.to_string());
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
            "echo:50051",
        ];
        Self(cluster.start_kubectl(&in_client(&what)))
    }

    /// Stops listening to it.
    pub(super) fn abandon(mut self) {
        self.0.kill().ok();
        self.0.wait().expect("it is ours");
    }

    /// Waits for its end.
    pub(super) fn end(self) -> Report {
        let output = self.0.wait_with_output().expect("kubectl ends");
        let printed = String::from_utf8_lossy(&output.stdout);
        let report: Value = serde_json::from_str(&printed)
            .unwrap_or_else(|error| panic!("{error}: {printed}{}", String::from_utf8_lossy(&output.stderr)));
        Report {
            calls: report["count"].as_u64().unwrap_or_default(),
            statuses: report["statusCodeDistribution"].clone(),
            p99: Duration::from_nanos(percentile(&report, 99)),
        }
    }
}

/// In nanoseconds.
fn percentile(report: &Value, wanted: u64) -> u64 {
    let rows = report["latencyDistribution"].as_array().into_iter().flatten();
    let row = rows.into_iter().find(|row| row["percentage"] == wanted);
    row.and_then(|row| row["latency"].as_u64()).unwrap_or(u64::MAX)
}

impl Report {
    /// That there were calls, and none failed.
    pub(super) fn assert_well(&self, at_least: u64) {
        assert!(self.calls >= at_least, "{self:?}");
        assert_eq!(self.statuses, serde_json::json!({ "OK": self.calls }), "{self:?}");
    }
}
