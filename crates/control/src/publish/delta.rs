//! Incremental xDS: a client subscribes and unsubscribes by name, and gets only changed resources.

use std::collections::HashSet;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource};
use leno_xds::Kind;

use super::refused::RefusedNames;
use super::session::{Answer, Batch, Context, Refusal, Session, Variant};
use super::variant::Exchange;

/// The name by which a client subscribes to all resources.
pub(super) const ALL: &str = "*";

pub(crate) struct Delta;

impl Exchange for Delta {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;

    const VARIANT: Variant = Variant::Delta;

    fn node(request: &DeltaDiscoveryRequest) -> Option<&Node> {
        request.node.as_ref()
    }

    fn names(request: &DeltaDiscoveryRequest) -> usize {
        let changes = request.resource_names_subscribe.len() + request.resource_names_unsubscribe.len();
        changes + request.initial_resource_versions.len()
    }

    fn take(
        session: &mut Session,
        request: &DeltaDiscoveryRequest,
        context: Context<'_>,
    ) -> Result<Option<(Kind, Answer)>, Refusal> {
        let Some(kind) = Kind::from_type_url(&request.type_url) else {
            return Ok(None);
        };
        let error = request.error_detail.as_ref().map(|status| status.message.as_str());
        let answer = session.acknowledge(kind, &request.response_nonce, error);
        let is_first = !std::mem::replace(&mut session.kinds[kind.index()].is_known, true);
        let says_nothing = request.resource_names_subscribe.is_empty() && request.resource_names_unsubscribe.is_empty();
        if is_first && says_nothing {
            session.want_all(kind, true, context)?;
        }
        // Unsubscribe first: a client at a limit may replace names in one request.
        for name in &request.resource_names_unsubscribe {
            if name == ALL {
                session.want_all(kind, false, context)?;
            } else {
                session.unsubscribe(kind, name, context);
            }
        }
        if request.resource_names_subscribe.iter().any(|name| name == ALL) {
            session.want_all(kind, true, context)?;
        }
        let names = request.resource_names_subscribe.iter().map(String::as_str).filter(|name| *name != ALL);
        session.subscribe(kind, names, context)?;
        // A client with many names sends several requests. Each request has the versions of only its own names.
        let names: HashSet<&String> = request.resource_names_subscribe.iter().collect();
        let claims = request.initial_resource_versions.iter().filter(|(name, _)| is_first || names.contains(name));
        session.has(kind, claims.map(|(name, version)| (name.as_str(), version.as_str())));
        Ok(Some((kind, answer)))
    }

    fn respond(batch: Batch) -> DeltaDiscoveryResponse {
        let resource = |(name, written): (std::sync::Arc<str>, std::sync::Arc<super::catalog::Written>)| Resource {
            name: name.to_string(),
            version: written.version.to_string(),
            resource: Some(written.any.clone()),
            ..Default::default()
        };
        DeltaDiscoveryResponse {
            type_url: batch.kind.type_url().to_owned(),
            nonce: batch.nonce,
            resources: batch.resources.into_iter().map(resource).collect(),
            removed_resources: batch.removed.iter().map(ToString::to_string).collect(),
            ..Default::default()
        }
    }

    fn refuse(refused: &RefusedNames, nonce: String) -> Option<DeltaDiscoveryResponse> {
        Some(DeltaDiscoveryResponse {
            type_url: refused.kind.type_url().to_owned(),
            nonce,
            resource_errors: refused.errors(),
            ..Default::default()
        })
    }
}

#[cfg(test)]
#[path = "delta_tests.rs"]
mod tests;
