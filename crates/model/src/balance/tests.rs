//! Tests what the balancer guarantees to its caller, one decision at a time.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::health::State;
use super::*;

mod cluster;
mod failures;

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

/// Makes calls to an endpoint, 10 ms apart, until the endpoint is failing. All calls fail. Returns the number of calls.
fn make_failing(balancer: &mut Balancer, now: &mut Instant, id: EndpointId, pushback: Option<Duration>) -> u32 {
    let mut calls = 0;
    while !balancer.is_failing(id) {
        assert!(calls < 50, "many failures do not make the endpoint failing");
        *now += 10 * MS;
        let pick = pick_only(balancer, *now, id);
        balancer.finish(*now, pick, failure(pushback));
        calls += 1;
    }
    calls
}

fn none_is_failing(balancer: &Balancer) -> bool {
    ids(balancer).into_iter().all(|id| !balancer.is_failing(id))
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
    let fullest = balancer.endpoints.list.iter().map(|endpoint| endpoint.calls.in_flight).max();
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
            assert_eq!(balancer.endpoints.list[0].calls.unanswered, 0, "{outcome:?}");
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

/// A server may send the headers of a stream only with the first message.
#[test]
fn a_call_that_waits_while_later_calls_are_answered_is_not_slowness_but_silence_still_is() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let [other, watched, _] = ids(&balancer)[..] else {
        panic!("three endpoints");
    };
    let mut now = settle(&mut balancer, start, 10 * MS);
    let wait = |balancer: &mut Balancer, now: &mut Instant| {
        for _ in 0..5 {
            *now += 110 * MS;
            let pick = pick_only(balancer, *now, other);
            balancer.finish(*now, pick, Outcome::NotSent);
        }
    };
    let _stream = pick_only(&mut balancer, now, watched);
    for _ in 0..20 {
        now += MS;
        let call = pick_only(&mut balancer, now, watched);
        now += 10 * MS;
        balancer.finish(now, call, success(10 * MS));
        wait(&mut balancer, &mut now);
        assert_eq!(explanation(&balancer, now, watched).state, "ready");
    }
    let _unanswered = pick_only(&mut balancer, now, watched);
    wait(&mut balancer, &mut now);
    assert_eq!(explanation(&balancer, now, watched).state, "slow");
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
    make_failing(&mut balancer, &mut now, failing, None);
    let others: Vec<_> = ids(&balancer)[1..].to_vec();
    for endpoint in &mut balancer.endpoints.list[1..] {
        endpoint.health.state = State::Warming { since: now, takes: Duration::from_secs(2) };
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
    // The calls take half a second in total. In the first 10 ms, before the first baseline, failed calls keep no places in
    // flight, so 29 to 47 calls fail (with eight seeds). In the next 50 ms, for which the endpoint must fail too often,
    // about 11 fail.
    assert!(failures <= 60, "{failures}");
    assert!(ids(&balancer).into_iter().all(|id| balancer.is_failing(id) == (id == failing)));
    balancer.set_policy(Policy::RoundRobin);
    assert!(!balancer.is_failing(failing), "round robin leaves out no endpoint");
}

#[test]
fn statuses_that_broken_endpoints_send_are_failures() {
    for grpc_status in 0..=16 {
        let expected = [2, 4, 8, 13, 14, 15].contains(&grpc_status);
        assert_eq!(is_failure(200, Some(grpc_status)), expected, "{grpc_status}");
    }
    for (http_status, expected) in [(200, false), (404, false), (429, true), (499, false), (500, true), (503, true)] {
        assert_eq!(is_failure(http_status, None), expected, "{http_status}");
    }
    assert_eq!(Outcome::of_answer((200, Some(2)), MS, Some(MS)), failure(Some(MS)));
    assert_eq!(Outcome::of_answer((200, Some(5)), MS, Some(MS)), success(MS));
}

/// Many applications answer with UNKNOWN because of a wrong argument.
#[test]
fn endpoints_whose_calls_fail_equally_often_are_not_failing() {
    for calls_per_s in [1, 10, 1_000] {
        for seed in 0..3 {
            let (mut now, mut random) = (Instant::now(), Rng::with_seed(seed));
            let mut balancer = balancer(Policy::Latency, 3, now);
            for call in 0..3_000 {
                now += Duration::from_secs(1) / calls_per_s;
                let grpc_status = if random.f64() < 0.05 { 2 } else { 0 };
                let pick = pick(&mut balancer, now);
                balancer.finish(now, pick, Outcome::of_answer((200, Some(grpc_status)), MS, None));
                let failing = ids(&balancer).into_iter().filter(|id| balancer.is_failing(*id)).count();
                assert_eq!(failing, 0, "seed {seed}, {calls_per_s} calls/s, call {call}");
            }
        }
    }
}

/// A fault of the first endpoint.
#[derive(Debug, Clone, Copy)]
struct Fault {
    endpoints: u32,
    /// Calls per second to each endpoint.
    calls_per_s: u32,
    /// The fraction of the calls to the first endpoint that fail, 0 to 1.
    failing: f64,
    /// Whether the second endpoint has never answered a call. Then every other endpoint has failed once before.
    another_hangs: bool,
}

impl Fault {
    /// Returns an upper limit: `calls`, and the calls of the 50 ms for which an endpoint must fail too often.
    fn with_wait(self, calls: u32) -> u32 {
        calls + self.calls_per_s / 20
    }

    /// Makes 150 calls to each endpoint before the fault begins. Returns the number of calls to the first endpoint from
    /// then until this endpoint is failing.
    fn calls_until_found(self, seed: u64) -> u32 {
        const ROUNDS_BEFORE: u32 = 150;
        let (mut now, mut random) = (Instant::now(), Rng::with_seed(seed));
        let mut balancer = balancer(Policy::Latency, self.endpoints, now);
        let ids = ids(&balancer);
        let mut hanging = Vec::new();
        for round in 0..ROUNDS_BEFORE + 500 {
            for (number, id) in ids.iter().enumerate() {
                now += Duration::from_secs(1) / (self.calls_per_s * self.endpoints);
                let pick = pick_only(&mut balancer, now, *id);
                if self.another_hangs && number == 1 {
                    hanging.push(pick);
                    continue;
                }
                let fails = if round < ROUNDS_BEFORE {
                    self.another_hangs && round == ROUNDS_BEFORE - 20
                } else {
                    number == 0 && random.f64() < self.failing
                };
                balancer.finish(now, pick, if fails { failure(None) } else { success(MS) });
                if round >= ROUNDS_BEFORE && balancer.is_failing(ids[0]) {
                    return round - ROUNDS_BEFORE + 1;
                }
            }
        }
        panic!("{self:?}, seed {seed}: not found");
    }
}

/// Asserts that an endpoint whose calls all fail is found after 2 to `most` calls, plus the calls of the 50 ms for which
/// it must fail too often.
fn assert_found_within(most: u32, endpoints: u32, another_hangs: bool) {
    for calls_per_s in [1, 10, 100, 1_000] {
        let fault = Fault { endpoints, calls_per_s, failing: 1.0, another_hangs };
        let calls = fault.calls_until_found(1);
        assert!((2..=fault.with_wait(most)).contains(&calls), "{fault:?}: {calls}");
    }
}

#[test]
fn a_few_failures_in_a_row_make_an_endpoint_failing() {
    for endpoints in [2, 3, 5, 10, 50] {
        assert_found_within(20, endpoints, false);
    }
}

/// An endpoint that never answers has no failures, and must not become the only measure of the other endpoints.
#[test]
fn a_failing_endpoint_is_found_while_another_hangs_and_each_other_has_failed_once() {
    for endpoints in [3, 5, 50] {
        assert_found_within(22, endpoints, true);
    }
}

#[test]
fn an_endpoint_that_fails_a_part_of_its_calls_is_found() {
    for (failing, most) in [(0.5, 80), (0.3, 160)] {
        for endpoints in [3, 5, 50] {
            for calls_per_s in [1, 10, 1_000] {
                for seed in 0..3 {
                    let fault = Fault { endpoints, calls_per_s, failing, another_hangs: false };
                    let calls = fault.calls_until_found(seed);
                    assert!(calls <= fault.with_wait(most), "{fault:?}, seed {seed}: {calls}");
                }
            }
        }
    }
}

/// Opens streams, which all get an answer at once. From `fault_after` on, all new streams to the first endpoint fail.
/// The clients cancel the other streams after `cancelled_after`; with `None`, these streams never end. Returns the
/// number of failed streams until the endpoint is failing.
fn failed_streams_until_found(
    endpoints: u32,
    streams_per_s: u32,
    fault_after: Duration,
    cancelled_after: Option<Duration>,
) -> u32 {
    let start = Instant::now();
    let mut now = start;
    let mut balancer = balancer(Policy::Latency, endpoints, now);
    let failing = ids(&balancer)[0];
    let mut open: VecDeque<(Instant, Pick)> = VecDeque::new();
    let mut failures = 0;
    while !balancer.is_failing(failing) {
        assert!(failures < 200, "{endpoints} endpoints, {streams_per_s} streams/s: not found");
        now += Duration::from_secs(1) / streams_per_s;
        while open.front().is_some_and(|(since, _)| cancelled_after.is_some_and(|lasts| now - *since >= lasts)) {
            let (since, stream) = open.pop_front().expect("an open stream");
            balancer.finish(now, stream, Outcome::Cancelled { waited: now - since });
        }
        let mut stream = pick(&mut balancer, now);
        if stream.endpoint == failing && now >= start + fault_after {
            failures += 1;
            balancer.finish(now, stream, failure(None));
        } else {
            balancer.answered(now, &mut stream, MS);
            open.push_back((now, stream));
        }
    }
    failures
}

/// An endpoint that fails at once has the fewest calls in flight, so it gets almost all new streams.
#[test]
fn an_endpoint_that_fails_is_found_although_all_calls_are_streams() {
    for cancelled_after in [None, Some(Duration::from_secs(5))] {
        for fault_after in [Duration::ZERO, Duration::from_secs(20)] {
            for endpoints in [2, 3, 5, 50] {
                for streams_per_s in [1, 10, 200] {
                    let failures = failed_streams_until_found(endpoints, streams_per_s, fault_after, cancelled_after);
                    let times = (fault_after, cancelled_after);
                    assert!(failures <= 30, "{endpoints} endpoints, {streams_per_s}/s, {times:?}: {failures}");
                }
            }
        }
    }
}

/// Each stream counts once, however it ends.
#[test]
fn a_stream_is_one_success_as_soon_as_it_has_been_open_for_two_seconds() {
    for outcome in [success(MS), Outcome::Cancelled { waited: MS }, Outcome::NotSent] {
        let mut now = Instant::now();
        let mut balancer = balancer(Policy::Latency, 1, now);
        let of = |balancer: &Balancer, now| balancer.endpoints.list[0].health.failure_rate.outcomes(now).number;
        let mut stream = pick(&mut balancer, now);
        balancer.answered(now, &mut stream, MS);
        let before = of(&balancer, now);
        for _ in 0..4 {
            now += 1000 * MS;
            let unsent = pick(&mut balancer, now);
            balancer.finish(now, unsent, Outcome::NotSent);
        }
        let counted = of(&balancer, now);
        assert!(counted > before + 0.9, "{before} and {counted}");
        balancer.finish(now, stream, outcome);
        assert_eq!(of(&balancer, now), counted, "{outcome:?}");
    }
}

/// Makes 100 calls per second. At every endpoint, the fraction `failing` of the calls fails. Returns the time until the
/// endpoint gets more calls than probes.
fn time_until_back(balancer: &mut Balancer, start: Instant, id: EndpointId, failing: f64, seed: u64) -> Duration {
    let (mut now, mut random) = (start, Rng::with_seed(seed));
    while balancer.endpoints.get(id).expect("a member").health.probation().is_some() {
        assert!(now < start + Duration::from_secs(120), "failing {failing}, seed {seed}: not well after 2 min");
        now += 10 * MS;
        let pick = pick(balancer, now);
        let outcome = if random.f64() < failing { failure(None) } else { success(10 * MS) };
        balancer.finish(now, pick, outcome);
    }
    now - start
}

/// If the application fails calls everywhere, a failed probe is no evidence that the endpoint is still slow or failing.
#[test]
fn an_endpoint_recovers_although_calls_fail_at_every_endpoint() {
    // If half of the calls fail, a slow endpoint needs 5 to 61 s (with 20 seeds), and at most 41 s with the five seeds here.
    for (failing, most_s) in [(0.0, 5), (0.05, 10), (0.2, 30), (0.5, 60)] {
        let most = Duration::from_secs(most_s);
        for seed in 0..5 {
            let (mut with_slow, slow, start) = one_slow(3, 1000 * MS);
            let slow_took = time_until_back(&mut with_slow, start + 1000 * MS, slow, failing, seed);
            assert!(slow_took < most, "slow, failing {failing}, seed {seed}: {slow_took:?}");

            let start = Instant::now();
            let mut balancer = balancer(Policy::Latency, 3, start);
            let broken = ids(&balancer)[1];
            let mut now = settle(&mut balancer, start, 10 * MS);
            make_failing(&mut balancer, &mut now, broken, None);
            let broken_took = time_until_back(&mut balancer, now, broken, failing, seed);
            assert!(broken_took < most, "failing {failing}, seed {seed}: {broken_took:?}");
        }
    }
}

/// An endpoint that has just recovered needs fewer failures to become failing, but chance must not suffice.
#[test]
fn a_recovered_endpoint_whose_calls_fail_as_often_as_the_others_stays() {
    let (mut trials, mut ejected) = (0, 0);
    for failing in [0.05, 0.2, 0.5] {
        for seed in 0..40 {
            let (mut now, mut random) = (Instant::now(), Rng::with_seed(seed));
            let mut balancer = balancer(Policy::Latency, 3, now);
            for call in 0..1_300 {
                now += 10 * MS;
                if call == 1_000 {
                    let baseline = &balancer.latency.baseline;
                    let usual = failure_rate::FailureRate::of_outcomes(now, baseline.usual_failure_rate(), 5);
                    let health = &mut balancer.endpoints.list[1].health;
                    health.failure_rate = usual;
                    health.state = State::Warming { since: now, takes: Duration::from_millis(1500) };
                }
                let pick = pick(&mut balancer, now);
                let outcome = if random.f64() < failing { failure(None) } else { success(10 * MS) };
                balancer.finish(now, pick, outcome);
                if call >= 1_000 && balancer.endpoints.list[1].health.is_failing() {
                    ejected += 1;
                    break;
                }
            }
            trials += 1;
        }
    }
    assert!(ejected <= 6, "{ejected} of {trials}");
}

/// A dependency has failed. One endpoint waits for it, and the others answer with failures.
#[test]
fn endpoints_that_fail_are_not_compared_with_the_past_of_an_endpoint_that_hangs() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let hanging = ids(&balancer)[1];
    let mut now = settle(&mut balancer, start, 10 * MS);
    let _unanswered = pick_only(&mut balancer, now, hanging);
    let others = [ids(&balancer)[0], ids(&balancer)[2]];
    for call in 0..400 {
        now += 20 * MS;
        let pick = pick_only(&mut balancer, now, others[call % 2]);
        balancer.finish(now, pick, if call < 300 { success(10 * MS) } else { failure(None) });
        if call == 300 {
            assert_eq!(explanation(&balancer, now, hanging).state, "slow");
        }
        assert!(others.iter().all(|id| !balancer.is_failing(*id)), "call {call}");
    }
}

