use std::time::{Duration, SystemTime};

use super::*;
use crate::metrics::Direction;
use crate::trace::{SpanId, Text, Texts, TraceId};

fn call(path: &str) -> FinishedCall {
    FinishedCall {
        trace: TraceId::of(1).expect("not zero"),
        span: SpanId::of(2).expect("not zero"),
        parent: None,
        is_sampled: true,
        direction: Direction::Outbound,
        started: SystemTime::UNIX_EPOCH,
        duration: Duration::ZERO,
        is_grpc: true,
        texts: Texts::new(|text, to| {
            if text == Text::Path {
                to.push_str(path);
            }
        }),
        client: "127.0.0.1:1".parse().expect("an address"),
        client_id: None,
        http_status: Some(200),
        grpc_status: Some(0),
        proxy_error: None,
        was_cancelled: false,
        has_failed: false,
        retries: 0,
        hedges: 0,
        attempts: Default::default(),
    }
}

#[test]
fn calls_wait_until_the_exporter_takes_them() {
    let outbox = Outbox::default();
    assert!(outbox.offer(call("/a")) && outbox.offer(call("/b")));
    let paths: Vec<_> = outbox.take().iter().map(|call| call.texts.get(Text::Path).to_owned()).collect();
    assert_eq!(paths, ["/a", "/b"]);
    assert!(outbox.take().is_empty());
}

#[test]
fn calls_that_wait_have_a_bound_in_bytes() {
    let outbox = Outbox::default();
    let long = "x".repeat(1 << 10);
    let offered = 10_000;
    let taken = (0..offered).filter(|_| outbox.offer(call(&long))).count();
    let waiting = outbox.take();
    assert!(waiting.iter().map(FinishedCall::memory_bytes).sum::<usize>() <= MAX_WAITING_BYTES);
    assert_eq!(waiting.len(), taken);
    assert!(waiting.len() > 500, "{}", waiting.len());
    assert_eq!(outbox.dropped(Dropped::QueueFull), offered - waiting.len() as u64);
    assert!(outbox.offer(call(&long)));
    assert_eq!(outbox.take().len(), 1);
}

#[test]
fn a_worker_does_not_wait_for_the_exporter() {
    let outbox = Outbox::default();
    let taken = outbox.waiting.lock().expect("not poisoned");
    assert!(!outbox.offer(call("/a")));
    drop(taken);
    assert_eq!((outbox.take().len(), outbox.dropped(Dropped::QueueFull)), (0, 1));
}
