//! Formats a method's objective as texts that the page displays unchanged.

use leno_model::traffic::Share;
use serde::Serialize;

use crate::cluster::stat::counts::number;
use crate::cluster::stat::methods;
use crate::cluster::stat::objective::{Objective, Part};

/// Burn rate from which on a method has the level error: at this rate, an error budget for 30 days lasts two days. The
/// alerts in `charts/leno/files/rules.yaml` have the same burn rates as this constant and [`BURN_WARNING`].
const BURN_ERROR: f64 = 14.4;
/// Burn rate from which on a method has the level warning: at this rate, an error budget for 30 days lasts five days.
const BURN_WARNING: f64 = 6.0;

/// The severity of a figure. Levels are ordered from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Error,
    Warning,
    Good,
}

/// A row of the table of methods.
#[derive(Serialize)]
pub(super) struct MethodRow {
    #[serde(flatten)]
    row: methods::Row,
    shown_objective: Option<Shown>,
}

/// An objective, as texts for the page.
#[derive(Debug, PartialEq, Serialize)]
struct Shown {
    text: String,
    /// The higher of the burn rates of the objective's parts, see [`Objective::burn_rate`].
    burn_rate: Option<f64>,
    burn: Option<String>,
    level: Option<Level>,
    /// For each part of the objective (latency, successful calls), the share of calls that miss it, and the share that
    /// the objective allows to miss it.
    parts: String,
}

impl Level {
    /// Returns the level of a burn rate.
    pub(super) fn of(burn_rate: f64) -> Self {
        match burn_rate {
            rate if rate >= BURN_ERROR => Self::Error,
            rate if rate >= BURN_WARNING => Self::Warning,
            _ => Self::Good,
        }
    }
}

impl From<methods::Row> for MethodRow {
    fn from(row: methods::Row) -> Self {
        let shown_objective = row.objective.as_ref().map(Shown::of);
        Self { row, shown_objective }
    }
}

impl Shown {
    fn of(objective: &Objective) -> Self {
        let parts = [("success", &objective.success), ("latency", &objective.latency)];
        let parts = parts.into_iter().filter_map(|(name, part)| Some(format!("{name}: {}", misses(part.as_ref()?))));
        let burn_rate = objective.burn_rate();
        Self {
            text: objective.text(),
            burn_rate,
            burn: burn_rate.map(|rate| number(Some(rate))),
            level: burn_rate.map(Level::of),
            parts: parts.collect::<Vec<_>>().join("; "),
        }
    }
}

fn misses(part: &Part) -> String {
    let may = Share::of_ratio(1.0 - part.ratio);
    match part.missed() {
        Some(missed) => format!("{} % of the calls miss, {may} % may miss", Share::of_ratio(missed)),
        None => format!("no calls, {may} % may miss"),
    }
}

#[cfg(test)]
#[path = "objective_tests.rs"]
mod tests;