/// An idle cluster knows nothing of a dependency that has failed since.
#[test]
fn old_successes_of_other_endpoints_make_no_endpoint_failing() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let mut now = settle(&mut balancer, start, 10 * MS) + Duration::from_secs(3600);
    for call in 0..30 {
        now += 100 * MS;
        let pick = pick(&mut balancer, now);
        balancer.finish(now, pick, failure(None));
        assert!(none_is_failing(&balancer), "call {call}");
    }
}

/// The caller reports the headers of each answer before it knows whether the call has failed.
#[test]
fn an_endpoint_that_fails_fast_from_the_beginning_does_not_make_the_other_look_slow() {
    for knows_headers in [false, true] {
        let mut now = Instant::now();
        let mut balancer = balancer(Policy::Latency, 2, now);
        let [failing, well] = ids(&balancer)[..] else {
            panic!("two endpoints");
        };
        for call in 0..200 {
            now += MS;
            let mut pick = pick(&mut balancer, now);
            let (latency, outcome) =
                if pick.endpoint == failing { (MS, failure(None)) } else { (20 * MS, success(20 * MS)) };
            if knows_headers {
                balancer.answered(now, &mut pick, latency);
            }
            balancer.finish(now, pick, outcome);
            assert_eq!(explanation(&balancer, now, well).state, "ready", "{knows_headers}, call {call}");
        }
        assert!(balancer.is_failing(failing));
    }
}

