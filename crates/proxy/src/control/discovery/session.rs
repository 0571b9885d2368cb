//! One stream of incremental xDS on the client's side: requests out, responses in. No sockets, no clock.

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::google::rpc::Status;
use leno_xds::Kind;
use leno_xds::limits::NAME_MAX_BYTES;

use super::knowledge::{Knowledge, Resource};

/// gRPC's INVALID_ARGUMENT, the code for a rejected resource.
const INVALID_ARGUMENT: i32 = 3;

/// Maximum number of names to subscribe to, and of names to unsubscribe from, in one request. The control plane accepts
/// requests of 1 MiB, a name has up to 512 bytes, and the name of a known resource is in a request twice.
const NAMES_PER_REQUEST: usize = 500;
const _: () = assert!(NAMES_PER_REQUEST * 2 * (NAME_MAX_BYTES + 32) <= 1 << 20);

/// The state of one stream.
#[derive(Debug)]
pub(super) struct Session {
    /// Sent with the first request only.
    node: Option<Node>,
    /// The kinds for which a request was sent.
    begun: [bool; Kind::ALL.len()],
}

impl Session {
    /// A stream without any message so far.
    pub(super) fn new(node: Node) -> Self {
        Self { node: Some(node), begun: Default::default() }
    }

    /// Subscribes to names that are needed now, and unsubscribes from names that are no longer needed. Takes time
    /// linear in these changes, except for the first request of a kind, which lists all names.
    pub(super) fn requests(&mut self, knowledge: &mut Knowledge) -> Vec<DeltaDiscoveryRequest> {
        Kind::ALL.into_iter().flat_map(|kind| self.requests_of(kind, knowledge)).collect()
    }

    fn requests_of(&mut self, kind: Kind, knowledge: &mut Knowledge) -> Vec<DeltaDiscoveryRequest> {
        let (mut subscribe, mut unsubscribe) = knowledge.take_wishes(kind);
        let Some(begun) = self.begun.get_mut(kind.index()) else { return Vec::new() };
        let is_first = !*begun;
        if is_first {
            subscribe = knowledge.wanted(kind).into_iter().collect();
            unsubscribe.clear();
        }
        *begun |= !subscribe.is_empty();
        let mut requests = Vec::new();
        while !subscribe.is_empty() || !unsubscribe.is_empty() {
            let later = |names: &mut Vec<String>| names.split_off(names.len().min(NAMES_PER_REQUEST));
            let (more, less) = (later(&mut subscribe), later(&mut unsubscribe));
            let names = std::mem::replace(&mut subscribe, more);
            // The resources that are known from an earlier stream, and that need not be sent again.
            let known = |name: &String| Some((name.clone(), knowledge.version(kind, name)?.to_owned()));
            requests.push(DeltaDiscoveryRequest {
                node: self.node.take(),
                type_url: kind.type_url().to_owned(),
                initial_resource_versions: names.iter().filter(|_| is_first).filter_map(known).collect(),
                resource_names_subscribe: names,
                resource_names_unsubscribe: std::mem::replace(&mut unsubscribe, less),
                ..Default::default()
            });
        }
        requests
    }

    /// Applies a response; the returned request acknowledges the response, or rejects it and names the fault of the
    /// first rejected resource.
    pub(super) fn respond(
        &mut self,
        response: &DeltaDiscoveryResponse,
        knowledge: &mut Knowledge,
    ) -> DeltaDiscoveryRequest {
        let problem = match Kind::from_type_url(&response.type_url) {
            Some(kind) => take(kind, response, knowledge),
            None => Some(format!("{} was never asked for", response.type_url.escape_debug())),
        };
        DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            error_detail: problem.map(|message| Status { code: INVALID_ARGUMENT, message, ..Default::default() }),
            ..Default::default()
        }
    }
}

/// Applies the resources of a response; returns the fault of the first rejected resource.
fn take(kind: Kind, response: &DeltaDiscoveryResponse, knowledge: &mut Knowledge) -> Option<String> {
    let mut problem = None;
    for resource in &response.resources {
        // Ignore unrequested resources: they must not fill our memory.
        let Some(any) = resource.resource.as_ref().filter(|_| knowledge.wants(kind, &resource.name)) else { continue };
        let taken = Resource { version: &resource.version, bytes: &any.value };
        if let Err(unreadable) = knowledge.take(kind, &resource.name, Some(taken)) {
            tracing::warn!("the control plane's {} is refused: {unreadable}", kind.name());
            problem.get_or_insert_with(|| unreadable.to_string());
        }
    }
    for name in &response.removed_resources {
        if knowledge.wants(kind, name)
            && let Err(unreadable) = knowledge.take(kind, name, None)
        {
            problem.get_or_insert_with(|| unreadable.to_string());
        }
    }
    knowledge.settle();
    problem
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
