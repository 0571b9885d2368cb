//! Tests what the balancer guarantees to its caller, one decision at a time.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::*;

const MS: Duration = Duration::from_millis(1);

fn address(number: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + number), 50051))
}

fn balancer(policy: Policy, endpoints: u32, now: Instant) -> Balancer {
    let mut balancer = Balancer::new(policy, 7);
    balancer.set_endpoints(now, (0..endpoints).map(address));
    balancer
}

fn ids(balancer: &Balancer) -> Vec<EndpointId> {
    balancer.endpoints().map(|(id, _)| id).collect()
}

fn pick(balancer: &mut Balancer, now: Instant) -> Pick {
    balancer.pick(now, |_| true).expect("an endpoint")
}

fn pick_only(balancer: &mut Balancer, now: Instant, id: EndpointId) -> Pick {
    balancer.pick(now, |candidate| candidate == id).expect("the endpoint")
}

fn success(latency: Duration) -> Outcome {
    Outcome::Success { latency }
}

fn failure(pushback: Option<Duration>) -> Outcome {
    Outcome::Failure { latency: MS, pushback }
}

/// Finishes 20 calls to each endpoint with the latency `latency`, 1 ms apart. Returns a time 200 ms after the last.
fn settle(balancer: &mut Balancer, mut now: Instant, latency: Duration) -> Instant {
    for _ in 0..20 {
        for id in ids(balancer) {
            let pick = pick_only(balancer, now, id);
            now += MS;
            balancer.finish(now, pick, success(latency));
        }
    }
    now + Duration::from_millis(200)
}

/// Returns a balancer whose second endpoint is slow, the id of this endpoint, and the start of its slow call. At first,
/// every endpoint answered in 10 ms. Then one call to the second endpoint was cancelled after a wait of `waited`.
fn one_slow(endpoints: u32, waited: Duration) -> (Balancer, EndpointId, Instant) {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, endpoints, start);
    let slow = ids(&balancer)[1];
    let now = settle(&mut balancer, start, 10 * MS);
    let asked = pick_only(&mut balancer, now, slow);
    balancer.finish(now + waited, asked, Outcome::Cancelled { waited });
    (balancer, slow, now)
}

fn explanation(balancer: &Balancer, now: Instant, id: EndpointId) -> Explanation {
    let address = balancer.address(id).expect("a member");
    let found = balancer.explain(now).into_iter().find(|it| it.address == address);
    found.expect("every endpoint is explained")
}

#[test]
fn without_a_usable_endpoint_there_is_no_pick() {
    let now = Instant::now();
    for policy in Policy::ALL {
        assert!(Balancer::new(policy, 1).pick(now, |_| true).is_none(), "{policy}");
        let mut balancer = balancer(policy, 30, now);
        assert!(balancer.pick(now, |_| false).is_none(), "{policy}");
        balancer.set_endpoints(now, []);
        assert!(balancer.pick(now, |_| true).is_none(), "{policy}");
    }
}

#[test]
fn the_only_usable_endpoint_is_picked_in_small_and_large_clusters() {
    let now = Instant::now();
    for policy in Policy::ALL {
        for endpoints in [1, 5, 500] {
            let mut balancer = balancer(policy, endpoints, now);
            let last = *ids(&balancer).last().expect("an endpoint");
            for _ in 0..10 {
                assert_eq!(pick_only(&mut balancer, now, last).endpoint, last, "{policy}");
            }
        }
    }
}

#[test]
fn round_robin_rotates_exactly_over_the_usable() {
    let now = Instant::now();
    let mut balancer = balancer(Policy::RoundRobin, 5, now);
    let ids = ids(&balancer);
    let usable = |id| id != ids[1] && id != ids[4];
    let picked: Vec<_> = (0..9).map(|_| balancer.pick(now, usable).expect("an endpoint").endpoint).collect();
    let rotation = [ids[0], ids[2], ids[3]];
    let start = rotation.iter().position(|id| *id == picked[0]).expect("a usable one");
    for (step, id) in picked.iter().enumerate() {
        assert_eq!(*id, rotation[(start + step) % 3]);
    }
}

