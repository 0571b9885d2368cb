use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leno_http2::{FieldSection, StreamKey};
use leno_model::balance::{EndpointId, Outcome, Policy};
use leno_model::mesh::ClusterKey;

use super::*;
use crate::call::Call;
use crate::downstream::accounts::Lane;
use crate::limits::RelayLimits;
use crate::pool::hop;
use crate::target::cluster::{ClusterId, Standing, single};

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 8080))
}

fn key() -> ClusterKey {
    ClusterKey { namespace: "shop".into(), service: "cart".into(), port: 80 }
}

/// Returns the state of a Service with this number of endpoints.
fn service(endpoints: u8, protocol: Protocol, now: Instant) -> ClusterState {
    let mut cluster = (*single(address(1), None)).clone();
    cluster.endpoints = (1..=endpoints).flat_map(|last| single(address(last), None).endpoints.clone()).collect();
    (cluster.key, cluster.protocol, cluster.balancer) = (key(), protocol, Policy::Latency);
    ClusterState::new(TargetKey::Service(key()), Arc::new(cluster), 1, now)
}

fn shown(metrics: &WorkerMetrics) -> (u64, u64) {
    let endpoints = metrics.endpoints(&key());
    (endpoints.ready.get(), endpoints.pending.get())
}

#[test]
fn endpoints_are_pending_while_connections_or_calls_to_them_fail() {
    let now = Instant::now();
    let mut state = service(3, Protocol::Detect, now);
    let (mut pools, metrics) = (Pools::default(), WorkerMetrics::new());
    state.report_endpoints(&pools, &metrics);
    assert_eq!(shown(&metrics), (3, 0));

    let call = Call::new((None, StreamKey::numbered(0)), FieldSection::new(), hop::Protocol::Http2, true, now);
    let ids: Vec<_> = state.members.iter().map(|member| member.id).collect();
    let [first, second, _] = ids[..] else { panic!("three endpoints") };
    let pool = state.pool(ClusterId::numbered(0), first, &call, Lane::Shared, &mut pools).expect("a pool");
    pools.get_mut(pool).expect("a pool").back_off(now, "refused".to_owned(), 0, &RelayLimits::default());
    state.note_busy();
    state.report_endpoints(&pools, &metrics);
    assert_eq!(shown(&metrics), (2, 1), "no connection can be opened");

    let mut make_calls = |at: Instant, endpoint: EndpointId, outcome: Outcome| {
        for _ in 0..20 {
            let pick = state.balancer.pick(at, |id| id == endpoint).expect("the endpoint");
            state.balancer.finish(at, pick, outcome);
        }
    };
    let latency = Duration::from_millis(1);
    ids.iter().for_each(|id| make_calls(now, *id, Outcome::Success { latency }));
    // An endpoint is failing only if it has failed too often for a while.
    for after_ms in [1_000, 1_100] {
        let failure = Outcome::Failure { latency, pushback: None };
        make_calls(now + Duration::from_millis(after_ms), second, failure);
    }
    state.report_endpoints(&pools, &metrics);
    assert_eq!(shown(&metrics), (1, 2), "the second endpoint fails");

    drop(state);
    assert_eq!(shown(&metrics), (0, 0), "the Service is not in use any more");
}

#[test]
fn a_removed_service_leaves_its_metrics_to_the_service_that_replaces_it() {
    let (now, metrics, pools) = (Instant::now(), WorkerMetrics::new(), Pools::default());
    let mut removed = service(3, Protocol::Detect, now);
    removed.report_endpoints(&pools, &metrics);
    removed.lose(now, Standing::Removed);
    assert_eq!(shown(&metrics), (0, 0));
    let mut replacement = service(2, Protocol::Detect, now);
    replacement.report_endpoints(&pools, &metrics);
    drop(removed);
    assert_eq!(shown(&metrics), (2, 0));
}

#[test]
fn only_services_with_http_have_the_metrics() {
    let (now, metrics, pools) = (Instant::now(), WorkerMetrics::new(), Pools::default());
    let mut opaque = service(1, Protocol::Opaque, now);
    let mut alone = ClusterState::new(TargetKey::Address(address(1)), single(address(1), None), 1, now);
    for state in [&mut opaque, &mut alone] {
        state.report_endpoints(&pools, &metrics);
        assert!(state.reported_endpoints.is_none());
    }
}

#[test]
fn a_service_that_becomes_opaque_has_no_endpoints_in_these_metrics() {
    let now = Instant::now();
    let mut state = service(3, Protocol::Detect, now);
    let (pools, metrics) = (Pools::default(), WorkerMetrics::new());
    state.report_endpoints(&pools, &metrics);
    assert_eq!(shown(&metrics), (3, 0));
    let mut opaque = (*state.cluster).clone();
    opaque.protocol = Protocol::Opaque;
    state.cluster = Arc::new(opaque);
    state.report_endpoints(&pools, &metrics);
    assert_eq!(shown(&metrics), (0, 0));
}
