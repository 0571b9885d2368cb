//! Mutual TLS from a client with certificates of the mesh to an endpoint behind a proxy. The client checks the proxy's
//! SPIFFE id. The server name `<target port>.leno.internal` shows that the TLS connection is to the proxy itself, and
//! not to the application.
//!
//! The client's bootstrap configures the location of its certificates, as [`CERTIFICATE`] and [`TRUST`] (Envoy's static
//! secrets) or [`PROVIDER`] (gRPC's certificate provider).

use std::collections::BTreeSet;

use leno_model::mesh::{Cluster, Endpoint};
use leno_model::protocol::Protocol;
use leno_model::spiffe::{SpiffeId, TrustDomain, Workload};

use crate::matcher::exactly;
use crate::pb::cluster::cluster::TransportSocketMatch;
use crate::pb::core::{TransportSocket, transport_socket};
use crate::pb::{RawBuffer, Struct, Value, core, matcher, tls, value};
use crate::proto::any;
use crate::view::{Dialect, View};

/// The secret in Envoy's bootstrap with the SVID and its key.
pub(crate) const CERTIFICATE: &str = "leno-svid";
/// The secret in Envoy's bootstrap with the trust bundle.
pub(crate) const TRUST: &str = "leno-trust";
/// The certificate provider in gRPC's bootstrap.
pub(crate) const PROVIDER: &str = "leno";
/// The endpoint metadata by which Envoy selects a transport socket.
const MATCH_METADATA: &str = "envoy.transport_socket_match";
/// The only field of [`MATCH_METADATA`]. Its value is the peer's server name and workload, separated by a space.
const MATCH_FIELD: &str = "leno.dev/peer";

/// The workload whose identity the endpoint must prove, and the port in the server name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ExpectedPeer<'a> {
    target_port: u16,
    identity: &'a Workload,
}

impl<'a> ExpectedPeer<'a> {
    fn of(endpoint: &'a Endpoint) -> Option<Self> {
        let proxy = endpoint.proxy.as_ref()?;
        Some(Self { target_port: endpoint.address.port(), identity: &proxy.identity })
    }

    fn server_name(&self) -> String {
        format!("{}.leno.internal", self.target_port)
    }

    fn label(&self) -> Struct {
        let text = format!("{} {}", self.server_name(), self.identity);
        Struct { fields: [(MATCH_FIELD.to_owned(), Value { kind: Some(value::Kind::StringValue(text)) })].into() }
    }
}

/// Returns the peers that Envoy and gRPC can reach by mutual TLS. Returns no peers for two protocols that Envoy and
/// gRPC cannot speak to a proxy: opaque bytes would need a tunnel, and HTTP/1 would need the fields that leno-proxy
/// adds.
fn peers(cluster: &Cluster) -> BTreeSet<ExpectedPeer<'_>> {
    if !matches!(cluster.protocol, Protocol::Http2 | Protocol::Detect) {
        return BTreeSet::new();
    }
    cluster.endpoints.iter().chain(&cluster.unready_endpoints).filter_map(ExpectedPeer::of).collect()
}

/// Returns whether [`write`](crate::cluster::write) gives two versions of a cluster the same transport sockets.
pub fn has_same_peers(a: &Cluster, b: &Cluster) -> bool {
    peers(a) == peers(b) && reached_by_grpc(a) == reached_by_grpc(b)
}

/// Returns whether a client uses mutual TLS to the cluster's endpoints behind proxies.
pub(crate) fn is_used(cluster: &Cluster, view: View<'_>) -> bool {
    view.mutual_tls.is_some()
        && match view.dialect {
            Dialect::Envoy => !peers(cluster).is_empty(),
            Dialect::Grpc => reached_by_grpc(cluster).is_some(),
        }
}

/// Returns Envoy's transport sockets, one for each peer. Endpoints without a proxy are reached without TLS.
pub(crate) fn socket_matches(cluster: &Cluster, trust_domain: &TrustDomain) -> Vec<TransportSocketMatch> {
    let peers = peers(cluster);
    if peers.is_empty() {
        return Vec::new();
    }
    let secure = |peer: ExpectedPeer<'_>| TransportSocketMatch {
        name: format!("{} {}", peer.server_name(), peer.identity),
        r#match: Some(peer.label()),
        transport_socket: Some(socket(&envoy_context(&peer, trust_domain))),
    };
    let clear = TransportSocketMatch {
        name: "clear".to_owned(),
        r#match: Some(Struct::default()),
        transport_socket: Some(TransportSocket {
            name: "envoy.transport_sockets.raw_buffer".to_owned(),
            config_type: Some(transport_socket::ConfigType::TypedConfig(any(&RawBuffer::default()))),
        }),
    };
    peers.into_iter().map(secure).chain([clear]).collect()
}