#[test]
fn round_robin_goes_on_where_it_was_when_endpoints_change() {
    let now = Instant::now();
    let mut balancer = Balancer::new(Policy::RoundRobin, 3);
    balancer.set_endpoints(now, [10, 20, 30, 40].map(address));
    let picked_address = |balancer: &mut Balancer| {
        let id = pick(balancer, now).endpoint;
        balancer.address(id)
    };
    while picked_address(&mut balancer) != Some(address(20)) {}
    balancer.set_endpoints(now, [5, 10, 20, 25, 40].map(address));
    for next in [40, 5, 10, 20, 25, 40] {
        assert_eq!(picked_address(&mut balancer), Some(address(next)));
    }
}

#[test]
fn least_request_prefers_fewer_in_flight() {
    let now = Instant::now();
    let mut balancer = balancer(Policy::LeastRequest, 5, now);
    let mut picks: HashMap<EndpointId, Pick> = HashMap::new();
    for _ in 0..5 {
        let pick = pick(&mut balancer, now);
        let twice = picks.insert(pick.endpoint, pick);
        assert!(twice.is_none(), "an idle endpoint was passed over");
    }
    let idle = ids(&balancer)[3];
    balancer.finish(now, picks.remove(&idle).expect("picked"), success(MS));
    assert_eq!(pick(&mut balancer, now).endpoint, idle);
}

#[test]
fn least_request_fills_a_large_cluster_evenly() {
    let now = Instant::now();
    let mut balancer = balancer(Policy::LeastRequest, 1000, now);
    for _ in 0..10_000 {
        let _in_flight = pick(&mut balancer, now);
    }
    let fullest = balancer.endpoints.list.iter().map(|endpoint| endpoint.in_flight).max();
    assert!(fullest <= Some(13), "{fullest:?} in flight where 10 is the mean");
}

#[test]
fn random_gives_each_usable_endpoint_the_same_chance() {
    let now = Instant::now();
    let mut balancer = balancer(Policy::Random, 10, now);
    let usable = [ids(&balancer)[2], ids(&balancer)[3], ids(&balancer)[9]];
    let mut counts: HashMap<EndpointId, u32> = HashMap::new();
    for _ in 0..30_000 {
        let pick = balancer.pick(now, |id| usable.contains(&id)).expect("an endpoint");
        *counts.entry(pick.endpoint).or_default() += 1;
    }
    for id in usable {
        // Five standard deviations of a binomial count are 410.
        assert!(counts[&id].abs_diff(10_000) < 410, "{counts:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_picks_and_another_seed_others() {
    let now = Instant::now();
    let picked = |policy, seed| {
        let mut balancer = Balancer::new(policy, seed);
        balancer.set_endpoints(now, (0..40).map(address));
        (0..50).map(|_| pick(&mut balancer, now).endpoint).collect::<Vec<_>>()
    };
    for policy in Policy::ALL {
        assert_eq!(picked(policy, 1), picked(policy, 1), "{policy}");
        assert_ne!(picked(policy, 1), picked(policy, 2), "{policy}");
    }
}

#[test]
fn the_first_picks_of_many_workers_spread_over_the_endpoints() {
    let now = Instant::now();
    for policy in Policy::ALL {
        let mut counts: HashMap<SocketAddr, u32> = HashMap::new();
        for seed in 0..1000 {
            let mut balancer = Balancer::new(policy, seed);
            balancer.set_endpoints(now, (0..5).map(address));
            let id = pick(&mut balancer, now).endpoint;
            *counts.entry(balancer.address(id).expect("a member")).or_default() += 1;
        }
        assert!(counts.values().all(|count| (140..260).contains(count)), "{policy}: {counts:?}");
    }
}

#[test]
fn doubled_addresses_count_once() {
    let now = Instant::now();
    let mut balancer = Balancer::new(Policy::Latency, 1);
    balancer.set_endpoints(now, [3, 1, 3, 2, 1].map(address));
    let addresses: Vec<_> = balancer.endpoints().map(|(_, address)| address).collect();
    assert_eq!(addresses, [1, 2, 3].map(address));
}

#[test]
fn an_address_that_stays_keeps_its_id_and_what_is_known_of_it() {
    let now = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, now);
    let id = ids(&balancer)[1];
    let _in_flight = pick_only(&mut balancer, now, id);
    balancer.set_endpoints(now, [1, 8, 9].map(address));
    assert_eq!(balancer.address(id), Some(address(1)));
    assert_eq!(balancer.in_flight(id), Some(1));
}

#[test]
fn the_id_of_a_removed_endpoint_never_names_another() {
    let now = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, now);
    let old = ids(&balancer);
    for round in 1..20 {
        balancer.set_endpoints(now, (0..3).map(|number| address(round * 10 + number)));
        for id in &old {
            assert_eq!(balancer.address(*id), None);
        }
        let slots_in_use = ids(&balancer).iter().map(|id| id.slot()).max();
        assert!(slots_in_use < Some(6), "slots are not used again");
    }
}

