//! The figures of a publication, computed from the recorded runs.

use crate::experiment::record::{Run, TargetKind};
use crate::report::{FOREIGN_CPU_LIMIT, Mean, Recorded, is_late};

use super::cost::Prices;
use super::definition::{At, Better, Column, Publication, Value};
use super::record::Description;

/// The recorded runs of a publication.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) description: Description,
    /// The experiments that have begun, with their names.
    pub(super) steps: Vec<(String, Recorded)>,
}

/// A figure that the lab measured itself, in contrast to a published figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Here {
    pub(super) mean: Mean,
    /// Whether `mean` is the value of the worst repeat instead of the mean. The worst repeat is used where luck decides
    /// the figure.
    pub(super) is_worst: bool,
    /// Whether, in some run, the call rate was near the most that the load can send, so that the load may have limited
    /// the figure.
    pub(super) at_ceiling: bool,
    /// The reason why the programs of the experiment waited for a CPU in most runs, and so made the figure worse than the
    /// condition is. `None` if they did not, or if such a wait does not change the figure. If they waited in few runs,
    /// these runs differ from the others, and so the figure's interval is wide.
    pub(super) waited: Option<&'static str>,
    /// The result of [`Measured::failed`].
    pub(super) failed: f64,
    /// The result of [`Measured::has_failed`].
    pub(super) has_failed: bool,
}

impl Here {
    /// Whether the figure can be compared with the other conditions' figures.
    ///
    /// False for the value of a worst repeat, because luck decides it. Also false if so many calls failed that they make
    /// the figure better ([`At::failed_max`]).
    pub(super) fn has_place(&self) -> bool {
        !self.is_worst && !self.has_failed
    }
}

