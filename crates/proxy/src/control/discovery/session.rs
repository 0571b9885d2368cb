//! The client's side of one stream of incremental xDS: creates the requests, and applies the responses. Uses no sockets
//! and no clock.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::google::rpc::Status;
use leno_xds::Kind;
use leno_xds::limits::NAME_MAX_BYTES;
use leno_xds::name::INBOUND;

use super::knowledge::{Knowledge, Resource};

/// gRPC's INVALID_ARGUMENT, the code for a rejected resource.
const INVALID_ARGUMENT: i32 = 3;

/// Maximum number of names to subscribe to in one request, and also of names to unsubscribe from. It keeps a request
/// within the 1 MiB that the control plane accepts: a name has up to 512 bytes, and a request contains the name of a
/// known resource twice.
const NAMES_PER_REQUEST: usize = 500;
const _: () = assert!(NAMES_PER_REQUEST * 2 * (NAME_MAX_BYTES + 32) <= 1 << 20);

/// The state of one stream.
#[derive(Debug)]
pub(super) struct Session {
    /// Sent with the first request only.
    node: Option<Node>,
    /// For each kind of resource, whether a request with names was sent. The request for our own policies does not set
    /// this.
    begun: [bool; Kind::ALL.len()],
    /// Whether the stream began with a request for our own policies.
    has_asked_for_policies: bool,
    /// The names that the control plane refused because of a limit, by kind. Only names that the proxy needs are
    /// recorded, so their number is bounded.
    refused: [BTreeSet<String>; Kind::ALL.len()],
}

impl Session {
    /// A stream without any message so far.
    pub(super) fn new(node: Node) -> Self {
        Self { node: Some(node), begun: Default::default(), has_asked_for_policies: false, refused: Default::default() }
    }

    /// Subscribes to names that are needed now, and unsubscribes from names that are no longer needed. Takes time
    /// linear in the number of changes. Only the first request of a kind lists all names.
    pub(super) fn requests(&mut self, knowledge: &mut Knowledge) -> Vec<DeltaDiscoveryRequest> {
        let policies = self.request_for_policies(knowledge);
        let others = Kind::ALL.into_iter().flat_map(|kind| self.requests_of(kind, knowledge));
        policies.into_iter().chain(others).collect()
    }

    /// Begins the stream with a request for our own policies alone. If the names after it exceed a limit of the control
    /// plane, and the control plane ends the stream, it has received this request before, and answers it.
    fn request_for_policies(&mut self, knowledge: &Knowledge) -> Option<DeltaDiscoveryRequest> {
        self.node.as_ref().filter(|_| knowledge.wants(Kind::Listener, INBOUND))?;
        self.has_asked_for_policies = true;
        Some(self.request(Kind::Listener, vec![INBOUND.to_owned()], Vec::new(), knowledge))
    }

    fn requests_of(&mut self, kind: Kind, knowledge: &mut Knowledge) -> Vec<DeltaDiscoveryRequest> {
        let (mut subscribe, mut unsubscribe) = knowledge.take_wishes(kind);
        let Some(begun) = self.begun.get_mut(kind.index()) else { return Vec::new() };
        let is_first = !*begun;
        if is_first {
            subscribe = knowledge.wanted(kind).into_iter().collect();
            unsubscribe.clear();
            if kind == Kind::Listener && self.has_asked_for_policies {
                subscribe.retain(|name| name != INBOUND);
            }
        }
        *begun |= !subscribe.is_empty();
        if let Some(refused) = self.refused.get_mut(kind.index()) {
            for name in subscribe.iter().chain(&unsubscribe) {
                refused.remove(name);
            }
        }
        let mut requests = Vec::new();
        while !subscribe.is_empty() || !unsubscribe.is_empty() {
            let later = |names: &mut Vec<String>| names.split_off(names.len().min(NAMES_PER_REQUEST));
            let (more, less) = (later(&mut subscribe), later(&mut unsubscribe));
            let names = std::mem::replace(&mut subscribe, more);
            let dropped = std::mem::replace(&mut unsubscribe, less);
            requests.push(self.request(kind, names, dropped, knowledge));
        }
        requests
    }

