//! The ready endpoints of a Service's port, according to its EndpointSlices.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

/// The ready endpoints of one port.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReadyEndpoints {
    /// The addresses, of one address family or of both.
    pub(super) addresses: BTreeSet<String>,
    /// The endpoints that are Pods: name of the Pod, and number of the port in this Pod.
    pub(super) pods: BTreeMap<String, u16>,
}

impl ReadyEndpoints {
    /// The endpoints in these slices, for the Service's port of this name. The name is empty if the Service's only port
    /// has no name.
    pub(super) fn of(slices: &[EndpointSlice], port_name: &str) -> Self {
        let mut ready = Self::default();
        for slice in slices {
            let ports = slice.ports.iter().flatten();
            let port = ports.filter(|port| port.name.as_deref().unwrap_or_default() == port_name);
            let Some(port) = port.filter_map(|port| u16::try_from(port.port?).ok()).next() else { continue };
            for endpoint in slice.endpoints.iter().flatten().filter(|endpoint| is_ready(endpoint)) {
                ready.addresses.extend(endpoint.addresses.iter().cloned());
                ready.pods.extend(pod_of(endpoint).map(|pod| (pod, port)));
            }
        }
        ready
    }

    /// Returns the number of servers. A Pod with an IPv4 and an IPv6 address counts as one server.
    pub(super) fn count(&self) -> usize {
        if self.pods.is_empty() { self.addresses.len() } else { self.pods.len() }
    }
}

/// Returns whether an endpoint is ready. By Kubernetes' definition, an endpoint without this condition is ready.
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

fn pod_of(endpoint: &Endpoint) -> Option<String> {
    let target = endpoint.target_ref.as_ref()?;
    target.name.clone().filter(|_| target.kind.as_deref() == Some("Pod"))
}

#[cfg(test)]
#[path = "endpoints_tests.rs"]
mod tests;