impl Measured {
    pub(super) fn publication(&self) -> &'static Publication {
        self.description.publication.publication()
    }

    /// The runs of a target that `at` selects. Omits runs without an answered call, unless [`At::is_of_all_runs`] is
    /// set.
    pub(super) fn runs(&self, at: At, target: TargetKind) -> impl Iterator<Item = &Run> {
        let steps = self.steps.iter().filter(move |(name, _)| name == at.step);
        let runs = steps.flat_map(|(_, recorded)| &recorded.runs);
        runs.filter(move |run| run.target == target && (run.calls > 0 || at.is_of_all_runs) && at.is_of(run))
    }

    /// The reason why the lab did not measure a condition, or gave up some of its runs.
    pub(super) fn why_not(&self, target: TargetKind) -> String {
        let given_up = self.steps.iter().flat_map(|(_, recorded)| &recorded.experiment.skipped);
        let skipped = self.description.skipped.iter().chain(given_up).find(|skipped| skipped.target == target);
        skipped.map_or_else(|| "none of its runs ended".to_owned(), |skipped| skipped.why.clone())
    }

    /// The measured figure of a condition; `None` if a run lacks the figure.
    pub(super) fn here(&self, column: &Column, target: TargetKind) -> Option<Here> {
        let (mean, is_worst) = self.mean(column, target)?;
        let at_ceiling = column.value.parts().iter().any(|&at| self.runs(at, target).any(|run| run.at_ceiling));
        let (failed, has_failed) = (self.failed(column, target), self.has_failed(column, target));
        Some(Here { mean, is_worst, at_ceiling, waited: self.waited(column, target), failed, has_failed })
    }

    /// See [`Here::waited`]. If the column needs several selections of runs, such as the runs of a second target, most
    /// runs of one selection are enough.
    fn waited(&self, column: &Column, target: TargetKind) -> Option<&'static str> {
        let parts = column.value.parts_of(target);
        let most = |is: fn(&Run) -> bool| {
            parts.iter().any(|&(at, target)| {
                let runs: Vec<&Run> = self.runs(at, target).collect();
                runs.iter().filter(|run| is(run)).count() * 2 > runs.len()
            })
        };
        if column.includes_waiting() && most(|run| run.foreign_cpu > FOREIGN_CPU_LIMIT) {
            Some("other programs used the CPUs in most of the runs")
        } else if column.value.statistic().is_some() && most(is_late) {
            Some("the load sent calls late in most of the runs")
        } else {
            None
        }
    }

    /// The measured figure of a condition, and whether it is the value of the worst repeat instead of the mean.
    fn mean(&self, column: &Column, target: TargetKind) -> Option<(Mean, bool)> {
        let values = self.values(column.value, target)?;
        if let Value::Deviation(_) = column.value {
            let value = Mean::of(values.into_iter())?.deviation()?;
            return Some((Mean::of([value].into_iter())?, false));
        }
        if column.is_by_luck && balances_connections(target) {
            let worst = values.into_iter().reduce(|one, other| match column.better {
                Some(Better::More) => one.min(other),
                _ => one.max(other),
            });
            return Some((Mean::of(worst.into_iter())?, true));
        }
        Some((Mean::of(values.into_iter())?, false))
    }

    /// The fraction of a condition's calls that failed, if failed calls make the column's figure better; 0 for other
    /// columns. A statistic of the latencies covers only the answered calls, and a failed call takes less CPU time. If
    /// the column needs several selections of runs, such as the runs of a second target, the result is the largest
    /// fraction among them.
    pub(super) fn failed(&self, column: &Column, target: TargetKind) -> f64 {
        let failed = |(at, target): (At, TargetKind)| {
            let runs = self.runs(At { is_of_all_runs: true, ..at }, target);
            let (calls, errors) = runs.fold((0, 0), |sum, run| (sum.0 + run.calls, sum.1 + run.errors));
            errors as f64 / (calls + errors).max(1) as f64
        };
        let parts = column.value.parts_of(target).into_iter();
        parts.filter(|(at, _)| at.failed_max.is_some()).map(failed).fold(0.0, f64::max)
    }

    /// Whether too many calls failed to compare the condition's figure in the column; see [`Self::failed`].
    pub(super) fn has_failed(&self, column: &Column, target: TargetKind) -> bool {
        column.value.failed_max().is_some_and(|limit| self.failed(column, target) > limit)
    }

    /// The value of each repeat. `None` if a run lacks the figure, or if no repeat has a value.
    ///
    /// A value may be computed from two runs of a repeat, such as a ratio. A repeat that lacks one of the two runs is
    /// omitted.
    fn values(&self, value: Value, target: TargetKind) -> Option<Vec<f64>> {
        let prices = self.description.prices;
        let both = |one: Vec<(u32, f64)>, other: Vec<(u32, f64)>, combine: fn(f64, f64) -> f64| {
            let of_repeat = |repeat| other.iter().find(|(at, _)| *at == repeat).map(|(_, value)| *value);
            let pairs = one.into_iter().filter_map(|(repeat, value)| Some(combine(value, of_repeat(repeat)?)));
            pairs.collect::<Vec<f64>>()
        };
        let found = match value {
            Value::Mean(at) | Value::Deviation(at) => {
                alone(self.by_repeat(at, target, |run, _| (at.figure)(run), &prices)?)
            }
            Value::Cost(at, cost) => alone(self.by_repeat(at, target, cost, &prices)?),
            Value::Over(at, base) => {
                let of = |at: At| self.by_repeat(at, target, |run, _| (at.figure)(run), &prices);
                both(of(at)?, of(base)?, |value, base| value / base)
            }
            Value::Added(_, other) if other == target => return None,
            Value::Added(at, other) => {
                let of = |target| self.by_repeat(at, target, |run, _| (at.figure)(run), &prices);
                both(of(target)?, of(other)?, |value, base| value - base)
            }
        };
        Some(found).filter(|values| !values.is_empty())
    }

    fn by_repeat(
        &self,
        at: At,
        target: TargetKind,
        figure: impl Fn(&Run, &Prices) -> Option<f64>,
        prices: &Prices,
    ) -> Option<Vec<(u32, f64)>> {
        self.runs(at, target).map(|run| Some((run.repeat, figure(run, prices)?))).collect()
    }
}

fn alone(values: Vec<(u32, f64)>) -> Vec<f64> {
    values.into_iter().map(|(_, value)| value).collect()
}

/// Whether the target chooses a server for each connection, so that all calls of a connection go to the same server.
pub(super) fn balances_connections(target: TargetKind) -> bool {
    target == TargetKind::Direct || target.is_netfilter()
}

#[cfg(test)]
#[path = "figures_tests.rs"]
mod tests;
