//! Counts the endpoints of a Service that take calls, and the endpoints that do not. The metric has the name and the
//! states that Linkerd's balancers use.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use leno_model::mesh::ClusterKey;
use prometheus_client::encoding::DescriptorEncoder;

use super::text::gauge;
use super::{Gauge, RouteLabels};

/// One worker's numbers of endpoints of a Service's port.
#[derive(Debug, Default)]
pub struct EndpointMetrics {
    /// Number of endpoints that take calls.
    pub ready: Gauge,
    /// Number of endpoints that take no calls.
    pub pending: Gauge,
}

/// The endpoints of each Service's port that is in use.
#[derive(Debug, Default)]
pub(super) struct EndpointScrape {
    /// Numbers of pending and of ready endpoints, in this order.
    services: BTreeMap<ClusterKey, (u64, u64)>,
}

impl EndpointScrape {
    /// Takes the numbers of each Service from the worker with the most pending endpoints. Every worker knows the same
    /// endpoints, so a sum over the workers would count each endpoint several times.
    pub(super) fn new(series: impl Iterator<Item = (ClusterKey, Arc<EndpointMetrics>)>) -> Self {
        let mut services = BTreeMap::<ClusterKey, (u64, u64)>::new();
        for (cluster, metrics) in series {
            let view = services.entry(cluster).or_default();
            *view = (*view).max((metrics.pending.get(), metrics.ready.get()));
        }
        Self { services }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Endpoints of a Service that take calls, and the others";
        let mut metric = gauge(encoder, "outbound_http_balancer_endpoints", help)?;
        for (cluster, &(pending, ready)) in &self.services {
            let service = RouteLabels::service_labels(cluster);
            for (state, count) in [("ready", ready), ("pending", pending)] {
                metric.encode_family(&([("endpoint_state", state)], service.clone()))?.encode_gauge(&count)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "endpoints_tests.rs"]
mod tests;
