use std::time::Duration;

use leno_http2::{FieldSection, StreamKey};
use leno_model::balance::Outcome;
use leno_model::mesh::EndpointProxy;

use super::*;
use crate::call::attempt::AttemptId;
use crate::limits::RelayLimits;
use crate::pool::hop;
use crate::pool::liveness::SILENT_AFTER;
use crate::pool::pools::tests::{let_doubt, upstream};
use crate::pool::upstream::UpstreamId;

#[test]
fn a_target_has_a_host_as_clients_write_it() {
    let service = |port| TargetKey::Service(ClusterKey { namespace: "shop".into(), service: "web".into(), port });
    assert_eq!(service(8080).host(), "web.shop.svc.cluster.local:8080");
    assert_eq!(service(80).host(), "web.shop.svc.cluster.local");
    for (address, host) in [
        ("10.0.0.1:8080", "10.0.0.1:8080"),
        ("10.0.0.1:80", "10.0.0.1"),
        ("[fd00::1]:8080", "[fd00::1]:8080"),
        ("[fd00::1]:80", "[fd00::1]"),
    ] {
        let address = address.parse().expect("an address");
        assert_eq!(TargetKey::Address(address).host(), host);
        assert_eq!(TargetKey::Local(address).host(), host);
    }
}

fn state_of(address: SocketAddr, now: Instant) -> ClusterState {
    ClusterState::new(TargetKey::Address(address), single(address, None), 1, now)
}

fn a_call(now: Instant) -> Call {
    Call::new((None, StreamKey::numbered(0)), FieldSection::new(), hop::Protocol::Http2, true, now)
}

#[test]
fn an_endpoint_with_a_full_queue_gets_no_call_until_its_queue_is_empty() {
    let now = Instant::now();
    let mut state = state_of("10.0.0.1:8080".parse().expect("an address"), now);
    let (mut pools, call, own) = (Pools::default(), a_call(now), ClusterId::numbered(0));
    let endpoint = state.members.iter().next().expect("one endpoint").id;
    let pool = state.pool(own, endpoint, &call, Lane::Shared, &mut pools).expect("a pool");
    let turn = pools.join(pool, AttemptId::numbered(0), true);

    state.may_be_busy = true;
    state.check_pools(now, &mut pools, &RelayLimits::default());
    assert!(state.may_be_busy && state.pick(now, (&call, Choice::Any), Lane::Shared, &pools, 1).is_none());
    pools.leave(pool, turn);
    state.check_pools(now, &mut pools, &RelayLimits::default());
    assert!(!state.may_be_busy && state.pick(now, (&call, Choice::Any), Lane::Shared, &pools, 1).is_some());
}

#[test]
fn each_lane_of_an_endpoint_has_a_pool_until_the_endpoint_leaves_or_changes() {
    let now = Instant::now();
    let address: SocketAddr = "10.0.0.1:8080".parse().expect("an address");
    let mut state = state_of(address, now);
    let (mut pools, call, own) = (Pools::default(), a_call(now), ClusterId::numbered(0));
    let endpoint = state.members.iter().next().expect("one endpoint").id;
    let mut pool_of = |state: &mut ClusterState, lane| state.pool(own, endpoint, &call, lane, &mut pools);
    let shared = pool_of(&mut state, Lane::Shared).expect("a pool");
    let alone = pool_of(&mut state, Lane::Own(3)).expect("a pool");
    assert_eq!(pool_of(&mut state, Lane::Shared), Some(shared));
    assert_ne!(shared, alone);

    let same = state.cluster.clone();
    assert_eq!(state.update(now, same), []);
    assert_eq!(pool_of(&mut state, Lane::Own(3)), Some(alone));
    let other = single("10.0.0.2:8080".parse().expect("an address"), None);
    assert_eq!(state.update(now, other), [shared, alone]);
    assert!(pool_of(&mut state, Lane::Shared).is_none(), "the endpoint has left");
}

