//! The parts of a publication, as data: its conditions (the systems that it compares), the experiments that its tables
//! need, and its figures.

use crate::chart::number::{grouped, significant};
use crate::experiment::record::{Run, TargetKind};
use crate::report::Statistic;
use crate::report::figures::errors_percent;

use super::cost::Prices;

/// The largest fraction of failed calls with which CPU time, or its price, can be compared.
pub(super) const CPU_FAILED_MAX: f64 = 0.01;

/// A published comparison, and how the lab measures it again.
#[derive(Debug)]
pub(super) struct Publication {
    /// The authors of the comparison, its date, and what it compares.
    pub(super) who: &'static str,
    /// Address of the publication.
    pub(super) source: &'static str,
    /// The publication's load, described in one line.
    pub(super) load: &'static str,
    /// The compared systems: one row in every table, in the publication's order. Leno's row is the last.
    pub(super) conditions: &'static [Condition],
    /// The experiments, in the order in which they run.
    pub(super) steps: &'static [Step],
    pub(super) tables: &'static [Table],
    pub(super) headline: Headline,
    /// The parts of the publication that the lab shows at no `--scale`.
    pub(super) never_shown: &'static [&'static str],
    /// The parts of the publication that `--scale quick` leaves out or shortens.
    pub(super) quick_leaves_out: &'static [&'static str],
    /// A sentence that names the parts of the publication that `--scale full` keeps or changes.
    pub(super) full_keeps: &'static str,
}

/// A system that the publication compares.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) target: TargetKind,
    /// The publication's name of the system.
    pub(super) name: &'static str,
}

/// An experiment.
#[derive(Debug)]
pub(super) struct Step {
    /// Name of the subdirectory with the runs.
    pub(super) name: &'static str,
    /// Arguments of `leno lab run` at `--scale quick`, without targets, programs and directory.
    pub(super) quick: &'static str,
    pub(super) full: &'static str,
}

/// Columns that belong together.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) title: &'static str,
    /// The reference condition. A figure in brackets is a condition's figure divided by the reference condition's
    /// figure on the same machine.
    pub(super) base: TargetKind,
    pub(super) columns: &'static [Column],
}

/// One column of a table: the same figure of each condition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// Name within its table.
    pub(super) name: &'static str,
    /// Name of the column for use in sentences. It is clear without the table's title.
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) value: Value,
    /// Whether a smaller or a larger figure is better; `None` if neither is.
    pub(super) better: Option<Better>,
    /// The threshold for a green mark in a scorecard. A figure at the threshold, or better, gets a green mark. `None`
    /// for columns without marks.
    pub(super) green: Option<f64>,
    /// Whether luck decides the figures of conditions that balance connections instead of calls. In each repeat, such a
    /// condition sends the slow pod either all calls or no calls.
    pub(super) is_by_luck: bool,
    pub(super) theirs: &'static [(TargetKind, Published)],
}

/// Whether the smaller or the larger of two figures is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    Less,
    More,
}

/// The formula that computes a figure from the runs of a condition.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    /// The mean over the repeats.
    Mean(At),
    /// The standard deviation over the repeats.
    Deviation(At),
    /// In each repeat, the first figure divided by the second; then the mean over the repeats.
    Over(At, At),
    /// In each repeat, the figure minus the figure of the given target; then the mean over the repeats.
    Added(At, TargetKind),
    /// The mean of the values that the function computes from each run.
    Cost(At, fn(&Run, &Prices) -> Option<f64>),
}

/// Selects runs of a step by their skew, connections and rate, and selects a figure of these runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) step: &'static str,
    pub(super) skew_ms: u32,
    /// Selects the runs with this number of connections; `None` if all runs of the step have the same number.
    pub(super) connections: Option<u32>,
    /// Selects the runs with this number of calls per second; `None` if all runs of the step have the same rate.
    pub(super) rate_per_s: Option<u32>,
    pub(super) figure: fn(&Run) -> Option<f64>,
    /// Whether runs without any answered call count too, although such a run may lack the figure.
    pub(super) is_of_all_runs: bool,
    /// The statistic of the latencies that the figure is. It covers only the answered calls. `None` for other figures.
    pub(super) statistic: Option<Statistic>,
    /// The largest fraction of failed calls with which the figure can be compared. `None` for figures that failed calls
    /// cannot make better, and for figures that count failed calls themselves.
    pub(super) failed_max: Option<f64>,
}

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Published {
    Exactly(f64),
    /// A lower bound: the publication states "over" and this figure.
    Over(f64),
}

/// The first sentence of the report, which compares one figure of Leno with that of the best other mesh.
#[derive(Debug)]
pub(super) struct Headline {
    /// The sentence's text before Leno's figure.
    pub(super) begin: &'static str,
    pub(super) column: Column,
}

impl Publication {
    /// The publication's name for a target. If the target is no condition of the publication, the target's own name.
    pub(super) fn condition(&self, target: TargetKind) -> &'static str {
        self.conditions.iter().find(|it| it.target == target).map_or(target.name(), |it| it.name)
    }
}

impl At {
    pub(super) const fn new(step: &'static str, figure: fn(&Run) -> Option<f64>) -> Self {
        Self {
            step,
            skew_ms: 0,
            connections: None,
            rate_per_s: None,
            figure,
            is_of_all_runs: false,
            statistic: None,
            failed_max: None,
        }
    }

    /// A statistic of the latencies of the answered calls, in ms.
    pub(super) const fn latency(step: &'static str, statistic: Statistic) -> Self {
        let failed_max = Some(statistic.failed_max());
        Self { statistic: Some(statistic), failed_max, ..Self::new(step, statistic.figure()) }
    }

