//! The scenario `capacity`: searches in short trials for the highest rate that a target sustains, and confirms this
//! rate in separate runs.

use std::time::{Duration, Instant};

use super::cases::Case;
use super::measure::Stage;
use super::record::Run;
use super::schedule::Turn;
use super::search::Search;
use crate::backends::Trouble;
use crate::error::Result;
use crate::load::{Arrivals, Load, Snapshot};

/// Limit of the fraction of failed calls. At a sustained rate, the fraction is below it.
const ERRORS_MAX: f64 = 0.001;
/// Largest growth of the backlog at a sustained rate, as a fraction of the calls that are due in the second half of a
/// trial. A target that cannot keep up first queues calls, and fails them only later, after the end of a short trial.
const BACKLOG_MAX: f64 = 0.02;
/// Maximum fraction of the calls that the load generator sends over 1 ms late, because it could not run in time. Above
/// this fraction, the load generator's machine may limit the rate rather than the target.
const LATE_MAX: f64 = 0.01;
/// Warm-up of a trial.
const TRIAL_WARM_UP: Duration = Duration::from_secs(1);
/// Measured time of a trial.
const TRIAL: Duration = Duration::from_secs(3);
/// Maximum number of runs that confirm a rate that the search found.
const CONFIRMATIONS_MAX: u32 = 5;
/// The rate of a confirmation, as a fraction of the rate of the previous confirmation, which failed.
const STEP_DOWN: f64 = 0.95;

/// The conditions under which a rate counts as sustained.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conditions {
    /// Highest p99, in ms; `None` for no limit.
    pub(super) p99_ms: Option<f64>,
}

impl Conditions {
    /// Returns whether calls with these results meet the conditions.
    pub(super) fn are_met(self, calls: u64, errors: u64, p99_ms: f64) -> bool {
        let few_errors = (errors as f64) < ERRORS_MAX * (calls + errors) as f64;
        few_errors && self.p99_ms.is_none_or(|limit| p99_ms <= limit)
    }
}

/// Returns the rate of the next confirmation: the rate that the search found, reduced by the factor [`STEP_DOWN`] for
/// each of the `failed` confirmations so far.
pub(super) fn rate_to_confirm(found_per_s: u32, failed: u32) -> u32 {
    let rate = f64::from(found_per_s) * STEP_DOWN.powf(failed.into());
    (rate as u32).max(1)
}

impl Stage<'_> {
    /// Searches in short trials, all with the same target. Returns the rate, in calls per second, and the number of
    /// trials; the rate is 0 if even the lowest rate fails.
    ///
    /// # Errors
    /// If a program ends early, or the target refuses connections. Failed calls are counted instead.
    pub(super) fn search_capacity(&mut self, turn: &Turn, first_per_s: u32) -> Result<(u32, u32)> {
        self.backends.set(turn.troubled, Trouble::Slow(turn.case.skew_ms))?;
        let mut search = Search::from(first_per_s);
        let mut trials = 0;
        while let Some(rate) = search.next() {
            search.note(rate, self.try_rate(turn, rate)?);
            trials += 1;
        }
        Ok((search.found(), trials))
    }

    /// Returns whether the target sustains this rate, in calls per second, for a few seconds.
    fn try_rate(&mut self, turn: &Turn, rate_per_s: u32) -> Result<bool> {
        let case = Case { rate_per_s: Some(rate_per_s), ..turn.case };
        let load = Load::start(self.plan(&Turn { case, ..*turn }, TRIAL_WARM_UP, TRIAL));
        self.wait_until_measuring(&load, TRIAL_WARM_UP)?;
        let start = Instant::now();
        self.stay(&load, start + TRIAL / 2)?;
        let middle = load.snapshot();
        // Take this snapshot just before the end: afterwards, the backlog would shrink.
        self.stay(&load, start + TRIAL - Duration::from_millis(50))?;
        let late = load.snapshot();
        let end = load.finish()?;
        let met = self.conditions().are_met(end.total.calls, end.errors(), end.total.p99_ms);
        let is_random = self.settings.traffic.arrivals == Arrivals::Poisson;
        Ok(met && keeps_up(&middle, &late, rate_per_s, is_random))
    }

    pub(super) fn conditions(&self) -> Conditions {
        Conditions { p99_ms: self.settings.max_p99_ms.map(f64::from) }
    }
}

/// Returns whether the target keeps up with this rate: between the two snapshots, about as many calls ended as were
/// due.
fn keeps_up(earlier: &Snapshot, later: &Snapshot, rate_per_s: u32, is_random: bool) -> bool {
    let ended = |snapshot: &Snapshot| snapshot.total.calls + snapshot.errors();
    let due = later.measured.saturating_sub(earlier.measured).as_secs_f64() * f64::from(rate_per_s);
    // If calls are sent at random times, the standard deviation of their number is the square root of `due`, the
    // expected number. Allow three standard deviations.
    let chance = if is_random { 3.0 * due.sqrt() } else { 1.0 };
    (ended(later) - ended(earlier)) as f64 >= due * (1.0 - BACKLOG_MAX) - chance
}

/// Returns whether a confirmation run meets the conditions. False if the search found no rate: then the run only
/// provides the other figures of the record.
pub(super) fn is_confirmed(found_per_s: u32, run: &Run, conditions: Conditions) -> bool {
    found_per_s > 0 && conditions.are_met(run.calls, run.errors, run.p99_ms)
}

/// Maximum number of runs that confirm the rate.
pub(super) fn confirmations_max(found_per_s: u32) -> u32 {
    if found_per_s > 0 { CONFIRMATIONS_MAX } else { 1 }
}

/// Returns whether the load generator's machine, not the target, may have limited the rate in a confirmation run.
pub(super) fn is_limited_by_the_load(run: &Run) -> bool {
    run.late as f64 > LATE_MAX * (run.calls + run.errors) as f64
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
