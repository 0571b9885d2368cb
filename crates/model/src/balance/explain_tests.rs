use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::super::{Outcome, Pick, Policy};
use super::*;

fn addresses(count: u8) -> impl Iterator<Item = SocketAddr> {
    (0..count).map(|number| SocketAddr::from((Ipv4Addr::new(10, 0, 0, number), 50051)))
}

/// Returns a balancer after ten seconds, and the time. Each millisecond, it sent a call to one of five endpoints. The
/// calls took 8 to 12 ms, but 100 ms longer at the third endpoint. At the fourth endpoint, they failed at once.
fn experienced(policy: Policy) -> (Balancer, Instant) {
    let mut now = Instant::now();
    let mut balancer = Balancer::new(policy, 1);
    balancer.set_endpoints(now, addresses(5));
    let mut calls: BTreeMap<(Instant, u64), (Pick, Outcome)> = BTreeMap::new();
    for number in 0..10_000 {
        now += Duration::from_millis(1);
        while let Some(call) = calls.first_entry().filter(|call| call.key().0 <= now) {
            let (pick, outcome) = call.remove();
            balancer.finish(now, pick, outcome);
        }
        let pick = balancer.pick(now, |_| true).expect("an endpoint");
        let latency = Duration::from_millis(8 + number % 5);
        let (latency, outcome) = match pick.endpoint.slot() {
            2 => (
                latency + Duration::from_millis(100),
                Outcome::Success { latency: latency + Duration::from_millis(100) },
            ),
            3 => (Duration::ZERO, Outcome::Failure { latency: Duration::ZERO, pushback: None }),
            _ => (latency, Outcome::Success { latency }),
        };
        calls.insert((now + latency, number), (pick, outcome));
    }
    (balancer, now)
}

#[test]
fn shares_of_the_last_picks_add_up_to_one() {
    for policy in Policy::ALL {
        let (balancer, now) = experienced(policy);
        let explained = balancer.explain(now);
        let sum: f64 = explained.iter().map(|endpoint| endpoint.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{policy}: {sum}");
        let picks: usize = explained.iter().map(|endpoint| endpoint.recent_picks).sum();
        assert_eq!(picks, 1024, "{policy}");
    }
}

#[test]
fn a_newcomer_does_not_inherit_the_share_of_the_one_before() {
    let (mut balancer, now) = experienced(Policy::RoundRobin);
    balancer.set_endpoints(now, addresses(4));
    balancer.set_endpoints(now, addresses(5));
    let newcomer = &balancer.explain(now)[4];
    assert_eq!((newcomer.recent_picks, newcomer.picks), (0, 0));
}

#[test]
fn states_are_told_in_words_and_numbers() {
    let (balancer, now) = experienced(Policy::Latency);
    let explained = balancer.explain(now);
    let states: Vec<_> = explained.iter().map(|endpoint| endpoint.state).collect();
    assert_eq!(states, ["ready", "ready", "slow", "failing", "ready"]);

    let slow = &explained[2];
    assert!(slow.latency_estimate_ms > slow.latency_limit_ms, "{slow:?}");
    assert!(slow.reason.contains("x the median") && !slow.reason.contains("capped"), "{slow:?}");
    assert!(slow.reason.contains("next probe in"), "{slow:?}");
    assert!(explained[3].failure_rate > 0.1, "{:?}", explained[3]);
    assert_eq!(explained[3].failures, explained[3].picks);
}

#[test]
fn a_few_stalled_calls_do_not_make_every_endpoint_slower_than_the_median() {
    let (mut now, mut balancer) = (Instant::now(), Balancer::new(Policy::Latency, 1));
    balancer.set_endpoints(now, addresses(2));
    for number in 0..1_000 {
        let pick = balancer.pick(now, |_| true).expect("an endpoint");
        let latency = Duration::from_millis(if number % 20 < 2 { 2_000 } else { 10 });
        now += Duration::from_millis(10);
        balancer.finish(now, pick, Outcome::Success { latency });
    }
    for endpoint in balancer.explain(now) {
        let reason = endpoint.reason;
        let (mean, rest) = reason.split_once(" ms (").expect("two means");
        let (capped, times) = rest.split_once(" ms with stalled calls capped), ").expect("the capped mean");
        let number = |text: &str| text.parse::<f64>().expect("a number");
        assert!(number(mean) > 3.0 * number(capped), "{reason}");
        let (times, _) = times.split_once(" x the median").expect("a comparison");
        assert!((0.5..2.0).contains(&number(times)), "{reason}");
    }
}

#[test]
fn the_last_pick_is_explained_at_its_endpoint_and_nowhere_else() {
    for policy in Policy::ALL {
        let (mut balancer, now) = experienced(policy);
        let pick = balancer.pick(now, |_| true).expect("an endpoint");
        let address = balancer.address(pick.endpoint);
        let explained = balancer.explain(now);
        for endpoint in explained {
            let picked = Some(endpoint.address) == address;
            assert_eq!(endpoint.last_pick.is_some(), picked, "{policy}: {endpoint:?}");
        }
    }
}

#[test]
fn the_reason_of_a_pick_compares_it_with_the_runner_up() {
    let now = Instant::now();
    let mut balancer = Balancer::new(Policy::Latency, 1);
    let addresses = ["10.0.0.1:80", "10.0.0.2:80"].map(|text| text.parse().expect("an address"));
    balancer.set_endpoints(now, addresses);
    let reason = |balancer: &Balancer| {
        let mut reasons = balancer.explain(now).into_iter().filter_map(|it| it.last_pick);
        reasons.next().expect("one was picked")
    };

    let first = balancer.pick(now, |_| true).expect("an endpoint");
    let other = addresses.into_iter().find(|address| Some(*address) != balancer.address(first.endpoint));
    let other = other.expect("the other one");
    let tie = format!("ready with 0 in flight, won the tie; beat {other}: ready with 0 in flight");
    assert_eq!(reason(&balancer), tie);

    let second = balancer.pick(now, |_| true).expect("an endpoint");
    assert!(reason(&balancer).ends_with("ready with 1 in flight"), "{}", reason(&balancer));

    balancer.finish(now, second, Outcome::NotSent);
    let only = balancer.pick(now, |id| id == first.endpoint).expect("an endpoint");
    assert_eq!(reason(&balancer), "ready with 1 in flight; the only one usable");
    assert_eq!(only.endpoint, first.endpoint);
}

#[test]
fn the_explanation_is_json_with_units_in_its_names() {
    let (balancer, now) = experienced(Policy::Latency);
    let explained = balancer.explain(now);
    let json = serde_json::to_value(&explained).expect("serializable");
    assert_eq!(json[0]["address"], "10.0.0.0:50051");
    assert_eq!(json[2]["state"], "slow");
    assert!(json[2]["latency_estimate_ms"].as_f64() > Some(50.0));
    assert_eq!(serde_json::to_value(Policy::LeastRequest).expect("serializable"), "least-request");
}
