//! Tests which endpoints are failing, and how many calls a failing endpoint still gets.

use super::*;

/// A client cancels a call at once, and then the cluster is idle. Nothing shows that the endpoint hangs, so its earlier
/// successes still show that the other endpoint is failing.
#[test]
fn an_idle_endpoint_does_not_hang() {
    for outcome in [Outcome::Cancelled { waited: MS }, Outcome::NotSent] {
        let start = Instant::now();
        let mut balancer = balancer(Policy::Latency, 2, start);
        let [failing, well] = ids(&balancer)[..] else {
            panic!("two endpoints");
        };
        let mut now = settle(&mut balancer, start, 10 * MS);
        make_failing(&mut balancer, &mut now, failing, None);
        for idle_s in [3, 10] {
            let cancelled = pick_only(&mut balancer, now, well);
            balancer.finish(now + MS, cancelled, outcome);
            now += Duration::from_secs(idle_s);
            for _ in 0..3 {
                now += 101 * MS;
                let call = pick_only(&mut balancer, now, well);
                assert!(balancer.is_failing(failing), "{outcome:?}, idle for {idle_s} s");
                let refreshes = balancer.pick(now + 101 * MS, |_| true).expect("an endpoint");
                assert!(balancer.is_failing(failing), "{outcome:?}, a call waits, idle for {idle_s} s");
                now += 101 * MS;
                balancer.finish(now, refreshes, Outcome::NotSent);
                balancer.finish(now, call, Outcome::Cancelled { waited: MS });
            }
        }
    }
}

/// The endpoint leaves all calls of 2 s without an answer, although a call waits only for a part of the time.
#[test]
fn an_endpoint_hangs_although_its_calls_are_cancelled_one_after_the_other() {
    let start = Instant::now();
    let mut balancer = balancer(Policy::Latency, 2, start);
    let hanging = ids(&balancer)[1];
    let mut now = settle(&mut balancer, start, 10 * MS);
    let hangs = |balancer: &Balancer, now| balancer.endpoints.list[1].outcomes(now, Some(10.0)).is_none();
    for call in 0..30 {
        let waits = pick_only(&mut balancer, now, hanging);
        balancer.finish(now + 100 * MS, waits, Outcome::Cancelled { waited: 100 * MS });
        now += 1000 * MS;
        assert_eq!(hangs(&balancer, now), call >= 20, "call {call}");
    }
    let answered = pick_only(&mut balancer, now, hanging);
    balancer.finish(now + 10 * MS, answered, success(10 * MS));
    assert!(!hangs(&balancer, now + 5000 * MS));
}

/// Opens `numbers[i]` streams to endpoint i, which all get an answer and stay open. Returns the streams.
fn open_streams(balancer: &mut Balancer, now: &mut Instant, numbers: &[usize]) -> Vec<Pick> {
    let mut streams = Vec::new();
    for (id, number) in ids(balancer).into_iter().zip(numbers) {
        for _ in 0..*number {
            *now += 100 * MS;
            let mut stream = pick_only(balancer, *now, id);
            balancer.answered(*now + 5 * MS, &mut stream, 5 * MS);
            streams.push(stream);
        }
    }
    *now += 10_000 * MS;
    streams
}

/// All calls of one client fail. An endpoint with few open streams has the lowest number of calls in flight for minutes,
/// and must not get all of these calls.
#[test]
fn a_client_whose_calls_all_fail_makes_no_endpoint_failing_beside_streams() {
    for numbers in [[0, 1, 2, 3, 4], [6, 7, 8, 9, 10]] {
        let mut now = Instant::now();
        let mut balancer = balancer(Policy::Latency, 5, now);
        let _streams = open_streams(&mut balancer, &mut now, &numbers);
        for call in 0..300 {
            now += 1000 * MS;
            let pick = pick(&mut balancer, now);
            balancer.finish(now + 2 * MS, pick, failure(None));
            assert!(none_is_failing(&balancer), "call {call}, streams {numbers:?}");
        }
    }
}

/// A client calls a method that works and a method that fails in turn. The success must not send the next failing call to
/// the endpoint with the fewest streams.
#[test]
fn a_method_that_always_fails_makes_no_endpoint_failing_beside_streams() {
    for numbers in [&[5, 6][..], &[6, 7, 8, 9, 10]] {
        let mut now = Instant::now();
        let mut balancer = balancer(Policy::Latency, numbers.len() as u32, now);
        let _streams = open_streams(&mut balancer, &mut now, numbers);
        for call in 0..6_000 {
            now += 50 * MS;
            let pick = pick(&mut balancer, now);
            balancer.finish(now + 5 * MS, pick, if call % 2 == 0 { success(5 * MS) } else { failure(None) });
            assert!(none_is_failing(&balancer), "call {call}, streams {numbers:?}");
        }
    }
}

