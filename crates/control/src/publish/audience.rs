//! Derives a client's [`Audience`] from its certificate, its address, and the node in its first request.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::google::protobuf::{Struct, value::Kind};
use leno_xds::Dialect;
use leno_xds::facts::{KEY, MUTUAL_TLS, NAMESPACE};

use super::catalog::Audience;
use crate::accept::Peer;

/// Returns the audience of a client: the properties that decide what its resources contain.
///
/// Every client may see every Service. The namespace in a client's certificate selects its routes, consumer routes
/// included. The workload in the certificate selects its policies. A client without a certificate runs on this machine.
/// It gets all policies of its namespace, and itself selects the policies of its own workload. A Pod's proxy connects
/// from the Pod's address, so the address shows which Services have the Pod as an endpoint.
pub(crate) fn audience(peer: &Peer, node: &Node, cluster_domain: Arc<str>) -> Audience {
    let own = node.metadata.as_ref().and_then(|metadata| match &metadata.fields.get(KEY)?.kind {
        Some(Kind::StructValue(own)) => Some(own),
        _ => None,
    });
    let field = |own: &Struct, name: &str| own.fields.get(name).and_then(|value| value.kind.clone());
    let said = |name: &str| own.and_then(|own| field(own, name));
    let namespace = match (&peer.identity, said(NAMESPACE)) {
        (Some(identity), _) => identity.workload.namespace.as_ref().into(),
        (None, Some(Kind::StringValue(namespace))) if namespace.len() <= 63 => namespace.into(),
        (None, _) => "default".into(),
    };
    Audience {
        dialect: Dialect::of_user_agent(&node.user_agent_name),
        mutual_tls: matches!(said(MUTUAL_TLS), Some(Kind::BoolValue(true))),
        namespace,
        cluster_domain,
        service_account: peer.identity.as_ref().map(|identity| identity.workload.service_account.as_ref().into()),
        pod: peer.identity.as_ref().map(|_| peer.address.ip().to_canonical()),
    }
}
