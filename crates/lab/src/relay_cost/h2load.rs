//! Runs `h2load` as the load, and parses its report.

use std::path::PathBuf;

use super::backends::Call;
use super::{Options, Stage};
use crate::child::{Child, Launch, find_program, last_line};
use crate::error::{Error, Result};
use crate::experiment::record::TargetKind;
use crate::targets::Target;

/// A warm-up makes this many times fewer calls than a round, but at least one call on each connection.
const WARM_UP_DIVISOR: u64 = 10;

/// The load of each round.
pub(super) struct Load {
    program: PathBuf,
    /// Number of calls on all connections.
    pub(super) calls: u64,
    /// Client connections.
    pub(super) connections: u32,
    /// Calls in flight on each connection.
    pub(super) concurrency: u32,
}

/// h2load's report of one round.
#[derive(Debug, PartialEq)]
struct LoadResult {
    calls_per_second: f64,
    calls_ok: u64,
    data_bytes: u64,
}

impl Load {
    /// Finds `h2load`, and computes the load from the options.
    pub(super) fn new(options: &Options) -> Result<Self> {
        let load = Self {
            program: find_program("h2load")
                .ok_or(Error::MissingProgram { program: "h2load", install: "apt-get install nghttp2-client" })?,
            calls: options.calls.unwrap_or(options.scenario.usual_calls()),
            connections: options.connections.unwrap_or(1),
            concurrency: options.concurrency.unwrap_or(options.scenario.usual_concurrency()),
        };
        if u64::from(load.connections) > load.calls {
            let what = "--connections is more than --calls: each connection needs a call";
            return Err(Error::Usage(what.to_owned()));
        }
        Ok(load)
    }

    /// Makes the calls of a warm-up, without measuring them.
    pub(super) fn warm_up(&self, target: &Target, stage: &mut Stage) -> Result<()> {
        let calls = (self.calls / WARM_UP_DIVISOR).max(u64::from(self.connections));
        self.make(calls, target, stage).map(|_| ())
    }

    /// Makes all calls of a round. Returns the rate of answers per second.
    ///
    /// # Errors
    /// If the HTTP status of a call is not 200, or if messages of its response are missing. A gRPC error has the HTTP
    /// status 200 too; only its missing messages reveal it.
    pub(super) fn run(&self, target: &Target, stage: &mut Stage) -> Result<f64> {
        self.make(self.calls, target, stage)
    }

    fn make(&self, calls: u64, target: &Target, stage: &mut Stage) -> Result<f64> {
        let Stage { foreground, cpus, backends, dir } = stage;
        let Call { path, request, response_bytes } = &backends.call;
        let args = [
            format!("--clients={}", self.connections),
            format!("--max-concurrent-streams={}", self.concurrency),
            format!("--requests={calls}"),
            format!("--data={}", request.display()),
            "--header=content-type: application/grpc".to_owned(),
            "--header=te: trailers".to_owned(),
            format!("http://{}{path}", target.address()),
        ];
        let launch = Launch::new("h2load", &self.program, args).on_cpus(&cpus.others);
        let output = foreground.wait(Child::start(&launch, dir.path())?.output())?;
        let result = parse(&String::from_utf8_lossy(&output)).ok_or_else(|| Error::Unreadable {
            program: "h2load",
            wanted: "result",
            last_line: last_line(&output),
        })?;
        result.ensure_complete(target.kind, calls, *response_bytes)?;
        Ok(result.calls_per_second)
    }
}

impl LoadResult {
    fn ensure_complete(&self, target: TargetKind, calls: u64, response_bytes: u64) -> Result<()> {
        let failed = calls.saturating_sub(self.calls_ok);
        let lost_bytes = (calls * response_bytes).saturating_sub(self.data_bytes);
        if failed == 0 && lost_bytes == 0 {
            return Ok(());
        }
        Err(Error::CallsFailed {
            target: target.to_string(),
            // A gRPC error has the HTTP status 200 but no message, so `calls_ok` includes it. Estimate the number of
            // such errors from the missing bytes.
            failed: failed.max(lost_bytes.div_ceil(response_bytes)),
            calls,
            why: format!("{failed} without status 200, {lost_bytes} bytes of messages missing"),
        })
    }
}

/// Parses the lines `finished in`, `status codes:` and `traffic:` of h2load's report.
fn parse(report: &str) -> Option<LoadResult> {
    let line = |start: &str| report.lines().find_map(|line| line.strip_prefix(start));
    let (_, rate) = line("finished in ")?.split_once(", ")?;
    let calls_per_second = rate.split_once(" req/s")?.0.parse().ok()?;
    let calls_ok = line("status codes: ")?.split_once(" 2xx")?.0.parse().ok()?;
    let data = line("traffic: ")?.strip_suffix(") data")?;
    let data_bytes = data.rsplit_once('(')?.1.parse().ok()?;
    Some(LoadResult { calls_per_second, calls_ok, data_bytes })
}

#[cfg(test)]
#[path = "h2load_tests.rs"]
mod tests;
