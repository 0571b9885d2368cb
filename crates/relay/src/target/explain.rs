//! Explain: the state of the clusters in use, for `/balancer`.

use leno_model::balance::{Explanation, Policy};

use crate::Relay;
use crate::target::budget::BudgetExplanation;
use crate::target::cluster::ClusterState;
use crate::target::hedge_delays::HedgeDelayExplanation;

/// The state of one cluster on one worker, for `/balancer`.
#[derive(Debug, serde::Serialize)]
pub struct ClusterExplanation {
    /// The cluster, in the form `service.namespace:port`.
    pub cluster: String,
    /// The balancer that chooses among the endpoints.
    pub policy: Policy,
    /// Index of the worker, from 0.
    pub worker: usize,
    /// Number of calls in flight.
    pub calls: usize,
    /// The budget of retries and hedges; `None` for the default budget, if no call has needed it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<BudgetExplanation>,
    /// The current delays before hedges, by method, for delays that are percentiles of the method's latencies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hedge_delays: Vec<HedgeDelayExplanation>,
    /// The cluster's endpoints, ascending by address.
    pub endpoints: Vec<EndpointExplanation>,
}

/// The state of one endpoint on one worker.
#[derive(Debug, serde::Serialize)]
pub struct EndpointExplanation {
    /// The balancer's state of the endpoint.
    #[serde(flatten)]
    pub balancer: Explanation,
    /// The name of the endpoint's Pod, if the endpoint is a Pod.
    pub pod: Option<String>,
    /// Number of connections that take calls.
    pub connections: usize,
    /// Number of calls that wait for a connection.
    pub waiting: usize,
    /// Number of attempts to connect that have failed since the last success.
    pub connect_failures: u32,
    /// The error of the last attempt to connect; `None` if that attempt succeeded.
    pub last_connect_error: Option<String>,
    /// Whether the server has not answered a PING. If so, calls go to other endpoints while others are well.
    pub is_silent: bool,
}

impl Relay {
    /// Returns the state of all clusters in use.
    pub fn explain(&self) -> Vec<ClusterExplanation> {
        let explain_cluster = |state: &ClusterState| ClusterExplanation {
            cluster: state.target.to_string(),
            policy: state.cluster.balancer,
            worker: self.index,
            calls: state.calls(),
            retry_budget: state.explain_budget(self.now, self.workers),
            hedge_delays: state.explain_hedge_delays(self.now),
            endpoints: self.explain_endpoints(state),
        };
        let mut clusters: Vec<_> = self.targets.iter().map(|(_, state)| explain_cluster(state)).collect();
        clusters.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        clusters
    }

    pub(crate) fn explain_endpoints(&self, state: &ClusterState) -> Vec<EndpointExplanation> {
        let explanations = state.balancer.explain(self.now);
        let ids = state.balancer.endpoints();
        ids.zip(explanations)
            .map(|((id, _), balancer)| {
                let failed = state.pools_of(id, &self.pools).find(|pool| pool.failures > 0);
                EndpointExplanation {
                    balancer,
                    pod: state.member(id).and_then(|endpoint| endpoint.pod.as_deref()).map(str::to_owned),
                    connections: state.pools_of(id, &self.pools).map(|pool| pool.connections().len()).sum(),
                    waiting: state.pools_of(id, &self.pools).map(|pool| pool.waiting().len()).sum(),
                    connect_failures: failed.map_or(0, |pool| pool.failures),
                    last_connect_error: failed.map(|pool| pool.last_error.clone()),
                    is_silent: state.is_doubtful(id, &self.pools),
                }
            })
            .collect()
    }
}