#[test]
fn an_endpoint_keeps_its_series_until_its_controller_or_its_proxy_changes() {
    let now = Instant::now();
    let mut state = state_of("10.0.0.1:8080".parse().expect("an address"), now);
    let endpoint = state.members.iter().next().expect("one endpoint").id;
    let mut series_after = |change: fn(&mut Endpoint)| {
        state.members.get_mut(endpoint).expect("it stays").traffic = Some(7);
        let mut cluster = state.cluster.clone();
        change(&mut Arc::make_mut(&mut cluster).endpoints[0]);
        assert_eq!(state.update(now, cluster), []);
        state.members.get(endpoint).expect("it stays").traffic
    };
    assert_eq!(series_after(|endpoint| endpoint.zone = Some("west".into())), Some(7));
    assert_eq!(series_after(|endpoint| endpoint.controller = "replicaset/cart-1".parse().ok()), None);
    assert_eq!(series_after(|endpoint| endpoint.pod = Some("cart-1-abcde".into())), Some(7));
    let set_proxy = |endpoint: &mut Endpoint| {
        let identity = "ns/shop/sa/cart".parse().expect("a workload");
        endpoint.proxy = Some(EndpointProxy { identity, inbound_port: None, tunnel_port: 15008 });
    };
    assert_eq!(series_after(set_proxy), None);
}

#[test]
fn a_retry_does_not_wait_for_a_pause_that_is_over() {
    let now = Instant::now();
    let mut state = state_of("10.0.0.1:8080".parse().expect("an address"), now);
    let (mut pools, call, own) = (Pools::default(), a_call(now), ClusterId::numbered(0));
    let endpoint = state.members.iter().next().expect("one endpoint").id;
    let mut back_off = |at, lane| {
        let pool = state.pool(own, endpoint, &call, lane, &mut pools).expect("a pool");
        let pool = pools.get_mut(pool).expect("a pool");
        pool.back_off(at, "refused".to_owned(), 0, &RelayLimits::default());
        pool.retry_at().expect("a pause")
    };
    // The pool of this lane has failed before, and has not been used since then.
    let over = back_off(now, Lane::Own(3));
    let now = over + Duration::from_secs(60);
    let until = back_off(now, Lane::Shared);
    let again = |now, lane| state.connects_again_at(now, (&call, lane), &pools);
    assert_eq!((again(now, Lane::Shared), again(until, Lane::Shared)), (Some(until), None));
    assert_eq!(again(now, Lane::Own(3)), None, "its pause is over");
    assert_eq!(again(now, Lane::Own(4)), None, "no call has used it");
}

#[test]
fn an_endpoint_takes_a_hedge_at_once_whatever_waits_in_other_lanes() {
    let now = Instant::now();
    let mut state = state_of("10.0.0.1:8080".parse().expect("an address"), now);
    let (mut pools, call, own) = (Pools::default(), a_call(now), ClusterId::numbered(0));
    let endpoint = state.members.iter().next().expect("one endpoint").id;
    let pool = state.pool(own, endpoint, &call, Lane::Own(3), &mut pools).expect("a pool");
    pools.join(pool, AttemptId::numbered(0), true);
    let others = |lane| state.others(now, (&call, lane), &pools);
    assert_eq!((others(Lane::Own(3)), others(Lane::Shared)), (Others::Busy, Others::Free));
}

#[test]
fn a_failure_in_a_lane_that_is_no_longer_used_is_forgotten() {
    let (now, relay) = (Instant::now(), RelayLimits::default());
    let mut state = state_of("10.0.0.1:8080".parse().expect("an address"), now);
    let (mut pools, call, own) = (Pools::default(), a_call(now), ClusterId::numbered(0));
    let endpoint = state.members.iter().next().expect("one endpoint").id;
    let pool = state.pool(own, endpoint, &call, Lane::Own(3), &mut pools).expect("a pool");
    pools.get_mut(pool).expect("a pool").back_off(now, "refused".to_owned(), 0, &relay);
    state.note_busy();
    state.check_pools(now, &mut pools, &relay);
    assert!(state.may_be_busy && state.pools_of(endpoint, &pools).any(|pool| pool.failures > 0));
    let later = now + 2 * ms(relay.max_backoff_ms);
    state.check_pools(later, &mut pools, &relay);
    assert!(state.may_be_busy, "no connection shows that the endpoint can be reached");
    let shared = state.pool(own, endpoint, &call, Lane::Shared, &mut pools).expect("a pool");
    let connection = upstream(&pools, shared, now);
    let connection = pools.add(connection);
    pools.note_ready(connection);
    state.check_pools(later, &mut pools, &relay);
    assert!(!state.may_be_busy && state.pools_of(endpoint, &pools).all(|pool| pool.failures == 0));
}

