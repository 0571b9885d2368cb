//! Caches joined Services, so that a change of one Service does not cost a join of all Services. Also caches clusters
//! with the retry budgets and the objectives of policies, so that an unchanged cluster stays the same object.

use std::collections::HashMap;
use std::sync::Arc;

use super::JoinedService;
use crate::balance::BudgetSettings;
use crate::mesh::Cluster;
use crate::object::{EndpointSlice, Service};
use crate::traffic::{Objectives, Setting};

/// The results of earlier translations for each Service. Objects are identified by their address in memory: an object
/// at another address is treated as a changed object.
#[derive(Debug, Default)]
pub struct Memo {
    /// Results by the Service's address in memory. The address cannot be reused while the result holds the Service.
    services: HashMap<usize, Made>,
    /// Clusters to which policies have added a retry budget or objectives. The key is the memory address of the cluster
    /// before the addition.
    with_policies: HashMap<usize, WithPolicies>,
}

#[derive(Debug)]
struct WithPolicies {
    /// Holds the cluster without policies, so that its memory address is not reused.
    _without: Arc<Cluster>,
    cluster: Arc<Cluster>,
    is_used: bool,
}

#[derive(Debug)]
struct Made {
    /// Holds the Service, so that its memory address is not reused.
    _service: Arc<Service>,
    slices: Vec<Arc<EndpointSlice>>,
    joined: Arc<JoinedService>,
    is_used: bool,
}

impl Memo {
    /// Joins the Service with its slices, or returns the cached result.
    pub(super) fn join(&mut self, service: &Arc<Service>, slices: &[&Arc<EndpointSlice>]) -> Arc<JoinedService> {
        let address = Arc::as_ptr(service).addr();
        if let Some(made) = self.services.get_mut(&address)
            && made.slices.len() == slices.len()
            && made.slices.iter().zip(slices).all(|(then, now)| Arc::ptr_eq(then, now))
        {
            made.is_used = true;
            return Arc::clone(&made.joined);
        }
        let plain: Vec<&EndpointSlice> = slices.iter().map(|slice| &***slice).collect();
        let joined = Arc::new(JoinedService::new(service, &plain));
        let made = Made {
            _service: Arc::clone(service),
            slices: slices.iter().copied().cloned().collect(),
            joined: Arc::clone(&joined),
            is_used: true,
        };
        self.services.insert(address, made);
        joined
    }

    /// Returns a cluster with this retry budget and these objectives.
    pub(super) fn with_policies(
        &mut self,
        cluster: &Arc<Cluster>,
        retry_budget: Option<Setting<BudgetSettings>>,
        objectives: Option<Arc<Objectives>>,
    ) -> Arc<Cluster> {
        let address = Arc::as_ptr(cluster).addr();
        if let Some(made) = self.with_policies.get_mut(&address)
            && made.cluster.retry_budget == retry_budget
            && made.cluster.objectives == objectives
        {
            made.is_used = true;
            return Arc::clone(&made.cluster);
        }
        let with = Arc::new(Cluster { retry_budget, objectives, ..Cluster::clone(cluster) });
        let made = WithPolicies { _without: Arc::clone(cluster), cluster: Arc::clone(&with), is_used: true };
        self.with_policies.insert(address, made);
        with
    }

    /// Drops the results that no translation has used since the last call of this function.
    pub(super) fn forget_unused(&mut self) {
        self.services.retain(|_, made| std::mem::take(&mut made.is_used));
        self.with_policies.retain(|_, made| std::mem::take(&mut made.is_used));
    }
}
