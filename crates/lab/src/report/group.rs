//! Groups the runs of an experiment: a group has all repeats of one target under one load, skew and condition.

use crate::experiment::record::{Condition, CurvePoint, Experiment, Fault, Run, Scenario, TargetKind};

use super::read::Recorded;
use super::spread::Spread;

/// Number of CPUs. If programs outside the experiment use more, the report marks the run as disturbed.
pub(crate) const FOREIGN_CPU_LIMIT: f64 = 0.2;

/// A fraction of a run's calls. If the load sends more calls late, the report marks the run, because its latencies
/// include delays that the load's machine caused.
pub(super) const LATE_LIMIT: f64 = 0.005;

/// Whether the load sent more than [`LATE_LIMIT`] of a run's calls late, because it did not get a CPU in time.
pub(crate) fn is_late(run: &Run) -> bool {
    run.late as f64 > LATE_LIMIT * (run.calls + run.errors) as f64
}

/// The load of a run: the rate, the connections and the concurrency of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Load {
    /// Calls per second. `None` for a closed loop, in which each answer triggers the next call. Loads are sorted by
    /// this field, closed loops first.
    pub(super) rate_per_s: Option<u32>,
    pub(super) connections: u32,
    pub(super) concurrency: u32,
    /// Whether each run searched for its rate, so that the runs of a group may have different rates.
    pub(super) is_searched: bool,
}

/// The repeats of one target under one load, skew and condition.
#[derive(Debug, Clone)]
pub(super) struct Group<'a> {
    pub(super) scenario: Scenario,
    pub(super) load: Load,
    pub(super) skew_ms: u32,
    pub(super) condition: Condition,
    pub(super) target: TargetKind,
    /// The runs, ascending by repeat.
    pub(super) runs: Vec<&'a Run>,
}

/// Counts of the runs and calls that make a group's figures doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks {
    pub(super) runs: usize,
    /// Runs near the highest rate that the lab's load can send.
    pub(super) at_ceiling: usize,
    /// Runs in which the load sent more than [`LATE_LIMIT`] of the calls late.
    pub(super) late: usize,
    /// Runs during which other programs used more than [`FOREIGN_CPU_LIMIT`] CPUs.
    pub(super) disturbed: usize,
    /// Runs without an answered call.
    pub(super) dead: usize,
    /// Calls that failed.
    pub(super) errors: u64,
}

impl<'a> Group<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        let Run { scenario, target, skew_ms, condition, rate_per_s, connections, concurrency, .. } = *run;
        let load = Load { rate_per_s, connections, concurrency, is_searched: run.capacity.is_some() };
        Self { scenario, load, skew_ms, condition, target, runs: vec![run] }
    }

    /// The key of a section of the table. All groups of a section have the same key, but different targets.
    pub(super) fn section(&self) -> (Scenario, Load, u32, Condition) {
        (self.scenario, self.load, self.skew_ms, self.condition)
    }

    fn is_of(&self, run: &'a Run) -> bool {
        let other = Group::of(run);
        other.target == self.target && other.section() == self.section()
    }

    /// The runs that have answered calls. A run without answered calls has no latency.
    pub(super) fn alive(&self) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().copied().filter(|run| run.calls > 0)
    }

    /// The spread of `figure` over the runs with answered calls. Skips runs that lack the figure.
    pub(super) fn spread(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.alive().filter_map(figure))
    }

    /// The spread of `figure` over all runs, including runs without answered calls. Skips runs that lack the figure.
    pub(super) fn spread_of_all(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| figure(run)))
    }

    /// Combines the runs' latency curves: returns the spread of the latency, in ms, at each quantile. Omits a quantile
    /// that fewer than half of the curves have.
    pub(super) fn curve(&self) -> Vec<(f64, Spread)> {
        let alive: Vec<&Run> = self.alive().collect();
        let mut points: Vec<CurvePoint> = alive.iter().flat_map(|run| run.curve.iter().copied()).collect();
        points.sort_by(|a, b| a.quantile.total_cmp(&b.quantile));
        let same = points.chunk_by(|a, b| a.quantile == b.quantile);
        let common = same.filter(|points| points.len() * 2 >= alive.len());
        let together = common
            .filter_map(|points| Some((points.first()?.quantile, Spread::of(points.iter().map(|point| point.ms))?)));
        together.collect()
    }

    /// The fraction of the calls that failed.
    pub(super) fn failed(&self) -> f64 {
        let (calls, errors) = self.runs.iter().fold((0, 0), |sum, run| (sum.0 + run.calls, sum.1 + run.errors));
        errors as f64 / (calls + errors).max(1) as f64
    }

    pub(super) fn marks(&self) -> Marks {
        let count = |is: fn(&Run) -> bool| self.runs.iter().filter(|run| is(run)).count();
        Marks {
            runs: self.runs.len(),
            at_ceiling: count(|run| run.at_ceiling),
            late: count(is_late),
            disturbed: count(|run| run.foreign_cpu > FOREIGN_CPU_LIMIT),
            dead: count(|run| run.calls == 0),
            errors: self.runs.iter().map(|run| run.errors).sum(),
        }
    }
}