#[test]
fn an_endpoint_that_fails_again_right_after_its_recovery_is_found_soon() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let failing = ids(&balancer)[1];
    let mut now = settle(&mut balancer, start, 10 * MS);
    make_failing(&mut balancer, &mut now, failing, None);
    for _ in 0..20 {
        now += 10 * MS;
        if balancer.is_failing(failing) {
            let probe = pick_only(&mut balancer, now, failing);
            balancer.finish(now, probe, success(10 * MS));
        }
    }
    assert_eq!(explanation(&balancer, now, failing).state, "warming");
    // Four failures must suffice. In the 50 ms for which the endpoint must fail too often, five more calls fail.
    assert!(make_failing(&mut balancer, &mut now, failing, None) <= 9);
}

/// The streams that were open before the fault end later. They must not take the successes of the probes.
#[test]
fn a_probe_that_stays_open_counts_although_older_streams_end() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let failing = ids(&balancer)[1];
    let mut now = settle(&mut balancer, start, 10 * MS);
    let mut streams: Vec<Pick> = Vec::new();
    for _ in 0..30 {
        let mut stream = pick_only(&mut balancer, now, failing);
        balancer.answered(now + MS, &mut stream, MS);
        streams.push(stream);
    }
    make_failing(&mut balancer, &mut now, failing, None);
    let mut probe = pick_only(&mut balancer, now, failing);
    balancer.answered(now + MS, &mut probe, MS);
    for stream in streams {
        now += 60 * MS;
        balancer.finish(now, stream, success(2000 * MS));
        let unsent = pick(&mut balancer, now);
        balancer.finish(now, unsent, Outcome::NotSent);
    }
    let probation = balancer.endpoints.list[1].health.probation().expect("still failing");
    assert_eq!(probation.good_answers, 1);
}

