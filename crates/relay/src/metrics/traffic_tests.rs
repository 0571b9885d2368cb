use std::time::Duration;

use super::{Class, RESPONSE_KINDS, ResponseKind, TrafficMetrics, TrafficTotals};

fn totals(workers: &[&TrafficMetrics]) -> TrafficTotals {
    let mut totals = TrafficTotals::default();
    for worker in workers {
        worker.add_to(&mut totals);
    }
    totals
}

#[test]
fn a_call_is_in_flight_until_it_is_answered_or_cancelled() {
    let traffic = TrafficMetrics::default();
    for _ in 0..3 {
        traffic.request();
    }
    traffic.response(200, Some(0), Class::Success, Some(Duration::from_millis(1)));
    traffic.no_response();
    let totals = totals(&[&traffic]);
    assert_eq!((totals.requests, totals.in_flight, totals.latency.count()), (3, 1, 1));
}

#[test]
fn workers_add_up_by_kind_of_response() {
    let (one, two) = (TrafficMetrics::default(), TrafficMetrics::default());
    for worker in [&one, &two, &two] {
        worker.request();
        worker.response(200, Some(0), Class::Success, Some(Duration::from_millis(1)));
    }
    two.request();
    two.response(200, Some(14), Class::Failure, Some(Duration::from_millis(1)));

    let responses: Vec<_> = totals(&[&one, &two]).responses.into_iter().collect();
    let success = ResponseKind { class: Class::Success, http_status: 200, grpc_status: Some(0) };
    let failure = ResponseKind { class: Class::Failure, http_status: 200, grpc_status: Some(14) };
    assert_eq!(responses, [(success, 3), (failure, 1)]);
}

#[test]
fn an_endpoint_that_invents_statuses_does_not_grow_the_table() {
    let traffic = TrafficMetrics::default();
    for http_status in 200..600 {
        traffic.request();
        let class = if http_status >= 500 { Class::Failure } else { Class::Success };
        traffic.response(http_status, None, class, Some(Duration::ZERO));
    }
    let totals = totals(&[&traffic]);
    assert_eq!(totals.responses.len(), RESPONSE_KINDS);
    assert_eq!((totals.other_successes, totals.other_failures), (300 - RESPONSE_KINDS as u64, 100));
    assert_eq!(totals.in_flight, 0);
}