#[test]
fn finishing_a_stale_pick_changes_nothing() {
    let now = Instant::now();
    for outcome in [success(MS), failure(Some(MS)), Outcome::NotSent] {
        let mut balancer = balancer(Policy::Latency, 1, now);
        let mut stale = pick(&mut balancer, now);
        balancer.set_endpoints(now, []);
        balancer.set_endpoints(now, [address(0)]);
        let before = balancer.explain(now);
        balancer.answered(now, &mut stale, MS);
        balancer.finish(now, stale, outcome);
        assert_eq!(balancer.explain(now), before);
    }
}

#[test]
fn every_outcome_frees_the_place_in_flight() {
    let now = Instant::now();
    let outcomes = [success(MS), failure(None), failure(Some(MS)), Outcome::Cancelled { waited: MS }, Outcome::NotSent];
    for outcome in outcomes {
        for answered in [false, true] {
            let mut balancer = balancer(Policy::Latency, 1, now);
            let mut pick = pick(&mut balancer, now);
            let id = pick.endpoint;
            if answered {
                balancer.answered(now, &mut pick, MS);
                balancer.answered(now, &mut pick, MS);
            }
            assert_eq!(balancer.in_flight(id), Some(1));
            balancer.finish(now, pick, outcome);
            assert_eq!(balancer.in_flight(id), Some(0), "{outcome:?}");
            assert_eq!(balancer.endpoints.list[0].unanswered, 0, "{outcome:?}");
        }
    }
}

#[test]
fn a_call_not_sent_says_nothing_and_a_short_wait_hardly_more() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 2, start);
    let id = ids(&balancer)[0];
    let now = settle(&mut balancer, start, 10 * MS);
    let before = explanation(&balancer, now, id).latency_estimate_ms;
    for outcome in [Outcome::NotSent, Outcome::Cancelled { waited: MS }] {
        let pick = pick_only(&mut balancer, now, id);
        balancer.finish(now, pick, outcome);
        assert_eq!(explanation(&balancer, now, id).latency_estimate_ms, before);
    }
}

#[test]
fn a_long_wait_given_up_counts_as_slowness() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let id = ids(&balancer)[0];
    let now = settle(&mut balancer, start, 10 * MS);
    let pick = pick_only(&mut balancer, now, id);
    let waited = 1000 * MS;
    balancer.finish(now + waited, pick, Outcome::Cancelled { waited });
    assert_eq!(explanation(&balancer, now, id).state, "slow");
}

#[test]
fn an_endpoint_that_never_answers_is_slow_before_any_call_ends() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let silent = ids(&balancer)[1];
    let mut now = settle(&mut balancer, start, 10 * MS);
    let _unanswered = pick_only(&mut balancer, now, silent);
    for _ in 0..3 {
        now += 110 * MS;
        let pick = pick(&mut balancer, now);
        balancer.finish(now, pick, Outcome::NotSent);
    }
    assert_eq!(explanation(&balancer, now, silent).state, "slow");
}

