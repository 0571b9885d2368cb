use std::time::Duration;

use super::super::{Client, Exchange, Traffic};
use super::*;

fn plan(clients: usize, pattern: Pattern) -> Plan {
    let client = |index: usize| Client { address: ([127, 0, 0, 1], 80).into(), authority: index.to_string() };
    Plan {
        clients: (0..clients).map(client).collect(),
        servers: vec!["s1".to_owned()],
        exchange: Exchange::Grpc,
        traffic: Traffic::default(),
        pattern,
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(2),
        cpus: vec![1],
        seed: 7,
    }
}

fn open(rate_per_s: u32, max_in_flight: u32) -> Pattern {
    Pattern::Open { rate_per_s, max_in_flight }
}

fn patterns(plan: &Plan, parts: usize) -> Vec<Pattern> {
    plan.shares(parts).iter().map(|part| part.pattern).collect()
}

#[test]
fn clients_take_turns_and_totals_follow_them() {
    let shares = plan(5, open(1_003, 50)).shares(2);
    let names = |plan: &Plan| plan.clients.iter().map(|client| client.authority.clone()).collect::<Vec<_>>().join(" ");
    assert_eq!(shares.iter().map(names).collect::<Vec<_>>(), ["0 2 4", "1 3"]);
    // Each client makes 200 calls per second, and each of the first three clients makes one more.
    assert_eq!(shares.iter().map(|part| part.pattern).collect::<Vec<_>>(), [open(602, 30), open(401, 20)]);
    assert_ne!(shares[0].seed, shares[1].seed);
    assert!(shares.iter().all(|part| (part.measured, &part.cpus[..]) == (Duration::from_secs(2), &[1])));
}

#[test]
fn there_are_no_more_parts_than_clients_or_calls() {
    assert_eq!(patterns(&plan(2, open(100, 100)), 9), [open(50, 50); 2]);
    assert_eq!(patterns(&plan(9, open(2, 100)), 3), [open(1, 56), open(1, 44)]);
    assert_eq!(patterns(&plan(9, open(100, 1)), 3), [open(100, 1)]);
    let closed = |in_flight| Pattern::Closed { in_flight };
    assert_eq!(patterns(&plan(9, closed(2)), 3), [closed(1); 2]);
    assert_eq!(patterns(&plan(3, closed(7)), 3), [closed(3), closed(2), closed(2)]);
    assert_eq!(patterns(&plan(0, closed(7)), 3), []);
    assert_eq!(patterns(&plan(3, closed(7)), 0), []);
}

#[test]
fn the_sums_are_the_totals_and_each_part_has_a_call() {
    for clients in 1..12_usize {
        for total in 1..40_u32 {
            for parts in 1..6_usize {
                let shares = plan(clients, open(total, total + 5)).shares(parts);
                assert_eq!(shares.len(), parts.min(clients).min(total as usize));
                assert_eq!(shares.len(), open(total, total + 5).parts(clients, parts));
                let mut sums = (0, 0, 0);
                for part in &shares {
                    let Pattern::Open { rate_per_s, max_in_flight } = part.pattern else { panic!("a closed loop") };
                    assert!(rate_per_s >= 1 && max_in_flight >= 1 && !part.clients.is_empty());
                    sums = (sums.0 + part.clients.len(), sums.1 + rate_per_s, sums.2 + max_in_flight);
                }
                assert_eq!(sums, (clients, total, total + 5), "{parts} parts");
            }
        }
    }
}

#[test]
fn the_largest_totals_do_not_overflow() {
    assert_eq!(patterns(&plan(1, open(u32::MAX, u32::MAX)), 1), [open(u32::MAX, u32::MAX)]);
}
