//! The inbound policy service of the control plane: it answers which clients may connect to a port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use linkerd2_proxy_api::inbound::authn::permit_mesh_tls::{Clients, PermitClientIdentities};
use linkerd2_proxy_api::inbound::authn::{Permit, PermitMeshTls};
use linkerd2_proxy_api::inbound::inbound_server_policies_server::InboundServerPolicies;
use linkerd2_proxy_api::inbound::proxy_protocol::{Detect, Kind, Opaque};
use linkerd2_proxy_api::inbound::{Authn, Authz, IdentitySuffix, Network, PortSpec, ProxyProtocol, Server};
use linkerd2_proxy_api::net::IpNetwork;
use tonic::{Request, Response, Status};

use super::super::environment::DEFAULT_POLICY;
use super::super::names;
use super::{Answers, DETECT_TIMEOUT, Plan, duration, only};

pub(super) struct Service(pub(super) Arc<Plan>);

#[tonic::async_trait]
impl InboundServerPolicies for Service {
    async fn get_port(&self, request: Request<PortSpec>) -> Result<Response<Server>, Status> {
        Ok(Response::new(policy(&self.0, request.get_ref().port)))
    }

    type WatchPortStream = Answers<Server>;

    async fn watch_port(&self, request: Request<PortSpec>) -> Result<Response<Self::WatchPortStream>, Status> {
        Ok(Response::new(only(policy(&self.0, request.get_ref().port))))
    }
}

/// The policy [`DEFAULT_POLICY`], for every port: a client needs a certificate of the authority. A client in the same
/// Pod needs none; the proxy itself adds this exception.
fn policy(plan: &Plan, port: u32) -> Server {
    let is_opaque = plan.is_opaque && plan.pods.iter().any(|pod| u32::from(pod.address.port()) == port);
    let kind = if is_opaque {
        Kind::Opaque(Opaque {})
    } else {
        Kind::Detect(Detect { timeout: duration(DETECT_TIMEOUT), ..Detect::default() })
    };
    let labels = [("group", ""), ("kind", "default"), ("name", DEFAULT_POLICY)];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    // An identity suffix without any DNS labels matches every identity.
    let clients = PermitClientIdentities { suffixes: vec![IdentitySuffix::default()], ..Default::default() };
    let permit = Permit::MeshTls(PermitMeshTls { clients: Some(Clients::Identities(clients)) });
    Server {
        protocol: Some(ProxyProtocol { kind: Some(kind) }),
        authorizations: vec![Authz {
            networks: [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)].map(everything).into(),
            authentication: Some(Authn { permit: Some(permit) }),
            labels: labels.clone().into(),
            metadata: Some(names::default(DEFAULT_POLICY)),
        }],
        labels: labels.into(),
        ..Server::default()
    }
}

/// The network that contains all IPv4 addresses, or all IPv6 addresses. `unspecified` selects the family.
fn everything(unspecified: IpAddr) -> Network {
    Network { net: Some(IpNetwork { ip: Some(unspecified.into()), prefix_len: 0 }), except: Vec::new() }
}

#[cfg(test)]
#[path = "inbound_tests.rs"]
mod tests;
