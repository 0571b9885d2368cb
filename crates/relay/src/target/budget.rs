//! Budget: how many of the calls to a cluster may be sent again or hedged.

use std::sync::Arc;
use std::time::Instant;

use leno_model::balance::{BudgetSettings, RetryBudget};

use crate::target::cluster::ClusterState;

/// The answer of a cluster's budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    /// The budget is spent, but the object with this name only audits it.
    OnlyAudited(Arc<str>),
    /// The budget is spent.
    No,
}

impl ClusterState {
    /// Takes a further attempt at a call from the budget. `workers` budgets share the minimum.
    pub(crate) fn take_retry(&mut self, now: Instant, workers: u32) -> Taken {
        let setting = self.cluster.retry_budget.as_ref();
        let settings = setting.map_or_else(BudgetSettings::default, |setting| setting.value);
        let budget = self.retry_budget.get_or_insert_with(|| Box::new(RetryBudget::new(settings, workers, now)));
        budget.set_settings(settings);
        match setting.filter(|setting| setting.is_audited()) {
            _ if budget.take(now) => Taken::Yes,
            Some(setting) => Taken::OnlyAudited(setting.set_by.clone()),
            None => Taken::No,
        }
    }
}
