//! The destination service of the control plane: it answers with the endpoints of the Service.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use linkerd2_proxy_api::destination::destination_server::Destination;
use linkerd2_proxy_api::destination::http2_client_params::KeepAlive;
use linkerd2_proxy_api::destination::protocol_hint::{H2, Opaque, OpaqueTransport, Protocol};
use linkerd2_proxy_api::destination::tls_identity::{DnsLikeIdentity, Strategy};
use linkerd2_proxy_api::destination::update::Update as Kind;
use linkerd2_proxy_api::destination::{
    DestinationProfile, GetDestination, Http2ClientParams, NoEndpoints, ProtocolHint, RetryBudget, TlsIdentity, Update,
    WeightedAddr, WeightedAddrSet,
};
use tonic::{Request, Response, Status};

use super::super::names;
use super::{Answers, Plan, Pod, duration, only};
use crate::tls::SERVER;

/// The weight of every endpoint: the value that Linkerd's own destination service sends.
const WEIGHT: u32 = 10_000;
/// Interval of the pings on connections between proxies: the default of Linkerd's Helm chart.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum time for the peer to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Service(pub(super) Arc<Plan>);

#[tonic::async_trait]
impl Destination for Service {
    type GetStream = Answers<Update>;

    /// Answers with the endpoints of the Service. For any other path, answers that the Service does not exist.
    async fn get(&self, request: Request<GetDestination>) -> Result<Response<Self::GetStream>, Status> {
        let is_known = request.get_ref().path == names::path(self.0.service);
        let none = Kind::NoEndpoints(NoEndpoints { exists: false });
        let update = if is_known { Kind::Add(endpoints(&self.0)) } else { none };
        Ok(Response::new(only(Update { update: Some(update) })))
    }

    type GetProfileStream = Answers<DestinationProfile>;

    /// Answers with a profile. For the Service, this is the profile that Linkerd sends if there is no ServiceProfile.
    /// For any other address, it is an empty profile.
    async fn get_profile(&self, request: Request<GetDestination>) -> Result<Response<Self::GetProfileStream>, Status> {
        let is_known = request.get_ref().path == self.0.service.to_string();
        Ok(Response::new(only(if is_known { profile(&self.0) } else { DestinationProfile::default() })))
    }
}

fn profile(plan: &Plan) -> DestinationProfile {
    DestinationProfile {
        fully_qualified_name: names::fully_qualified(),
        opaque_protocol: plan.is_opaque,
        retry_budget: Some(RetryBudget {
            retry_ratio: 0.2,
            min_retries_per_second: 10,
            ttl: duration(Duration::from_secs(10)),
        }),
        parent_ref: Some(names::reference(plan.service)),
        ..DestinationProfile::default()
    }
}

fn endpoints(plan: &Plan) -> WeightedAddrSet {
    let of_service = [("namespace", names::NAMESPACE), ("service", names::SERVICE)];
    WeightedAddrSet {
        addrs: plan.pods.iter().enumerate().map(|(index, pod)| endpoint(index, pod, plan.is_opaque)).collect(),
        metric_labels: labels(&of_service),
    }
}

/// Describes an endpoint with an inbound proxy. Other proxies connect to the inbound proxy's own port, and send a
/// transport header with the application's port.
fn endpoint(index: usize, pod: &Pod, is_opaque: bool) -> WeightedAddr {
    let name = format!("{}-{}", names::SERVICE, index + 1);
    let identity = DnsLikeIdentity { name: names::identity(SERVER) };
    let protocol = if is_opaque { Protocol::Opaque(Opaque {}) } else { Protocol::H2(H2 {}) };
    WeightedAddr {
        addr: Some(pod.address.into()),
        weight: WEIGHT,
        metric_labels: labels(&[
            ("control_plane_ns", "linkerd"),
            ("pod", &name),
            ("serviceaccount", "server"),
            ("statefulset", names::SERVICE),
            ("zone", ""),
        ]),
        tls_identity: Some(TlsIdentity {
            strategy: Some(Strategy::DnsLikeIdentity(identity.clone())),
            server_name: Some(identity),
        }),
        protocol_hint: Some(ProtocolHint {
            protocol: Some(protocol),
            opaque_transport: Some(OpaqueTransport { inbound_port: pod.inbound.port().into() }),
        }),
        http2: Some(Http2ClientParams {
            keep_alive: Some(KeepAlive {
                interval: duration(PING_INTERVAL),
                timeout: duration(PING_TIMEOUT),
                while_idle: true,
            }),
            ..Http2ClientParams::default()
        }),
        ..WeightedAddr::default()
    }
}

fn labels(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
#[path = "destination_tests.rs"]
mod tests;
