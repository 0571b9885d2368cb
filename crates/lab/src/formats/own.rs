//! Reads the lab's own directories.

use std::path::Path;

use super::measured::{Form, Measured, percent};
use super::name;
use crate::error::Result;
use crate::experiment::record::{Experiment, Run};
use crate::report;

/// Reads the runs of a directory that `leno lab run` wrote, in the report's order. Runs of scenarios without latencies
/// are left out.
pub(super) fn read(dir: &Path) -> Result<Vec<Measured>> {
    let recorded = report::read(dir)?;
    let runs = report::ordered(&recorded).into_iter().filter(|run| has_latencies(run));
    Ok(runs.map(|run| measured(&recorded.experiment, run)).collect())
}

/// Returns whether the run has latencies of calls. Runs that move bytes or make bursts have none.
pub(super) fn has_latencies(run: &Run) -> bool {
    run.calls > 0 && !run.curve.is_empty()
}

fn measured(experiment: &Experiment, run: &Run) -> Measured {
    let calls = run.calls + run.errors;
    Measured {
        form: Form::Leno,
        label: name::label(run),
        p50_ms: Some(run.p50_ms),
        p90_ms: Some(run.p90_ms),
        p99_ms: Some(run.p99_ms),
        p999_ms: Some(run.p999_ms),
        mean_ms: run.mean_ms,
        rate_per_s: Some(calls as f64 / seconds(experiment, run)),
        errors_percent: percent(run.errors, calls),
    }
}

/// The measured time of a run, in s. In some scenarios, it differs from the experiment's `duration_s`.
pub(super) fn seconds(experiment: &Experiment, run: &Run) -> f64 {
    let by_rate = run.calls as f64 / run.rps;
    if by_rate.is_finite() && by_rate > 0.0 { by_rate } else { f64::from(experiment.duration_s) }
}
