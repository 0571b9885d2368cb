use std::net::SocketAddr;
use std::time::Duration;

use super::super::{Load, Snapshot, Traffic};
use super::*;
use crate::echo::tests::start_http1_server;

/// Runs a load with this many clients to its end, while the test's server runs.
async fn run_to_end(address: SocketAddr, clients: usize, pattern: Pattern) -> Snapshot {
    run_with(address, clients, pattern, Traffic::default()).await
}

async fn run_with(address: SocketAddr, clients: usize, pattern: Pattern, traffic: Traffic) -> Snapshot {
    run_exchange(address, clients, pattern, (Exchange::Http1, traffic)).await
}

async fn run_exchange(
    address: SocketAddr,
    clients: usize,
    pattern: Pattern,
    (exchange, traffic): (Exchange, Traffic),
) -> Snapshot {
    let client = Client { address, authority: address.to_string() };
    let plan = Plan {
        clients: vec![client; clients],
        servers: vec!["s1".to_owned()],
        exchange,
        traffic,
        pattern,
        warm_up: Duration::from_millis(50),
        measured: Duration::from_millis(500),
        cpus: Vec::new(),
        seed: 0,
    };
    let end = tokio::task::spawn_blocking(|| Load::start(plan).finish());
    end.await.expect("the load does not panic").expect("a server that answers")
}

#[tokio::test]
async fn in_a_closed_loop_each_connection_has_one_request_at_a_time() {
    let address = start_http1_server("s1", 50).await;
    let snapshot = run_to_end(address, 4, Pattern::Closed { in_flight: 4 }).await;
    assert_eq!(snapshot.failed, 0, "{snapshot:?}");
    // Each exchange takes a little more than 50 ms of the 500 ms.
    assert!((4..=40).contains(&snapshot.total.calls), "{snapshot:?}");
    assert!(snapshot.total.p50_ms >= 50.0, "{snapshot:?}");
}

#[tokio::test]
async fn in_an_open_loop_what_waits_for_a_connection_counts_from_when_it_was_due() {
    let address = start_http1_server("s1", 100).await;
    let pattern = Pattern::Open { rate_per_s: 100, max_in_flight: 1000 };
    let snapshot = run_to_end(address, 2, pattern).await;
    // 50 exchanges are due, and two at a time take 100 ms.
    assert_eq!((snapshot.total.calls, snapshot.failed), (50, 0), "{snapshot:?}");
    assert!(snapshot.total.max_ms > 1000.0, "{snapshot:?}");
}

#[tokio::test]
async fn more_than_may_wait_fails() {
    let address = start_http1_server("s1", 200).await;
    let snapshot = run_to_end(address, 1, Pattern::Open { rate_per_s: 100, max_in_flight: 5 }).await;
    assert_eq!(snapshot.first_failure.as_deref(), Some("too many calls wait for an answer"));
    assert!(snapshot.failed > 30, "{snapshot:?}");
}

#[tokio::test]
async fn requests_and_answers_have_the_sizes_of_the_traffic() {
    let address = start_http1_server("s1", 0).await;
    for (request_bytes, response_bytes) in [(0, 0), (0, 11), (1024, 1024), (10, 200_000), (200_000, 10)] {
        let traffic = Traffic { request_bytes, response_bytes, ..Traffic::default() };
        let pattern = Pattern::Open { rate_per_s: 100, max_in_flight: 1000 };
        for exchange in [Exchange::Http1, Exchange::Http2] {
            let snapshot = run_exchange(address, 2, pattern, (exchange, traffic)).await;
            assert_eq!((snapshot.total.calls, snapshot.failed), (50, 0), "{traffic:?}: {snapshot:?}");
        }
    }
}