#[test]
fn a_stream_that_stays_open_after_its_headers_is_not_slowness() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let streaming = ids(&balancer)[1];
    let mut now = settle(&mut balancer, start, 10 * MS);
    let mut stream = pick_only(&mut balancer, now, streaming);
    balancer.answered(now + 10 * MS, &mut stream, 10 * MS);
    for _ in 0..20 {
        now += 110 * MS;
        let pick = pick(&mut balancer, now);
        balancer.finish(now, pick, Outcome::NotSent);
    }
    balancer.finish(now, stream, success(10 * MS));
    let explanation = explanation(&balancer, now, streaming);
    assert_eq!(explanation.state, "ready");
    assert!(explanation.latency_estimate_ms < Some(11.0), "{explanation:?}");
}

#[test]
fn long_streams_show_that_an_endpoint_is_well_again_by_their_headers() {
    let (mut balancer, streaming, mut now) = one_slow(3, 1000 * MS);
    assert_eq!(explanation(&balancer, now, streaming).state, "slow");
    for _ in 0..20 {
        now += 2500 * MS;
        let mut stream = pick_only(&mut balancer, now, streaming);
        balancer.answered(now + 10 * MS, &mut stream, 10 * MS);
        balancer.finish(now + 2000 * MS, stream, success(2000 * MS));
    }
    assert_eq!(explanation(&balancer, now, streaming).state, "ready");
}

/// Makes 100 calls per second for 3 s. The first endpoint sends response headers after 6 ms, the others after 2 ms.
/// Each call ends `further` after its headers. Returns the fraction of the calls of the last second that the first
/// endpoint got.
fn share_of_an_endpoint_with_late_headers(further: Duration) -> f64 {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 4, start);
    let first = ids(&balancer)[0];
    let mut open: Vec<(Instant, Pick, Duration)> = Vec::new();
    let mut shares = (0, 0);
    for turn in 0..300u32 {
        let now = start + turn * 10 * MS;
        for (_, pick, latency) in open.extract_if(.., |(ends, ..)| *ends <= now) {
            balancer.finish(now, pick, success(latency + further));
        }
        let mut picked = pick(&mut balancer, now);
        let latency = if picked.endpoint == first { 6 * MS } else { 2 * MS };
        if turn >= 200 {
            shares.0 += u32::from(picked.endpoint == first);
            shares.1 += 1;
        }
        balancer.answered(now + latency, &mut picked, latency);
        open.push((now + latency + further, picked, latency));
    }
    f64::from(shares.0) / f64::from(shares.1)
}

#[test]
fn headers_that_come_a_little_late_matter_for_short_calls_and_not_for_long_streams() {
    let of_calls = share_of_an_endpoint_with_late_headers(Duration::ZERO);
    assert!(of_calls < 0.05, "{of_calls}");
    let of_streams = share_of_an_endpoint_with_late_headers(Duration::from_millis(800));
    assert!((0.2..0.3).contains(&of_streams), "{of_streams}");
}

#[test]
fn rare_streams_among_short_calls_change_nothing() {
    let mut baseline = baseline::Baseline::default();
    (0..1_000).for_each(|call| baseline.note_stream(if call % 50 == 0 { 3_600_000.0 } else { 0.1 }));
    assert_eq!(baseline.floor_ms(), 0.5);
}

#[test]
fn a_failing_endpoint_is_not_excused_when_all_the_others_are_warming() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let failing = ids(&balancer)[0];
    let mut now = settle(&mut balancer, start, 10 * MS);
    for _ in 0..20 {
        let pick = pick_only(&mut balancer, now, failing);
        balancer.finish(now, pick, failure(None));
    }
    let others: Vec<_> = ids(&balancer)[1..].to_vec();
    for endpoint in &mut balancer.endpoints.list[1..] {
        endpoint.health.state = health::State::Warming { since: now, takes: Duration::from_secs(2) };
    }
    for _ in 0..50 {
        now += 30 * MS;
        for other in &others {
            let pick = pick_only(&mut balancer, now, *other);
            balancer.finish(now, pick, success(10 * MS));
        }
        assert_eq!(explanation(&balancer, now, failing).state, "failing");
    }
}

