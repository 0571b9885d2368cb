//! Budget: how many of the calls to a cluster may be sent again or hedged.

use std::sync::Arc;
use std::time::Instant;

use leno_model::balance::{BudgetSettings, RetryBudget};
use leno_model::traffic::{Mode, Setting};
use serde::Serialize;

use crate::metrics::{Gauge, WorkerMetrics};
use crate::target::cluster::ClusterState;

/// The budget of a cluster, and the metric that shows how much of it is left.
#[derive(Debug)]
pub(crate) struct ClusterBudget {
    retries: RetryBudget,
    left: Arc<Gauge>,
}

/// The result of taking a further attempt from a cluster's budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    /// The budget is spent, but it is in mode Audit, so the attempt may begin. The text names the object that sets the
    /// budget.
    OnlyAudited(Arc<str>),
    /// The budget is spent.
    No,
}

/// A cluster's budget on one worker, for `/balancer`.
#[derive(Debug, Serialize)]
pub struct BudgetExplanation {
    #[serde(flatten)]
    settings: BudgetSettings,
    mode: Mode,
    /// The object that sets the budget; `None` for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_by: Option<Arc<str>>,
    /// Number of retries and hedges that this worker has left.
    left: u64,
}

impl ClusterBudget {
    /// Counts a call. Call this once per call, and not for its further attempts.
    pub(crate) fn note_call(&mut self, now: Instant) {
        self.retries.note_call(now);
    }

    /// Updates the metric of the retries and hedges that are left.
    pub(crate) fn report(&mut self, now: Instant) {
        self.left.set(self.retries.left_at(now));
    }
}

impl ClusterState {
    /// Returns the cluster's budget in this worker. The first use creates the budget. `workers` is the number of
    /// workers: each gets an equal part of the configured minimum.
    pub(crate) fn budget(&mut self, now: Instant, workers: u32, metrics: &WorkerMetrics) -> &mut ClusterBudget {
        let settings = self.budget_settings();
        let key = &self.cluster.key;
        let budget = self.retry_budget.get_or_insert_with(|| {
            Box::new(ClusterBudget {
                retries: RetryBudget::new(settings, workers, now),
                left: metrics.retry_budget(key),
            })
        });
        budget.retries.set_settings(settings);
        budget
    }

    /// Takes a further attempt at a call (a retry or a hedge) from the budget.
    pub(crate) fn take_retry(&mut self, now: Instant, workers: u32, metrics: &WorkerMetrics) -> Taken {
        let has_left = self.budget(now, workers, metrics).retries.take(now);
        let audited = self.cluster.retry_budget.as_ref().filter(|setting| setting.is_audited());
        match audited {
            _ if has_left => Taken::Yes,
            Some(setting) => Taken::OnlyAudited(setting.set_by.clone()),
            None => Taken::No,
        }
    }

    /// Returns whether the budget has a further attempt left, without taking it.
    pub(crate) fn has_retry_left(&self, now: Instant, workers: u32) -> bool {
        self.retries_left(now, workers) > 0
    }

    fn retries_left(&self, now: Instant, workers: u32) -> u64 {
        let unused = || RetryBudget::new(self.budget_settings(), workers, now).left();
        self.retry_budget.as_ref().map_or_else(unused, |budget| budget.retries.left_at(now))
    }

    fn budget_settings(&self) -> BudgetSettings {
        self.cluster.retry_budget.as_ref().map_or_else(BudgetSettings::default, |setting| setting.value)
    }

    /// Describes the budget; `None` if no call has needed it yet, and no object sets it.
    pub(crate) fn explain_budget(&self, now: Instant, workers: u32) -> Option<BudgetExplanation> {
        let setting: Option<&Setting<BudgetSettings>> = self.cluster.retry_budget.as_ref();
        (setting.is_some() || self.retry_budget.is_some()).then(|| BudgetExplanation {
            settings: self.budget_settings(),
            mode: setting.map_or(Mode::Enforce, |setting| setting.mode),
            set_by: setting.map(|setting| setting.set_by.clone()),
            left: self.retries_left(now, workers),
        })
    }
}
