//! One stream of incremental xDS, from the client's side: requests out, responses in. No sockets, no clock.

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::google::rpc::Status;
use leno_wire::Kind;

use super::knowledge::{Knowledge, Resource};

/// gRPC's INVALID_ARGUMENT, with which a resource is refused.
const INVALID_ARGUMENT: i32 = 3;

/// What has been said on one stream.
#[derive(Debug)]
pub(super) struct Session {
    /// Sent with the first request only.
    node: Option<Node>,
    /// The kinds of which something was asked for.
    begun: [bool; Kind::ALL.len()],
}

impl Session {
    /// A stream on which nothing has been said.
    pub(super) fn new(node: Node) -> Self {
        Self { node: Some(node), begun: Default::default() }
    }

    /// Asks for what is needed now and has not been asked for on this stream, and gives up what is not needed any more. Costs
    /// as much as that is, but for the first request of a kind, which names all.
    pub(super) fn requests(&mut self, knowledge: &mut Knowledge) -> Vec<DeltaDiscoveryRequest> {
        Kind::ALL.into_iter().filter_map(|kind| self.request(kind, knowledge)).collect()
    }

    fn request(&mut self, kind: Kind, knowledge: &mut Knowledge) -> Option<DeltaDiscoveryRequest> {
        let (mut subscribe, mut unsubscribe) = knowledge.take_wishes(kind);
        let begun = self.begun.get_mut(kind.index())?;
        let is_first = !*begun;
        if is_first {
            subscribe = knowledge.wanted(kind).into_iter().collect();
            unsubscribe.clear();
        }
        if subscribe.is_empty() && unsubscribe.is_empty() {
            return None;
        }
        *begun = true;
        // Only the first request of a kind says what is there from an earlier stream.
        let have = is_first.then(|| knowledge.versions(kind));
        Some(DeltaDiscoveryRequest {
            node: self.node.take(),
            type_url: kind.type_url().to_owned(),
            resource_names_subscribe: subscribe,
            resource_names_unsubscribe: unsubscribe,
            initial_resource_versions: have.into_iter().flatten().map(|(n, v)| (n.clone(), v.clone())).collect(),
            ..Default::default()
        })
    }

    /// Takes in a response; the request that acknowledges it says what could not be read.
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

/// Takes in the resources of a response; says what is wrong with the first one that is refused.
fn take(kind: Kind, response: &DeltaDiscoveryResponse, knowledge: &mut Knowledge) -> Option<String> {
    let mut problem = None;
    for resource in &response.resources {
        // A resource that nobody asked for is no answer to anything, and must not fill our memory.
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