#[test]
fn the_reason_why_no_endpoint_takes_a_call_is_that_of_the_calls_lane() {
    let now = Instant::now();
    let mut state = state_of("10.0.0.1:8080".parse().expect("an address"), now);
    let (mut pools, call, own) = (Pools::default(), a_call(now), ClusterId::numbered(0));
    let endpoint = state.members.iter().next().expect("one endpoint").id;
    let mut pool_of = |lane| state.pool(own, endpoint, &call, lane, &mut pools).expect("a pool");
    let (shared, other) = (pool_of(Lane::Shared), pool_of(Lane::Own(3)));
    pools.join(shared, AttemptId::numbered(0), true);
    pools.get_mut(other).expect("a pool").back_off(now, "refused".to_owned(), 0, &RelayLimits::default());
    let why = |lane| state.why_none(now, (&call, lane), &pools, 1);
    assert!(matches!(why(Lane::Shared), ProxyError::QueueFull { waiting: 1, .. }), "{:?}", why(Lane::Shared));
    assert!(matches!(why(Lane::Own(3)), ProxyError::Connect { .. }), "{:?}", why(Lane::Own(3)));
}

/// Makes calls to an endpoint, which end with this outcome.
fn make_calls(state: &mut ClusterState, now: Instant, endpoint: EndpointId, outcome: Outcome) {
    for _ in 0..20 {
        let pick = state.balancer.pick(now, |id| id == endpoint).expect("the endpoint");
        state.balancer.finish(now, pick, outcome);
    }
}

const LATENCY: Duration = Duration::from_millis(1);
const FAILURE: Outcome = Outcome::Failure { latency: LATENCY, pushback: None };

/// Makes calls to two endpoints, so that the first endpoint is failing. Returns the time of the last call.
fn let_fail(state: &mut ClusterState, start: Instant, failing: EndpointId, well: EndpointId) -> Instant {
    make_calls(state, start, failing, Outcome::Success { latency: LATENCY });
    make_calls(state, start, well, Outcome::Success { latency: LATENCY });
    // An endpoint is failing only if it has failed too often for a while.
    let [before, now] = [1_000, 1_100].map(|after_ms| start + Duration::from_millis(after_ms));
    make_calls(state, before, failing, FAILURE);
    make_calls(state, now, failing, FAILURE);
    now
}

/// Returns the state of a cluster with two endpoints, and the endpoints.
fn two_endpoints(policy: Policy, now: Instant) -> (ClusterState, [EndpointId; 2]) {
    let address: SocketAddr = "10.0.0.1:8080".parse().expect("an address");
    let mut cluster = single(address, None);
    let changed = Arc::make_mut(&mut cluster);
    changed.balancer = policy;
    let mut second = changed.endpoints[0].clone();
    second.address = "10.0.0.2:8080".parse().expect("an address");
    changed.endpoints.push(second);
    let state = ClusterState::new(TargetKey::Address(address), cluster, 1, now);
    let [first, second] = state.members.iter().map(|member| member.id).collect::<Vec<_>>()[..] else {
        panic!("two endpoints")
    };
    (state, [first, second])
}

/// Picks an endpoint for a call, and does not send the call.
fn picked(state: &mut ClusterState, now: Instant, whose: (&Call, Choice), pools: &Pools) -> Option<EndpointId> {
    let pick = state.pick(now, whose, Lane::Shared, pools, 1)?;
    let endpoint = pick.endpoint;
    state.balancer.finish(now, pick, Outcome::NotSent);
    Some(endpoint)
}

/// Adds a connection to an endpoint, which is ready for calls.
fn connect(
    state: &mut ClusterState,
    pools: &mut Pools,
    endpoint: EndpointId,
    call: &Call,
    now: Instant,
) -> (PoolId, UpstreamId) {
    let pool = state.pool(ClusterId::numbered(0), endpoint, call, Lane::Shared, pools).expect("a pool");
    let connection = upstream(pools, pool, now);
    let connection = pools.add(connection);
    pools.note_ready(connection);
    (pool, connection)
}

