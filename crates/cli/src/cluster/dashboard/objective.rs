//! Formats a method's objective for the page, which displays these texts unchanged.

use leno_model::traffic::Share;
use serde::Serialize;

use crate::cluster::stat::counts::number;
use crate::cluster::stat::methods;
use crate::cluster::stat::objective::{Objective, Part};

/// Burn rate at or above which a method has an error: at this rate, a budget for 30 days lasts two days. The alerts in
/// `charts/leno/files/rules.yaml` have the same burn rates as this constant and [`BURN_WARNING`].
const BURN_ERROR: f64 = 14.4;
/// Burn rate at or above which a method has a warning: at this rate, a budget for 30 days lasts five days.
const BURN_WARNING: f64 = 6.0;

/// How bad a figure is. The worst level is the smallest.
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

/// An objective in the form in which the page shows it.
#[derive(Debug, PartialEq, Serialize)]
struct Shown {
    text: String,
    /// Burn rate of the worse part of the objective, see [`Objective::burn_rate`].
    burn_rate: Option<f64>,
    burn: Option<String>,
    level: Option<Level>,
    /// For each part of the objective: the share of calls that miss it, and the share of calls that may miss it.
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