/// All groups of an experiment, in the order in which the report lists them.
#[derive(Debug)]
pub(super) struct Results<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) notes: &'a [String],
    /// The groups, in ascending order of scenario, load, skew and condition. Groups with equal values are in the order
    /// in which the user listed the targets.
    pub(super) groups: Vec<Group<'a>>,
}

impl<'a> Results<'a> {
    pub(super) fn new(recorded: &'a Recorded) -> Self {
        let Recorded { experiment, runs, notes } = recorded;
        let mut groups: Vec<Group> = Vec::new();
        for run in runs {
            match groups.iter_mut().find(|group| group.is_of(run)) {
                Some(group) => group.runs.push(run),
                None => groups.push(Group::of(run)),
            }
        }
        let place = |target| experiment.targets.iter().position(|&asked| asked == target).unwrap_or(usize::MAX);
        groups.sort_by_key(|group| (group.section(), place(group.target), group.target));
        for group in &mut groups {
            group.runs.sort_by_key(|run| run.repeat);
        }
        Self { experiment, notes, groups }
    }

    /// The scenarios that have runs; the experiment's own scenario if there are no runs.
    pub(super) fn scenarios(&self) -> Vec<Scenario> {
        let found = distinct(self.groups.iter().map(|group| group.scenario));
        if found.is_empty() { vec![self.experiment.scenario] } else { found }
    }

    pub(super) fn of(&self, scenario: Scenario) -> impl Iterator<Item = &Group<'a>> {
        self.groups.iter().filter(move |group| group.scenario == scenario)
    }

    pub(super) fn loads(&self, scenario: Scenario) -> Vec<Load> {
        distinct(self.of(scenario).map(|group| group.load))
    }

    /// The skews of a scenario, ascending.
    pub(super) fn skews(&self, scenario: Scenario) -> Vec<u32> {
        let mut skews: Vec<u32> = self.of(scenario).map(|group| group.skew_ms).collect();
        skews.sort_unstable();
        skews.dedup();
        skews
    }

    /// The conditions of a scenario, ascending.
    pub(super) fn conditions(&self, scenario: Scenario) -> Vec<Condition> {
        let mut conditions: Vec<Condition> = self.of(scenario).map(|group| group.condition).collect();
        conditions.sort_unstable();
        conditions.dedup();
        conditions
    }

    /// The targets that have runs, in the order in which the user listed them.
    pub(super) fn targets(&self, scenario: Scenario) -> Vec<TargetKind> {
        distinct(self.of(scenario).map(|group| group.target))
    }

    /// Returns the first group of a target with this load and skew. If there are several, they differ in the condition.
    pub(super) fn find(&self, scenario: Scenario, load: Load, skew_ms: u32, target: TargetKind) -> Option<&Group<'a>> {
        self.of(scenario).find(|group| (group.load, group.skew_ms, group.target) == (load, skew_ms, target))
    }

    /// Returns the healthy counterpart of `group`: same target and load, at a skew of 0, without a fault.
    ///
    /// If the condition of `group` has a fault, its counterpart has no call policy either: each call is sent once.
    /// Otherwise, both have the same policy.
    pub(super) fn healthy(&self, group: &Group) -> Option<&Group<'a>> {
        let has_fault = group.condition.fault != Fault::None;
        let condition = if has_fault { Condition::default() } else { group.condition };
        let healthy = (group.scenario, group.load, 0, condition);
        self.groups.iter().find(|other| other.target == group.target && other.section() == healthy)
    }

    /// Returns the group with the fewest connections among the groups with the same target, skew and rate as `group`.
    /// The result may be `group` itself.
    pub(super) fn fewest_connections(&self, group: &Group) -> Option<&Group<'a>> {
        let key = |group: &Group| (group.target, group.skew_ms, group.load.rate_per_s);
        self.of(group.scenario).filter(|other| key(other) == key(group)).min_by_key(|other| other.load.connections)
    }
}

/// Returns each value once, in the order of first occurrence.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
