//! Progress on the terminal during an experiment: a line for each run, and a bar.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::record::{Capacity, Footprint, Restarts, Rollout, Run, Scenario, TargetKind, Throughput};
use super::schedule::Turn;
use crate::error::{Result, io as io_error};
use crate::units::mb;

/// The line of a run mentions other programs if they used at least this many CPUs during the run.
const NOTABLE_CPU: f64 = 0.1;
const STYLE: &str = "  {bar:30} {pos}/{len} runs  {msg}";

/// The bar and the lines above it.
pub(super) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    /// Expected duration of a run, until the first run has been measured.
    guess: Duration,
}

impl Progress {
    /// Progress for `runs` runs.
    pub(super) fn new(runs: usize, guess: Duration) -> Self {
        let bar = ProgressBar::new(runs as u64);
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style);
        }
        Self { bar, begun: Instant::now(), guess }
    }

    /// Shows the current run.
    pub(super) fn begin(&self, turn: &Turn) {
        let left = HumanDuration(self.time_left());
        let (target, case) = (turn.target, turn.case);
        let at = case.rate_per_s.map_or(format!("{} ms", case.skew_ms), |rate| format!("{rate} calls/s"));
        let at = if case.condition.is_usual() { at } else { format!("{at} ({})", case.condition) };
        self.bar.set_message(format!("now {target} at {at}, about {left} left"));
    }

    /// Shows the result of a run in one line.
    pub(super) fn end(&self, run: &Run) -> Result<()> {
        self.bar.inc(1);
        let (number, of) = (self.bar.position(), self.bar.length().unwrap_or_default());
        self.say(&format!("{number:>4}/{of}  {}", line(run)))
    }

    /// Advances the bar past a run that is skipped.
    pub(super) fn pass(&self) {
        self.bar.inc(1);
    }

    /// Skips a run whose target has failed, and says why.
    pub(super) fn give_up(&self, target: TargetKind, why: &str) -> Result<()> {
        self.pass();
        self.say(&format!("{target}: {why}"))
    }

    /// Writes a line above the bar.
    pub(super) fn say(&self, text: &str) -> Result<()> {
        self.bar.suspend(|| writeln!(io::stdout(), "{text}")).map_err(io_error("writing to the terminal"))
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn time_left(&self) -> Duration {
        let done = u32::try_from(self.bar.position()).unwrap_or(u32::MAX);
        let left = u32::try_from(self.bar.length().unwrap_or_default()).unwrap_or(u32::MAX).saturating_sub(done);
        self.begun.elapsed().checked_div(done).unwrap_or(self.guess) * left
    }
}

