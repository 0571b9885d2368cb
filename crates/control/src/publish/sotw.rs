//! State-of-the-world xDS: each request lists every name that the client subscribes to. Each response with clusters or
//! listeners contains all clusters or all listeners to which the client subscribes.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use leno_xds::Kind;

use super::delta::ALL;
use super::refused::RefusedNames;
use super::session::{Answer, Batch, Context, Refusal, Session, Variant};
use super::variant::Exchange;
use super::version::Version;

pub(crate) struct StateOfTheWorld;

impl Exchange for StateOfTheWorld {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;

    const VARIANT: Variant = Variant::StateOfTheWorld;

    fn node(request: &DiscoveryRequest) -> Option<&Node> {
        request.node.as_ref()
    }

    fn names(request: &DiscoveryRequest) -> usize {
        request.resource_names.len()
    }

    fn take(
        session: &mut Session,
        request: &DiscoveryRequest,
        context: Context<'_>,
    ) -> Result<Option<(Kind, Answer)>, Refusal> {
        let Some(kind) = Kind::from_type_url(&request.type_url) else {
            return Ok(None);
        };
        let state = &mut session.kinds[kind.index()];
        let is_stale = state.last_nonce.as_ref().is_some_and(|last| *last != request.response_nonce);
        if is_stale && !request.response_nonce.is_empty() {
            // Ignore a request that answers an older response: the client sends another request once it has read the
            // latest response.
            return Ok(Some((kind, Answer::None)));
        }
        let is_first = !std::mem::replace(&mut state.is_known, true);
        let error = request.error_detail.as_ref().map(|status| status.message.as_str());
        let answer = session.acknowledge(kind, &request.response_nonce, error);

        let wanted: BTreeSet<&str> = request.resource_names.iter().map(String::as_str).collect();
        if wanted.contains(ALL) || (is_first && wanted.is_empty()) {
            session.want_all(kind, true, context)?;
        } else if !wanted.is_empty() {
            session.want_all(kind, false, context)?;
        }
        let state = &session.kinds[kind.index()];
        let is_new = |name: &&&str| **name != ALL && !state.entries.get(**name).is_some_and(|entry| entry.is_named);
        let new: Vec<&str> = wanted.iter().filter(is_new).copied().collect();
        let kept = wanted.len() - usize::from(wanted.contains(ALL)) - new.len();
        // Look for dropped names only if there are any: most requests drop none, and a client that subscribes to all
        // resources has many entries.
        let gone: Vec<_> = if kept < state.named {
            session.unpaid_names += state.entries.len();
            let named = state.entries.iter().filter(|(_, entry)| entry.is_named).map(|(name, _)| name);
            named.filter(|name| !wanted.contains(&***name)).cloned().collect()
        } else {
            Vec::new()
        };
        session.kinds[kind.index()].is_answer_due |= is_first;
        // Unsubscribe first: a client at a limit may replace names in one request.
        for name in gone {
            session.unsubscribe(kind, &name, context);
        }
        // A refused name does not make an answer due. The client repeats the name in each request, and each answer leads
        // to another request, so requests and answers would follow each other for ever.
        let is_any_taken = session.subscribe(kind, new.into_iter(), context)?;
        session.kinds[kind.index()].is_answer_due |= is_any_taken;
        // Do not answer a request for Clusters or Listeners with refused names: the client would delete each of its
        // Clusters or Listeners that the response does not list. End the stream instead.
        if kind.has_wildcard()
            && let Some((refused, _)) = session.take_refused()
        {
            return Err(refused.why.into());
        }
        Ok(Some((kind, answer)))
    }

    fn respond(batch: Batch) -> DiscoveryResponse {
        let resources = batch.resources.iter().map(|(name, written)| (name.as_ref(), written.version));
        DiscoveryResponse {
            version_info: Version::of_resources(resources).to_string(),
            type_url: batch.kind.type_url().to_owned(),
            nonce: batch.nonce,
            resources: batch.resources.iter().map(|(_, written)| written.any.clone()).collect(),
            ..Default::default()
        }
    }

    /// Returns `None`: state-of-the-world xDS cannot report an error about a single name.
    fn refuse(_: &RefusedNames, _: String) -> Option<DiscoveryResponse> {
        None
    }
}

#[cfg(test)]
#[path = "sotw_tests.rs"]
mod tests;