    /// CPU time of the proxies, or a price that is computed from it. A proxy saves CPU time with each call that it
    /// fails.
    pub(super) const fn cpu(step: &'static str, figure: fn(&Run) -> Option<f64>) -> Self {
        Self { failed_max: Some(CPU_FAILED_MAX), ..Self::new(step, figure) }
    }

    /// The percentage of failed calls. A run in which every call failed has this figure too: 100 %.
    pub(super) const fn errors(step: &'static str) -> Self {
        Self::new(step, errors_percent).of_all_runs()
    }

    /// This figure, in all runs, also in those without any answered call.
    pub(super) const fn of_all_runs(self) -> Self {
        Self { is_of_all_runs: true, ..self }
    }

    /// This figure, in the runs in which one backend is slower by `skew_ms`.
    pub(super) const fn slow_ms(self, skew_ms: u32) -> Self {
        Self { skew_ms, ..self }
    }

    pub(super) const fn connections(self, connections: u32) -> Self {
        Self { connections: Some(connections), ..self }
    }

    pub(super) const fn rate(self, rate_per_s: u32) -> Self {
        Self { rate_per_s: Some(rate_per_s), ..self }
    }

    /// Whether `run`, which must be a run of the step, has the selected skew, connections and rate.
    pub(super) fn is_of(&self, run: &Run) -> bool {
        run.skew_ms == self.skew_ms
            && self.connections.is_none_or(|connections| run.connections == connections)
            && self.rate_per_s.is_none_or(|rate| run.rate_per_s == Some(rate))
    }
}

impl Column {
    /// Creates a column in which a smaller figure is better, without published figures.
    pub(super) const fn less(name: &'static str, what: &'static str, unit: &'static str, value: Value) -> Self {
        let better = Some(Better::Less);
        Self { name, what, unit, value, better, green: None, is_by_luck: false, theirs: &[] }
    }

    /// Creates a column in which a larger figure is better, without published figures.
    pub(super) const fn more(name: &'static str, what: &'static str, unit: &'static str, value: Value) -> Self {
        Self { better: Some(Better::More), ..Self::less(name, what, unit, value) }
    }

    /// Marks this column as one in which neither a smaller nor a larger figure is better.
    pub(super) const fn neutral(self) -> Self {
        Self { better: None, ..self }
    }

    pub(super) const fn by_luck(self) -> Self {
        Self { is_by_luck: true, ..self }
    }

    /// Sets the threshold for green marks of this column.
    pub(super) const fn green(self, limit: f64) -> Self {
        Self { green: Some(limit), ..self }
    }

    /// Sets the published figures of this column.
    pub(super) const fn theirs(self, theirs: &'static [(TargetKind, Published)]) -> Self {
        Self { theirs, ..self }
    }

    /// Whether the figure gets worse if the programs of the experiment must wait for a CPU: a latency, a rate, or a ratio
    /// of such figures.
    pub(super) fn includes_waiting(&self) -> bool {
        matches!(self.unit, "ms" | "s" | "/s" | "×")
    }

    /// The published figure of a condition.
    pub(super) fn published(&self, target: TargetKind) -> Option<Published> {
        self.theirs.iter().find(|(of, _)| *of == target).map(|(_, figure)| *figure)
    }
}

impl Value {
    /// The selections of runs from which the value is computed.
    pub(super) fn parts(&self) -> Vec<At> {
        match self {
            Self::Mean(at) | Self::Deviation(at) | Self::Added(at, _) | Self::Cost(at, _) => vec![*at],
            Self::Over(at, base) => vec![*at, *base],
        }
    }

    /// The selections of runs from which the value of a target is computed, each with the target of its runs.
    pub(super) fn parts_of(&self, target: TargetKind) -> Vec<(At, TargetKind)> {
        let mut parts: Vec<_> = self.parts().into_iter().map(|at| (at, target)).collect();
        if let Self::Added(at, base) = self {
            parts.push((*at, *base));
        }
        parts
    }

    /// The largest fraction of failed calls with which the value can be compared; `None` without such a limit.
    pub(super) fn failed_max(&self) -> Option<f64> {
        self.parts().into_iter().find_map(|at| at.failed_max)
    }

    /// The statistic of the latencies from which the value is computed; `None` for values without latencies.
    pub(super) fn statistic(&self) -> Option<Statistic> {
        self.parts().into_iter().find_map(|at| at.statistic)
    }
}

impl Published {
    pub(super) fn value(self) -> f64 {
        match self {
            Self::Exactly(value) | Self::Over(value) => value,
        }
    }

    pub(super) fn is_exact(self) -> bool {
        matches!(self, Self::Exactly(_))
    }

    /// Returns the figure as text, with the same digits as in the publication. Rounds a figure that was computed as the
    /// ratio of two published figures.
    pub(super) fn text(self) -> String {
        let value = self.value();
        let over = if self.is_exact() { "" } else { "> " };
        match value {
            // No published figure has more than one decimal. A value with more was computed as a ratio of two published
            // figures, so round it.
            _ if (value * 10.0).fract() != 0.0 => format!("{over}{}", significant(value)),
            _ if value.fract() == 0.0 => format!("{over}{}", grouped(value as u64)),
            _ => format!("{over}{value:.1}"),
        }
    }
}

impl Better {
    /// Whether `one` is better than `other`.
    pub(super) fn is(self, one: f64, other: f64) -> bool {
        match self {
            Self::Less => one < other,
            Self::More => one > other,
        }
    }
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