#[test]
fn a_failed_call_keeps_its_place_for_some_usual_latencies() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 2, start);
    let now = settle(&mut balancer, start, 10 * MS);
    let [one, _] = ids(&balancer)[..] else {
        panic!("two endpoints");
    };
    for _ in 0..5 {
        let pick = pick_only(&mut balancer, now, one);
        balancer.finish(now, pick, failure(None));
    }
    let usual_ms = balancer.latency.baseline.latency_ms;
    let load = |after: Duration| balancer.endpoints.list[0].load(now + after, usual_ms, false);
    assert_eq!(balancer.in_flight(one), Some(0));
    assert_eq!([load(Duration::ZERO), load(40 * MS), load(200 * MS)], [5, 2, 0]);
}

/// If all endpoints are overloaded, an endpoint without failed calls would get all calls at once.
#[test]
fn an_endpoint_that_becomes_ready_gets_as_many_kept_places_as_the_others_have() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let mut now = settle(&mut balancer, start, 10 * MS);
    for id in ids(&balancer).split_off(1) {
        for _ in 0..20 {
            let pick = pick_only(&mut balancer, now, id);
            balancer.finish(now, pick, failure(None));
        }
    }
    balancer.endpoints.list[0].health.state = State::Warming { since: start, takes: 10 * MS };
    now += 10 * MS;
    let refreshes = pick(&mut balancer, now);
    balancer.finish(now, refreshes, Outcome::NotSent);
    assert_eq!(balancer.endpoints.list[0].health.state, State::Ready);
    let usual_ms = balancer.latency.baseline.latency_ms;
    let loads: Vec<_> = balancer.endpoints.list.iter().map(|endpoint| endpoint.load(now, usual_ms, false)).collect();
    assert_eq!(loads, [16; 3]);
}