#[test]
fn an_endpoint_that_has_not_answered_a_ping_gets_a_call_only_if_no_other_endpoint_takes_it() {
    let (start, relay) = (Instant::now(), RelayLimits::default());
    let (mut state, [silent, other]) = two_endpoints(Policy::RoundRobin, start);
    let (mut pools, mut call) = (Pools::default(), a_call(start));
    let connection = connect(&mut state, &mut pools, silent, &call, start).1;
    let other_pool = connect(&mut state, &mut pools, other, &call, start).0;
    let now = start + SILENT_AFTER;
    let pick = |state: &mut ClusterState, pools: &Pools, call: &Call, choice| picked(state, now, (call, choice), pools);

    let_doubt(&mut pools, connection, start, now);
    state.note_busy();
    for _ in 0..4 {
        assert_eq!(pick(&mut state, &pools, &call, Choice::Any), Some(other));
    }
    call.tried.push(other);
    assert_eq!(pick(&mut state, &pools, &call, Choice::Any), Some(other), "although the call has tried it");
    assert_eq!(pick(&mut state, &pools, &call, Choice::Another), None);
    assert_eq!(state.others(now, (&call, Lane::Shared), &pools), Others::Busy);
    call.tried.clear();

    let turn = pools.join(other_pool, AttemptId::numbered(0), true);
    assert_eq!(pick(&mut state, &pools, &call, Choice::Any), Some(silent), "no other endpoint takes it");
    assert_eq!(state.preview(now, &call, Lane::Shared, &pools, 1).map(|(endpoint, _)| endpoint), Some(silent));
    pools.leave(other_pool, turn);
    state.check_pools(now, &mut pools, &relay);
    assert!(state.may_be_busy);

    // The server has sent a byte.
    pools.upstream_mut(connection).expect("it is open").link.last_read = now + Duration::from_millis(1);
    let picked = [(); 2].map(|()| pick(&mut state, &pools, &call, Choice::Any).expect("an endpoint"));
    assert!(picked.contains(&silent) && picked.contains(&other));
    state.check_pools(now, &mut pools, &relay);
    assert!(!state.may_be_busy);
}

#[test]
fn an_endpoint_that_has_not_answered_a_ping_gets_the_calls_if_the_other_endpoints_are_failing() {
    let start = Instant::now();
    let (mut state, [failing, silent]) = two_endpoints(Policy::Latency, start);
    let now = let_fail(&mut state, start, failing, silent);
    let (mut pools, mut call) = (Pools::default(), a_call(now));
    let connection = connect(&mut state, &mut pools, silent, &call, start).1;
    let_doubt(&mut pools, connection, start, now);
    state.note_busy();

    let pick = |state: &mut ClusterState, call: &Call, choice| picked(state, now, (call, choice), &pools);
    for _ in 0..4 {
        assert_eq!(pick(&mut state, &call, Choice::Any), Some(silent));
    }
    assert_eq!(state.preview(now, &call, Lane::Shared, &pools, 1).map(|(endpoint, _)| endpoint), Some(silent));
    call.tried.push(silent);
    assert_eq!(pick(&mut state, &call, Choice::Any), Some(silent), "although the call has tried it");
    call.tried.clear();
    assert_eq!(pick(&mut state, &call, Choice::Another), None);
}

#[test]
fn a_further_attempt_does_not_go_to_a_failing_endpoint_while_another_is_well() {
    let start = Instant::now();
    let address: SocketAddr = "10.0.0.1:8080".parse().expect("an address");
    let mut cluster = single(address, None);
    let changed = Arc::make_mut(&mut cluster);
    changed.balancer = Policy::Latency;
    for further in ["10.0.0.2:8080", "10.0.0.3:8080"] {
        let address = further.parse().expect("an address");
        changed.endpoints.push(Endpoint { address, ..changed.endpoints[0].clone() });
    }
    let mut without_well = Arc::clone(&cluster);
    Arc::make_mut(&mut without_well).endpoints.pop();
    let mut state = ClusterState::new(TargetKey::Address(address), cluster, 1, start);
    let [failing, also_failing, well] = state.members.iter().map(|member| member.id).collect::<Vec<_>>()[..] else {
        panic!("three endpoints")
    };
    for id in [failing, also_failing, well] {
        make_calls(&mut state, start, id, Outcome::Success { latency: LATENCY });
    }
    // An endpoint is failing only if it has failed too often for a while, and more often than the others.
    let after = |ms| start + Duration::from_millis(ms);
    for (at_ms, id) in [(1_000, failing), (1_100, failing), (1_200, also_failing), (1_300, also_failing)] {
        make_calls(&mut state, after(at_ms), id, FAILURE);
    }
    let now = after(1_300);
    let (pools, mut call) = (Pools::default(), a_call(now));

    let pick = |state: &mut ClusterState, call: &Call, choice| picked(state, now, (call, choice), &pools);
    assert_eq!(pick(&mut state, &call, Choice::Any), Some(well));
    assert_eq!(state.others(now, (&call, Lane::Shared), &pools), Others::Free);
    call.tried.push(well);
    assert_eq!(pick(&mut state, &call, Choice::Any), Some(well), "it is well, although the call has tried it");
    assert_eq!(pick(&mut state, &call, Choice::Another), None);
    assert_eq!(state.others(now, (&call, Lane::Shared), &pools), Others::None);

    state.update(now, without_well);
    call.tried.push(failing);
    assert_eq!(pick(&mut state, &call, Choice::Any), Some(also_failing), "none is well, and it has not been tried");
}
