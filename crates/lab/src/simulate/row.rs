//! A row of a result table: one balancer in one case of a scenario.

use serde::Serialize;

use super::balancers::Kind;
use super::scenarios::Scenario;

/// The result of one balancer in one case, combined over all seeds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    #[serde(serialize_with = "scenario_name")]
    pub(super) scenario: Scenario,
    /// The parameters that all rows of one table have in common.
    pub(super) setting: String,
    /// The parameter that varies within the table, besides the balancer.
    pub(super) case: String,
    /// The case as a number: the skew in ms, or the calls per second. 0 if the case has no number.
    pub(super) x: f64,
    #[serde(serialize_with = "balancer_name")]
    pub(super) balancer: Kind,
    pub(super) figures: Vec<Figure>,
    pub(super) goals: Vec<Goal>,
    /// Fraction of the calls that the observed server (the recovered or the new one) received, in each tenth of a
    /// second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) share_by_100ms: Vec<f64>,
}

/// A number and its name, which contains the unit.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    /// `None` if there is no value: for example, the time to a recovery that did not happen.
    pub(super) value: Option<f64>,
}

/// A goal of a balancer, and whether it was reached.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Goal {
    pub(super) what: String,
    pub(super) reached: bool,
}

impl Row {
    pub(super) fn new(scenario: Scenario, setting: String, case: String, balancer: Kind) -> Self {
        let (figures, goals, share_by_100ms) = (Vec::new(), Vec::new(), Vec::new());
        Self { scenario, setting, case, x: 0.0, balancer, figures, goals, share_by_100ms }
    }

    /// Sets `x`, the case as a number.
    pub(super) fn at(self, x: f64) -> Self {
        Self { x, ..self }
    }

    pub(super) fn figure(mut self, name: &'static str, value: impl Into<Option<f64>>) -> Self {
        self.figures.push(Figure { name, value: value.into() });
        self
    }

    pub(super) fn goal(mut self, what: impl Into<String>, reached: bool) -> Self {
        self.goals.push(Goal { what: what.into(), reached });
        self
    }

    /// The figure with this name.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).and_then(|figure| figure.value)
    }

    pub(super) fn missed(&self) -> Vec<&str> {
        self.goals.iter().filter(|goal| !goal.reached).map(|goal| goal.what.as_str()).collect()
    }
}

fn scenario_name<S: serde::Serializer>(scenario: &Scenario, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&scenario.name())
}

fn balancer_name<S: serde::Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}
