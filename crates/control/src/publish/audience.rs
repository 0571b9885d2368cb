//! Whom a client gets resources as: decided by its certificate, and by its own words where it has none.

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::google::protobuf::{Struct, value::Kind};
use leno_wire::{Dialect, facts};

use super::catalog::Audience;
use crate::accept::Peer;

/// The field of a node's metadata, below [`facts::KEY`], that says whether the client has certificates of the mesh.
pub(crate) const MUTUAL_TLS: &str = "mutual-tls";
/// The field that names the namespace of a client without a certificate.
pub(crate) const NAMESPACE: &str = "namespace";

/// Whom the client gets resources as.
///
/// Every client may see every Service; which routes it gets, consumer routes of a namespace among them, is by the
/// namespace in its certificate.
pub(crate) fn audience(peer: &Peer, node: &Node) -> Audience {
    let own = node.metadata.as_ref().and_then(|metadata| match &metadata.fields.get(facts::KEY)?.kind {
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
    }
}