/// One endpoint has more streams than the others, so the others share the calls. A failed call must not exclude its
/// endpoint for long. Otherwise, each failure would exclude one more endpoint, until one endpoint got all calls.
#[test]
fn rare_failures_beside_streams_leave_the_calls_spread() {
    const CALLS_PER_FAILURE: u32 = 120;
    for seed in 0..3 {
        let mut now = Instant::now();
        let mut balancer = Balancer::new(Policy::Latency, seed);
        balancer.set_endpoints(now, (0..5).map(address));
        let _streams = open_streams(&mut balancer, &mut now, &[0, 0, 0, 0, 50]);
        for failure_number in 0..50 {
            let mut counts: HashMap<EndpointId, u32> = HashMap::new();
            for call in 0..CALLS_PER_FAILURE {
                now += 50 * MS;
                let pick = pick(&mut balancer, now);
                *counts.entry(pick.endpoint).or_default() += 1;
                balancer.finish(now + 5 * MS, pick, if call == 0 { failure(None) } else { success(5 * MS) });
            }
            let busiest = counts.into_values().max();
            assert!(busiest < Some(CALLS_PER_FAILURE * 2 / 5), "seed {seed}, failure {failure_number}: {busiest:?}");
        }
    }
}

/// New streams go to the endpoint with the fewest streams again once calls no longer fail.
#[test]
fn an_endpoint_that_has_failed_once_gets_streams_again_soon() {
    let mut now = Instant::now();
    let mut balancer = balancer(Policy::Latency, 2, now);
    let [full, empty] = ids(&balancer)[..] else {
        panic!("two endpoints");
    };
    let _streams = open_streams(&mut balancer, &mut now, &[100, 0]);
    let failed = pick_only(&mut balancer, now, empty);
    balancer.finish(now, failed, failure(None));
    let mut to_full = 0;
    for _ in 0..2 * 8 {
        now += 100 * MS;
        let pick = pick(&mut balancer, now);
        to_full += u32::from(pick.endpoint == full);
        balancer.finish(now + MS, pick, success(MS));
    }
    assert!((1..16).contains(&to_full), "{to_full} of 16 calls");
    now += 100 * MS;
    assert_eq!(pick(&mut balancer, now).endpoint, empty);
}

/// A client calls two methods in turn, and one of the methods always fails. The failing calls must not all go to the same
/// endpoints.
#[test]
fn a_method_that_always_fails_makes_no_endpoint_failing() {
    for endpoints in [2, 3, 4] {
        for (period, seed) in [(200 * MS, 1), (200 * MS, 2), (1000 * MS, 1), (1000 * MS, 2)] {
            let mut now = Instant::now();
            let mut balancer = Balancer::new(Policy::Latency, seed);
            balancer.set_endpoints(now, (0..endpoints).map(address));
            for call in 0..1_000 {
                now += period;
                for (after, outcome) in [(Duration::ZERO, success(5 * MS)), (6 * MS, failure(None))] {
                    let pick = pick(&mut balancer, now + after);
                    balancer.finish(now + after + 5 * MS, pick, outcome);
                }
                assert!(none_is_failing(&balancer), "{endpoints} endpoints, {period:?}, seed {seed}, call {call}");
            }
        }
    }
}

/// Makes calls to `endpoints` endpoints, of which the first fails all calls. Returns the fraction of the calls that fail,
/// without the calls of the first part, in which the endpoint is found.
fn failed_part(endpoints: u32, period: Duration, calls: u32) -> f64 {
    let mut now = Instant::now();
    let mut balancer = balancer(Policy::Latency, endpoints, now);
    let failing = ids(&balancer)[0];
    let mut failed = 0;
    for call in 0..2 * calls {
        now += period;
        let pick = pick(&mut balancer, now);
        let fails = pick.endpoint == failing;
        failed += u32::from(fails && call >= calls);
        balancer.finish(now + 5 * MS, pick, if fails { failure(None) } else { success(5 * MS) });
    }
    f64::from(failed) / f64::from(calls)
}

#[test]
fn a_failing_endpoint_gets_much_less_than_a_fair_share_of_few_calls() {
    for (endpoints, period) in [(2, 1000 * MS), (2, 2000 * MS), (3, 1000 * MS), (5, 1000 * MS), (10, 500 * MS)] {
        let part = failed_part(endpoints, period, 1_000);
        let fair = 1.0 / f64::from(endpoints);
        assert!(part < 0.35 * fair, "{endpoints} endpoints, a call in {period:?}: {part} of the calls fail");
    }
}

#[test]
fn a_failing_endpoint_never_gets_more_than_a_fair_share() {
    for endpoints in [2, 10, 50] {
        for period_s in [1, 5, 20, 60] {
            let part = failed_part(endpoints, Duration::from_secs(period_s), 1_000);
            let fair = 1.0 / f64::from(endpoints);
            assert!(
                part < 1.1 * fair + 0.01,
                "{endpoints} endpoints, a call in {period_s} s: {part} of the calls fail"
            );
        }
    }
}