    fn request(
        &mut self,
        kind: Kind,
        subscribe: Vec<String>,
        unsubscribe: Vec<String>,
        knowledge: &Knowledge,
    ) -> DeltaDiscoveryRequest {
        // Lists the versions that we know from an earlier stream, so that the control plane need not send these
        // resources again. Within a stream, we ask twice for a known resource only if the control plane refused its
        // name.
        let known = |name: &String| Some((name.clone(), knowledge.version(kind, name)?.to_owned()));
        DeltaDiscoveryRequest {
            node: self.node.take(),
            type_url: kind.type_url().to_owned(),
            initial_resource_versions: subscribe.iter().filter_map(known).collect(),
            resource_names_subscribe: subscribe,
            resource_names_unsubscribe: unsubscribe,
            ..Default::default()
        }
    }

    /// Number of names that the control plane refuses because of a limit.
    pub(super) fn refused(&self) -> usize {
        self.refused.iter().map(BTreeSet::len).sum()
    }

    /// Whether the control plane refuses a name because of a limit.
    pub(super) fn is_refused(&self, kind: Kind, name: &str) -> bool {
        self.refused.get(kind.index()).is_some_and(|names| names.contains(name))
    }

    /// Makes the next requests ask again for the refused names that are still needed. Leaves out refused Listeners
    /// while names of other kinds are refused. These other names belong to subjects that already have a Listener;
    /// further Listeners would take the room that these subjects need.
    pub(super) fn ask_again(&mut self, knowledge: &mut Knowledge) {
        let is_any_refused = |kind: Kind| self.refused.get(kind.index()).is_some_and(|names| !names.is_empty());
        let waits = Kind::ALL.into_iter().any(|kind| kind != Kind::Listener && is_any_refused(kind));
        for kind in Kind::ALL.into_iter().filter(|kind| !waits || *kind != Kind::Listener) {
            let refused = self.refused.get_mut(kind.index()).map(std::mem::take).unwrap_or_default();
            refused.into_iter().for_each(|name| knowledge.want_again(kind, name));
        }
    }

    /// Records the needed names that the control plane refuses in a response. Returns the control plane's reason;
    /// `None` if it refuses no needed name.
    pub(super) fn refuse(&mut self, response: &DeltaDiscoveryResponse, knowledge: &Knowledge) -> Option<String> {
        let kind = Kind::from_type_url(&response.type_url)?;
        let mut why = None;
        for error in &response.resource_errors {
            let Some(name) = &error.resource_name else { continue };
            // Ignore names that we did not request. Otherwise the control plane could fill our memory.
            if knowledge.wants(kind, &name.name) {
                self.refused.get_mut(kind.index())?.insert(name.name.clone());
                why.get_or_insert_with(|| reason(response));
            }
        }
        why
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

/// Returns the reason why a response refuses names. Only one of its errors has a message, which applies to all refused
/// names.
fn reason(response: &DeltaDiscoveryResponse) -> String {
    let statuses = response.resource_errors.iter().filter_map(|error| error.error_detail.as_ref());
    let message = statuses.map(|status| status.message.as_str()).find(|message| !message.is_empty());
    message.unwrap_or("it gives no reason; look at its log").to_owned()
}

/// Applies the resources of a response; returns the fault of the first rejected resource.
fn take(kind: Kind, response: &DeltaDiscoveryResponse, knowledge: &mut Knowledge) -> Option<String> {
    let mut problem = None;
    if kind == Kind::Listener {
        let refused = response.resource_errors.iter().filter_map(|error| error.resource_name.as_ref());
        refused.for_each(|refused| knowledge.note_response(&refused.name));
    }
    for resource in &response.resources {
        // Ignore resources that we did not request. Otherwise the control plane could fill our memory.
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
