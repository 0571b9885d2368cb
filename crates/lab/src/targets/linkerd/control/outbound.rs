//! The outbound policy service of the control plane: it answers with the routes and the balancer of the Service.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linkerd2_proxy_api::http_route::{HttpRouteMatch, PathMatch, Timeouts, path_match};
use linkerd2_proxy_api::outbound::backend::balance_p2c::{Load, PeakEwma};
use linkerd2_proxy_api::outbound::backend::endpoint_discovery::{DestinationGet, Kind as Discovery};
use linkerd2_proxy_api::outbound::backend::{BalanceP2c, EndpointDiscovery, Kind as BackendKind};
use linkerd2_proxy_api::outbound::outbound_policies_server::OutboundPolicies;
use linkerd2_proxy_api::outbound::proxy_protocol::{Detect, Http1, Http2, Kind, Opaque};
use linkerd2_proxy_api::outbound::traffic_spec::Target;
use linkerd2_proxy_api::outbound::{
    Backend, HttpRoute, OpaqueRoute, OutboundPolicy, ProxyProtocol, Queue, TrafficSpec, http_route, opaque_route,
};
use tonic::{Request, Response, Status};

use super::super::names;
use super::{Answers, DETECT_TIMEOUT, Plan, duration, only};

/// The latency that the balancer assumes for an endpoint before its first answer.
const DEFAULT_RTT: Duration = Duration::from_millis(30);
/// Time constant with which the balancer's latency estimate decays.
const DECAY: Duration = Duration::from_secs(10);
/// Maximum number of calls that may wait for an endpoint to be ready.
const QUEUE_CALLS: u32 = 100;
/// If no endpoint has been ready for this time, the waiting calls fail.
const FAILFAST_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Service(pub(super) Arc<Plan>);

#[tonic::async_trait]
impl OutboundPolicies for Service {
    async fn get(&self, request: Request<TrafficSpec>) -> Result<Response<OutboundPolicy>, Status> {
        self.policy_for(request.get_ref()).map(Response::new)
    }

    type WatchStream = Answers<OutboundPolicy>;

    async fn watch(&self, request: Request<TrafficSpec>) -> Result<Response<Self::WatchStream>, Status> {
        Ok(Response::new(only(self.policy_for(request.get_ref())?)))
    }
}

impl Service {
    /// The policy for the Service. Returns an error for any other destination, so that the proxy forwards the
    /// connection without a policy.
    fn policy_for(&self, traffic: &TrafficSpec) -> Result<OutboundPolicy, Status> {
        let is_service = match &traffic.target {
            Some(Target::Addr(address)) => {
                SocketAddr::try_from(*address).is_ok_and(|address| address == self.0.service)
            }
            Some(Target::Authority(authority)) => *authority == names::path(self.0.service),
            None => false,
        };
        if is_service { Ok(policy(&self.0)) } else { Err(Status::not_found("the lab has one Service only")) }
    }
}

fn policy(plan: &Plan) -> OutboundPolicy {
    let opaque = Opaque { routes: vec![opaque_route(plan)] };
    let kind = if plan.is_opaque {
        Kind::Opaque(opaque)
    } else {
        Kind::Detect(Detect {
            timeout: duration(DETECT_TIMEOUT),
            opaque: Some(opaque),
            http1: Some(Http1 { routes: vec![route(plan)], failure_accrual: None }),
            http2: Some(Http2 { routes: vec![route(plan)], failure_accrual: None }),
        })
    };
    OutboundPolicy {
        protocol: Some(ProxyProtocol { kind: Some(kind) }),
        metadata: Some(names::reference(plan.service)),
    }
}

/// The default route, which Linkerd sends for a Service without HTTPRoutes. It matches all requests.
fn route(plan: &Plan) -> HttpRoute {
    let every_path = PathMatch { kind: Some(path_match::Kind::Prefix("/".to_owned())) };
    let backend = http_route::RouteBackend { backend: Some(backend(plan)), ..http_route::RouteBackend::default() };
    let first = http_route::distribution::FirstAvailable { backends: vec![backend] };
    let rule = http_route::Rule {
        matches: vec![HttpRouteMatch { path: Some(every_path), ..HttpRouteMatch::default() }],
        backends: Some(http_route::Distribution { kind: Some(http_route::distribution::Kind::FirstAvailable(first)) }),
        timeouts: Some(Timeouts::default()),
        ..http_route::Rule::default()
    };
    HttpRoute { metadata: Some(names::default("http")), rules: vec![rule], ..HttpRoute::default() }
}

/// The route for connections with another protocol than HTTP.
fn opaque_route(plan: &Plan) -> OpaqueRoute {
    let backend = opaque_route::RouteBackend { backend: Some(backend(plan)), filters: Vec::new() };
    let first = opaque_route::distribution::FirstAvailable { backends: vec![backend] };
    let backends = opaque_route::Distribution { kind: Some(opaque_route::distribution::Kind::FirstAvailable(first)) };
    let rule = opaque_route::Rule { backends: Some(backends), filters: Vec::new() };
    OpaqueRoute { metadata: Some(names::default("opaq")), rules: vec![rule] }
}

fn backend(plan: &Plan) -> Backend {
    let discovery =
        EndpointDiscovery { kind: Some(Discovery::Dst(DestinationGet { path: names::path(plan.service) })) };
    let load = PeakEwma { default_rtt: duration(DEFAULT_RTT), decay: duration(DECAY) };
    Backend {
        metadata: Some(names::reference(plan.service)),
        queue: Some(Queue { capacity: QUEUE_CALLS, failfast_timeout: duration(FAILFAST_TIMEOUT) }),
        kind: Some(BackendKind::Balancer(BalanceP2c { discovery: Some(discovery), load: Some(Load::PeakEwma(load)) })),
    }
}

#[cfg(test)]
#[path = "outbound_tests.rs"]
mod tests;