#[test]
fn an_endpoint_that_fails_from_the_beginning_is_found_at_once() {
    let mut now = Instant::now();
    let mut balancer = balancer(Policy::Latency, 5, now);
    let failing = ids(&balancer)[3];
    let mut failures = 0;
    for _ in 0..10_000 {
        now += Duration::from_micros(50);
        let pick = pick(&mut balancer, now);
        let fails = pick.endpoint == failing;
        failures += u32::from(fails);
        balancer.finish(now, pick, if fails { failure(None) } else { success(MS) });
    }
    // The calls take half a second in total. About 50 calls may fail in the first 10 ms, before the balancer notices
    // the failures; later, one probe may fail.
    assert!(failures <= 60, "{failures}");
    assert!(ids(&balancer).into_iter().all(|id| balancer.is_failing(id) == (id == failing)));
    balancer.set_policy(Policy::RoundRobin);
    assert!(!balancer.is_failing(failing), "round robin leaves out no endpoint");
}

#[test]
fn probes_are_no_more_frequent_than_a_fair_share_of_the_calls() {
    let (mut balancer, slow, mut now) = one_slow(50, 5000 * MS);
    assert_eq!(explanation(&balancer, now, slow).state, "slow");
    // With one call per second to 50 endpoints, a fair share would be one call in 50 s. But the balancer waits at most
    // 30 s between probes, so it sends about 10 probes in 300 s.
    let mut probes = 0;
    for _ in 0..300 {
        now += 1000 * MS;
        let pick = pick(&mut balancer, now);
        let is_probe = pick.endpoint == slow;
        probes += u32::from(is_probe);
        balancer.finish(now, pick, success(if is_probe { 5000 * MS } else { 10 * MS }));
    }
    assert!((5..=14).contains(&probes), "{probes} probes in 300 s");
}

/// The balancer must not scan all endpoints at each call, because a cluster may have many.
#[test]
fn a_due_probe_of_an_unusable_endpoint_is_not_looked_for_at_every_call() {
    let (mut balancer, slow, mut now) = one_slow(50, 5000 * MS);
    now += 60_000 * MS;
    let mut looks = 0;
    for _ in 0..1_000 {
        now += MS / 100;
        let usable = |id| {
            looks += u32::from(id == slow);
            id != slow
        };
        let pick = balancer.pick(now, usable).expect("an endpoint");
        balancer.finish(now, pick, success(10 * MS));
    }
    assert!(looks < 300, "{looks} looks in 1,000 calls");
    assert_eq!(pick(&mut balancer, now + 1000 * MS).endpoint, slow, "the probe is still due");
}

#[test]
fn pushback_keeps_calls_away_for_as_long_as_asked() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let busy = ids(&balancer)[2];
    let now = settle(&mut balancer, start, 10 * MS);
    let asked = pick_only(&mut balancer, now, busy);
    balancer.finish(now, asked, failure(Some(2000 * MS)));

    let mut first_after = None;
    for wait_ms in 1..5000 {
        let now = now + wait_ms * MS;
        let pick = pick(&mut balancer, now);
        if pick.endpoint == busy {
            first_after.get_or_insert(wait_ms);
        }
        balancer.finish(now, pick, success(10 * MS));
    }
    let first_after = first_after.expect("it is asked again");
    assert!((2000..2200).contains(&first_after), "{first_after} ms");
}

#[test]
fn pushback_beyond_the_bound_is_cut_and_the_only_endpoint_is_used_all_the_same() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 2, start);
    let [asking, other] = ids(&balancer)[..] else {
        panic!("two endpoints");
    };
    let now = settle(&mut balancer, start, 10 * MS);
    let asked = pick_only(&mut balancer, now, asking);
    balancer.finish(now, asked, failure(Some(Duration::MAX)));
    assert_eq!(pick(&mut balancer, now).endpoint, other);
    assert_eq!(pick_only(&mut balancer, now, asking).endpoint, asking);
    let much_later = now + Duration::from_secs(40);
    assert_eq!(pick(&mut balancer, much_later).endpoint, asking, "probed after 30 s");
}

#[test]
fn changing_the_policy_keeps_what_is_known() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::RoundRobin, 3, start);
    let now = settle(&mut balancer, start, 10 * MS);
    let before = balancer.explain(now);
    balancer.set_policy(Policy::Latency);
    assert_eq!(balancer.explain(now), before);
}

#[test]
fn a_pick_stays_small() {
    assert!(size_of::<Pick>() <= 32);
}