/// Adds the metadata that [`socket_matches`] matches.
pub(crate) fn mark(endpoint: &Endpoint, metadata: core::Metadata) -> core::Metadata {
    match ExpectedPeer::of(endpoint) {
        Some(peer) => {
            core::Metadata { filter_metadata: [(MATCH_METADATA.to_owned(), peer.label())].into(), ..metadata }
        }
        None => metadata,
    }
}

#[allow(deprecated, reason = "gRPC reads the names of peers in the older field only")]
/// Returns the transport socket of a cluster for gRPC, which supports only one socket for all endpoints. So gRPC can use
/// mutual TLS only if all endpoints have the same server name.
pub(crate) fn grpc_socket(cluster: &Cluster, trust_domain: &TrustDomain) -> Option<TransportSocket> {
    let peers = reached_by_grpc(cluster)?;
    let first = peers.first()?;
    let provider = || tls::CertificateProviderPluginInstance {
        instance_name: PROVIDER.to_owned(),
        certificate_name: String::new(),
    };
    let validation = tls::CertificateValidationContext {
        ca_certificate_provider_instance: Some(provider()),
        match_subject_alt_names: peers.iter().map(|peer| id_of(peer, trust_domain)).collect(),
        ..Default::default()
    };
    let common = tls::CommonTlsContext {
        tls_certificate_provider_instance: Some(provider()),
        validation_context_type: Some(tls::common_tls_context::ValidationContextType::ValidationContext(validation)),
        ..Default::default()
    };
    Some(socket(&tls::UpstreamTlsContext {
        sni: first.server_name(),
        common_tls_context: Some(common),
        ..Default::default()
    }))
}

/// Returns the peers, if every endpoint has a proxy and all peers have the same server name.
fn reached_by_grpc(cluster: &Cluster) -> Option<BTreeSet<ExpectedPeer<'_>>> {
    if peers(cluster).is_empty() {
        return None;
    }
    let peers: BTreeSet<_> = cluster.endpoints.iter().map(ExpectedPeer::of).collect::<Option<_>>()?;
    let first = peers.first()?.target_port;
    peers.iter().all(|peer| peer.target_port == first).then_some(peers)
}

fn envoy_context(peer: &ExpectedPeer<'_>, trust_domain: &TrustDomain) -> tls::UpstreamTlsContext {
    let secret = |name: &str| tls::SdsSecretConfig { name: name.to_owned(), sds_config: None };
    let san = tls::SubjectAltNameMatcher {
        san_type: tls::subject_alt_name_matcher::SanType::Uri.into(),
        matcher: Some(id_of(peer, trust_domain)),
        ..Default::default()
    };
    let combined = tls::common_tls_context::CombinedCertificateValidationContext {
        default_validation_context: Some(tls::CertificateValidationContext {
            match_typed_subject_alt_names: vec![san],
            ..Default::default()
        }),
        validation_context_sds_secret_config: Some(secret(TRUST)),
        ..Default::default()
    };
    let common = tls::CommonTlsContext {
        tls_params: Some(tls::TlsParameters {
            tls_minimum_protocol_version: tls::tls_parameters::TlsProtocol::TlSv13.into(),
            tls_maximum_protocol_version: tls::tls_parameters::TlsProtocol::TlSv13.into(),
            ..Default::default()
        }),
        tls_certificate_sds_secret_configs: vec![secret(CERTIFICATE)],
        alpn_protocols: vec!["h2".to_owned()],
        validation_context_type: Some(tls::common_tls_context::ValidationContextType::CombinedValidationContext(
            combined,
        )),
        ..Default::default()
    };
    tls::UpstreamTlsContext { sni: peer.server_name(), common_tls_context: Some(common), ..Default::default() }
}

fn id_of(peer: &ExpectedPeer<'_>, trust_domain: &TrustDomain) -> matcher::StringMatcher {
    let id = SpiffeId { trust_domain: trust_domain.clone(), workload: peer.identity.clone() };
    exactly(&id.to_string())
}

fn socket(context: &tls::UpstreamTlsContext) -> TransportSocket {
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(any(context))),
    }
}
