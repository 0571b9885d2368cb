//! One line of a scenario's result: one balancer in one case.

use serde::Serialize;

use super::balancers::Kind;
use super::scenarios::Scenario;

/// What came of one balancer in one case, all seeds together.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    #[serde(serialize_with = "scenario_name")]
    pub(super) scenario: Scenario,
    /// What the rows of one table have in common.
    pub(super) setting: String,
    /// What differs between its rows, besides the balancer.
    pub(super) case: String,
    /// The case as a number: how much slower, or how many calls; 0 where there is no such number.
    pub(super) x: f64,
    #[serde(serialize_with = "balancer_name")]
    pub(super) balancer: Kind,
    pub(super) figures: Vec<Figure>,
    pub(super) goals: Vec<Goal>,
    /// The part of the calls that the server in question got in each tenth of a second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) share_by_100ms: Vec<f64>,
}

/// A number with its name and unit.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    /// None where there is no such number, as the time to a recovery that did not come.
    pub(super) value: Option<f64>,
}

/// What a balancer should reach, and whether it did.
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

    /// The case as a number.
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

    /// The number of that name.
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
