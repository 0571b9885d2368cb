use leno_http2::{FieldSection, StreamKey};

use super::*;
use crate::attempt::AttemptId;
use crate::hop;
use crate::waiting::Turn;

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

#[test]
fn an_endpoint_with_a_full_queue_gets_no_call_until_its_queue_is_empty() {
    let now = Instant::now();
    let address = "10.0.0.1:8080".parse().expect("an address");
    let cluster = single(address, None);
    let mut state = ClusterState {
        target: TargetKey::Address(address),
        cluster: cluster.clone(),
        balancer: Balancer::new(Policy::Random, 1),
        traffic: Vec::new(),
        is_named: true,
        members: FxHashMap::default(),
        pools: FxHashMap::default(),
        may_be_busy: false,
        routes: None,
        calls: 0,
        standing: Standing::Known,
    };
    state.update(now, cluster);
    let nobody = (None, StreamKey::numbered(0));
    let call = Call::new(nobody, FieldSection::new(), hop::Protocol::Http2, true, now);
    let endpoint = *state.members.keys().next().expect("one endpoint");
    let mut pool = Pool::new(address);
    pool.waiting.join(Turn(1), AttemptId::numbered(0), true);
    state.pools.insert(call.pool_key(endpoint, None, Lane::Shared), pool);

    state.may_be_busy = true;
    state.check_pools();
    assert!(state.may_be_busy && state.pick(now, &call, Lane::Shared, 1).is_none());
    state.pools.values_mut().for_each(|pool| pool.waiting.leave(Turn(1)));
    state.check_pools();
    assert!(!state.may_be_busy && state.pick(now, &call, Lane::Shared, 1).is_some());
}