/// Returns one line with the main figures of a run.
fn line(run: &Run) -> String {
    let Run { target, skew_ms, connections, repeat, p50_ms, p99_ms, .. } = run;
    let mut words = vec![format!("repeat {repeat:<3} {target:12} {connections:>2} conn")];
    if run.scenario == Scenario::Memory {
        let shown = |bytes: Option<u64>| mb(bytes.unwrap_or_default());
        let [before, peak, after] =
            [run.proxy_rss_before_bytes, run.proxy_rss_peak_bytes, run.proxy_rss_after_bytes].map(shown);
        words.push(format!("{before:.1} MB before, {peak:.1} MB at most, {after:.1} MB after"));
    } else if let Some(Throughput { up_mb_per_s, down_mb_per_s, up_cpu_us_per_mb, down_cpu_us_per_mb }) = run.throughput
    {
        words.push(format!("{up_mb_per_s:>7.0} MB/s up  {down_mb_per_s:>7.0} MB/s down"));
        let cpu = up_cpu_us_per_mb.zip(down_cpu_us_per_mb);
        words.extend(cpu.map(|(up, down)| format!("{up:.0} and {down:.0} us CPU per MB")));
    } else if run.scenario == Scenario::Handshakes {
        words.push(format!("{:>8.0} handshakes/s  p50 {p50_ms:>8.2} ms  p99 {p99_ms:>8.2} ms", run.rps));
    } else if let Some(Capacity { rate_per_s, found_per_s, trials, confirmations }) = run.capacity {
        let rate = rate_per_s.map_or("no rate".to_owned(), |rate| format!("{rate} calls/s"));
        words
            .push(format!("sustains {rate} (search: {found_per_s} in {trials} trials; {confirmations} confirmations)"));
        words.push(format!("p50 {p50_ms:>8.2} ms  p99 {p99_ms:>8.2} ms"));
    } else if let (Scenario::Ladder | Scenario::Crowd | Scenario::Footprint | Scenario::Graph, Some(rate)) =
        (run.scenario, run.rate_per_s)
    {
        words.push(format!("{:>7.0} of {rate} calls/s  p50 {p50_ms:>8.2} ms  p99 {p99_ms:>8.2} ms", run.rps));
        words.extend(run.footprint.map(|Footprint { idle_bytes, loaded_bytes, .. }| {
            format!("{:.1} MB idle, {:.1} MB loaded", mb(idle_bytes), mb(loaded_bytes))
        }));
    } else if let Some(Rollout { graceful, abrupt }) = run.rollout {
        let lost = |Restarts { restarts, calls, lost }| format!("{lost} of {} lost in {restarts}", calls + lost);
        words.push(format!("{} graceful restarts, {} abrupt ones", lost(graceful), lost(abrupt)));
    } else if run.scenario == Scenario::Steady {
        let when = run.steady_after_s.map_or("not steady".to_owned(), |s| format!("steady after {s} s"));
        words.push(format!("{when}  p50 {p50_ms:>8.2} ms  p99 {p99_ms:>8.2} ms"));
    } else if let Some(server_calls) = run.server_calls.filter(|_| run.scenario.has_conditions()) {
        let Run { condition, calls, errors, p999_ms, .. } = run;
        words
            .push(format!("{condition}: {calls} of {} calls succeeded, {server_calls} at the servers", calls + errors));
        if *calls > 0 {
            words.push(format!("p50 {p50_ms:>8.2} ms  p99 {p99_ms:>8.2} ms  p99.9 {p999_ms:>8.2} ms"));
        }
    } else if !run.messages_per_s.is_empty() {
        let rates: Vec<String> = run.messages_per_s.iter().map(|rate| format!("{rate:.0}")).collect();
        words.push(format!("messages/s by backend: {}", rates.join(", ")));
    } else {
        words.push(format!("{skew_ms:>3} ms {:>8.0} calls/s", run.rps));
        words.push(format!("p50 {p50_ms:>8.2} ms  p99 {p99_ms:>8.2} ms"));
        words.push(format!("{} {:>6.2} %", troubled(run.scenario), run.slow_share * 100.0));
    }
    if !run.condition.is_usual() && !run.scenario.has_conditions() {
        words.push(run.condition.to_string());
    }
    words.extend(
        run.slow_method.map(|slow| format!("slow method p50 {:.2} ms  p99 {:.2} ms", slow.p50_ms, slow.p99_ms)),
    );
    words.extend(run.proxy_cpu_us_per_call.map(|us| format!("{us:.1} us CPU")));
    if run.scenario == Scenario::Recover && target.is_proxy() {
        let when = run.recovered_after_s.map_or("never".to_owned(), |s| format!("{s:.1} s"));
        words.push(format!("fair share after {when}"));
    }
    if run.errors > 0 {
        let classes = run.error_classes.iter().map(|(class, count)| format!("{count} {class}"));
        let classes = classes.collect::<Vec<_>>().join(", ");
        words.push(if classes.is_empty() { format!("{} errors", run.errors) } else { format!("errors: {classes}") });
    }
    if run.late > 0 {
        words.push(format!("{} sent late", run.late));
    }
    if run.foreign_cpu >= NOTABLE_CPU {
        words.push(format!("{:.1} CPU taken by others", run.foreign_cpu));
    }
    if run.at_ceiling {
        words.push("near the ceiling".to_owned());
    }
    words.join("  ")
}

fn troubled(scenario: Scenario) -> &'static str {
    if scenario == Scenario::FastFail { "to the failing" } else { "to the slow" }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