/// The remaining endpoints must carry the calls of the failing ones.
#[test]
fn the_more_endpoints_are_failing_the_more_often_must_a_further_one_fail() {
    for (failing, is_found) in [(0, true), (2, false)] {
        let (mut now, mut random) = (Instant::now(), Rng::with_seed(1));
        let mut balancer = balancer(Policy::Latency, 5, now);
        let ids = ids(&balancer);
        let mut found = false;
        for call in 0..5_000 {
            now += MS;
            let pick = pick(&mut balancer, now);
            let number = ids.iter().position(|id| *id == pick.endpoint).expect("a member");
            let fails = call >= 500 && number < failing || call >= 2_000 && number == failing && random.f64() < 0.3;
            balancer.finish(now, pick, if fails { failure(None) } else { success(MS) });
            found |= balancer.is_failing(ids[failing]);
        }
        assert_eq!(found, is_found, "{failing} failing endpoints");
        assert!(ids[..failing].iter().all(|id| balancer.is_failing(*id)));
    }
}

/// Each endpoint fails before the others are known to fail. At 10,000 calls per second, thousands of calls are between
/// two refreshes.
#[test]
fn a_fault_that_begins_everywhere_makes_no_endpoint_failing() {
    for calls_per_s in [1_000, 10_000] {
        let mut now = Instant::now();
        let mut balancer = balancer(Policy::Latency, 5, now);
        for call in 0..2 * calls_per_s {
            now += Duration::from_secs(1) / calls_per_s;
            let pick = pick(&mut balancer, now);
            balancer.finish(now, pick, if call < calls_per_s { success(MS) } else { failure(None) });
            assert!(none_is_failing(&balancer), "{calls_per_s}/s, call {call}");
        }
    }
}

