//! Readiness: how many endpoints of a Service take calls, for the metrics.

use std::sync::Arc;

use leno_model::protocol::Protocol;

use crate::metrics::{EndpointMetrics, WorkerMetrics};
use crate::pool::pools::{Pool, Pools};
use crate::target::cluster::{ClusterState, Member, TargetKey};

/// The metrics of a cluster's endpoints. When the relay drops the cluster's state, this sets the metrics to 0.
#[derive(Debug)]
pub(crate) struct ReportedEndpoints(Arc<EndpointMetrics>);

impl Drop for ReportedEndpoints {
    fn drop(&mut self) {
        self.0.ready.set(0);
        self.0.pending.set(0);
    }
}

impl ClusterState {
    /// Updates the metrics of a Service's endpoints. These metrics exist only for HTTP, so a Service with an opaque
    /// port has none.
    pub(crate) fn report_endpoints(&mut self, pools: &Pools, metrics: &WorkerMetrics) {
        let TargetKey::Service(key) = &self.target else { return };
        if self.cluster.protocol == Protocol::Opaque {
            self.reported_endpoints = None;
            return;
        }
        let (ready, pending) = self.readiness(pools);
        let reported = self.reported_endpoints.get_or_insert_with(|| ReportedEndpoints(metrics.endpoints(key)));
        reported.0.ready.set(ready);
        reported.0.pending.set(pending);
    }

    /// Returns the number of ready endpoints, and the number of pending endpoints. An endpoint is pending if calls to
    /// it fail, or if connections to it fail and no connection is established.
    fn readiness(&self, pools: &Pools) -> (u64, u64) {
        let (mut ready, mut pending) = (0, 0);
        for member in self.members.iter() {
            // Skip the check of the pools if `may_be_busy` returns `false`: then no pool has failed to connect.
            let is_unreachable = self.may_be_busy() && is_unreachable(member, pools);
            let is_pending = is_unreachable || self.balancer.is_failing(member.id);
            *(if is_pending { &mut pending } else { &mut ready }) += 1;
        }
        (ready, pending)
    }
}

/// Returns whether connections to an endpoint fail, and no connection is established.
fn is_unreachable(member: &Member, pools: &Pools) -> bool {
    let pools = || member.pools().filter_map(|pool| pools.get(pool));
    pools().any(|pool| pool.failures > 0) && !pools().any(Pool::is_connected)
}

#[cfg(test)]
#[path = "readiness_tests.rs"]
mod tests;
