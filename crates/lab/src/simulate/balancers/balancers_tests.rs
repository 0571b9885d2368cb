//! Checks single decisions of the reimplemented balancers against the behavior that their authors published.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn balancer(kind: Kind, servers: usize, now: Instant) -> Box<dyn Balance> {
    let mut balancer = kind.make(7);
    let servers: Vec<usize> = (0..servers).collect();
    balancer.set_endpoints(now, &servers);
    balancer
}

fn success(latency: Duration) -> Outcome {
    Outcome::Success { latency }
}

#[test]
fn names_are_read_as_they_are_written() {
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    assert!("ewma".parse::<Kind>().expect_err("no such name").contains("p2c-peak-ewma"));
}

#[test]
fn two_choices_on_calls_in_flight_still_send_a_full_server_one_call_in_n_squared() {
    let now = Instant::now();
    let mut balancer = balancer(Kind::TwoLeastRequest, 5, now);
    let mut picked = [0; 5];
    // Calls to server 0 never end; calls to the other servers end at once.
    for _ in 0..100_000 {
        let ticket = balancer.pick(now, 0);
        picked[ticket.server] += 1;
        if ticket.server != 0 {
            balancer.finish(now, ticket, success(MS));
        }
    }
    assert!((3_600..4_400).contains(&picked[0]), "{picked:?}");
}

#[test]
fn peak_ewma_jumps_to_a_peak_and_needs_ten_seconds_to_forget_most_of_it() {
    let start = Instant::now();
    let mut balancer = balancer(Kind::PeakEwma, 2, start);
    let answer = |balancer: &mut Box<dyn Balance>, now: Instant, slow_ms: u32| {
        let ticket = balancer.pick(now, 0);
        let server = ticket.server;
        let latency = if server == 0 { slow_ms * MS } else { MS };
        balancer.finish(now, ticket, success(latency));
        server
    };
    while answer(&mut balancer, start, 500) != 0 {}
    let share =
        |balancer: &mut Box<dyn Balance>, now: Instant| (0..1000).filter(|_| answer(balancer, now, 1) == 0).count();
    assert_eq!(share(&mut balancer, start + 1000 * MS), 0, "500 ms against 30");
    assert_eq!(share(&mut balancer, start + 9000 * MS), 0, "an idle one decays, but so does the other");
}

#[test]
fn prequal_takes_the_cold_server_of_the_lowest_latency_and_of_hot_ones_the_emptiest() {
    let now = Instant::now();
    let mut balancer = balancer(Kind::Prequal, 3, now);
    let probed = |balancer: &mut Box<dyn Balance>, server, in_flight, latency_ms| {
        balancer.probed(now, server, Report { in_flight, latency_ms: Some(latency_ms) });
    };
    // Report one call in flight until the balancer's record of recent answers is full. After that, a server with two or
    // more calls in flight is hot.
    for _ in 0..128 {
        probed(&mut balancer, 0, 1, 5.0);
    }
    probed(&mut balancer, 1, 1, 2.0);
    probed(&mut balancer, 2, 9, 0.5);
    assert_eq!(balancer.pick(now, 0).server, 1);
    probed(&mut balancer, 0, 8, 5.0);
    probed(&mut balancer, 1, 7, 50.0);
    probed(&mut balancer, 2, 9, 0.5);
    assert_eq!(balancer.pick(now, 0).server, 1);
}

#[test]
fn prequal_asks_three_servers_after_each_pick() {
    let now = Instant::now();
    let mut balancer = balancer(Kind::Prequal, 5, now);
    let _ticket = balancer.pick(now, 0);
    assert_eq!(std::iter::from_fn(|| balancer.probe()).count(), 3);
}