#[test]
fn probes_are_no_more_frequent_than_a_fair_share_of_the_calls() {
    let (mut balancer, slow, mut now) = one_slow(50, 5000 * MS);
    assert_eq!(explanation(&balancer, now, slow).state, "slow");
    // A fair share is one of 50 calls.
    let mut probes = 0;
    for _ in 0..300 {
        now += 1000 * MS;
        let pick = pick(&mut balancer, now);
        let is_probe = pick.endpoint == slow;
        probes += u32::from(is_probe);
        balancer.finish(now, pick, success(if is_probe { 5000 * MS } else { 10 * MS }));
    }
    assert!((5..=6).contains(&probes), "{probes} probes among 300 calls");
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

/// The application answers one user with RESOURCE_EXHAUSTED and a long pushback. The other users need all endpoints.
#[test]
fn a_user_over_its_quota_closes_no_endpoint() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let mut now = settle(&mut balancer, start, 10 * MS);
    for call in 1..=3_000 {
        now += MS;
        let pick = pick(&mut balancer, now);
        let outcome = if call % 20 == 0 { failure(Some(30_000 * MS)) } else { success(10 * MS) };
        balancer.finish(now, pick, outcome);
        let states: Vec<_> = balancer.explain(now).into_iter().map(|it| it.state).collect();
        assert_eq!(states, ["ready"; 3], "call {call}");
    }
}

#[test]
fn pushback_puts_off_the_probes_of_a_failing_endpoint() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 3, start);
    let busy = ids(&balancer)[2];
    let mut now = settle(&mut balancer, start, 10 * MS);
    let failures = make_failing(&mut balancer, &mut now, busy, Some(2000 * MS));
    assert!(failures > 1, "a single pushback made the endpoint failing");

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
    let asking = ids(&balancer)[0];
    let mut now = settle(&mut balancer, start, 10 * MS);
    make_failing(&mut balancer, &mut now, asking, Some(Duration::MAX));
    assert_eq!(pick_only(&mut balancer, now, asking).endpoint, asking);

    let mut first_after_s = None;
    for after_s in 1..60 {
        let now = now + Duration::from_secs(after_s);
        let pick = pick(&mut balancer, now);
        if pick.endpoint == asking {
            first_after_s.get_or_insert(after_s);
        }
        balancer.finish(now, pick, success(10 * MS));
    }
    let first_after_s = first_after_s.expect("it is asked again");
    assert!((30..35).contains(&first_after_s), "{first_after_s} s");
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
