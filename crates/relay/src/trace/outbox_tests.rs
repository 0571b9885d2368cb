use std::time::{Duration, SystemTime};

use super::*;
use crate::metrics::Direction;
use crate::trace::{SpanId, TraceId};

fn call(path: &str) -> FinishedCall {
    FinishedCall {
        trace: TraceId::of(1).expect("not zero"),
        span: SpanId::of(2).expect("not zero"),
        parent: None,
        is_sampled: true,
        trace_state: String::new(),
        direction: Direction::Outbound,
        started: SystemTime::UNIX_EPOCH,
        duration: Duration::ZERO,
        is_grpc: true,
        method: "POST".to_owned(),
        path: path.to_owned(),
        authority: String::new(),
        target: String::new(),
        route: None,
        client: "127.0.0.1:1".parse().expect("an address"),
        client_id: None,
        http_status: Some(200),
        grpc_status: Some(0),
        proxy_error: None,
        was_cancelled: false,
        has_failed: false,
        retries: 0,
        hedges: 0,
        attempts: Vec::new(),
    }
}

#[test]
fn calls_wait_until_the_exporter_takes_them() {
    let outbox = Outbox::default();
    outbox.offer(call("/a"));
    outbox.offer(call("/b"));
    let paths: Vec<_> = outbox.take().into_iter().map(|call| call.path).collect();
    assert_eq!(paths, ["/a", "/b"]);
    assert!(outbox.take().is_empty());
}

#[test]
fn calls_that_wait_have_a_bound_in_bytes() {
    let outbox = Outbox::default();
    let long = "x".repeat(1 << 10);
    let offered = 10_000;
    (0..offered).for_each(|_| outbox.offer(call(&long)));
    let waiting = outbox.take();
    assert!(waiting.iter().map(FinishedCall::memory_bytes).sum::<usize>() <= MAX_WAITING_BYTES);
    assert!(waiting.len() > 500, "{}", waiting.len());
    assert_eq!(outbox.dropped(Dropped::QueueFull), offered - waiting.len() as u64);
    outbox.offer(call(&long));
    assert_eq!(outbox.take().len(), 1);
}

#[test]
fn a_worker_does_not_wait_for_the_exporter() {
    let outbox = Outbox::default();
    let taken = outbox.waiting.lock().expect("not poisoned");
    outbox.offer(call("/a"));
    drop(taken);
    assert_eq!((outbox.take().len(), outbox.dropped(Dropped::QueueFull)), (0, 1));
}
