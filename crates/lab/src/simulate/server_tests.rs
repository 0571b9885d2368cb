use super::*;

#[test]
fn calls_beyond_the_workers_wait_in_turn() {
    let mut server = Server::new(Behaviour::healthy(1));
    assert!(server.take(1));
    assert!(!server.take(2));
    assert!(!server.take(3));
    assert_eq!(server.work_done(), Some(2));
    assert_eq!(server.work_done(), Some(3));
    assert_eq!(server.work_done(), None);
    assert!(server.take(4));
}

#[test]
fn a_probe_is_told_the_latency_of_calls_that_found_as_many_others() {
    let mut server = Server::new(Behaviour::healthy(8));
    for _ in 0..12 {
        server.note_answer(1, 1.0, 0);
        server.note_answer(1, 9.0, 20);
    }
    assert_eq!(server.report(2).latency_ms, Some(1.0));
    server.open = 18;
    assert_eq!(server.report(2), Report { in_flight: 18, latency_ms: Some(9.0) });
    assert_eq!(server.report(2 + REPORTED_AGE_NS).latency_ms, None, "too long ago");
}
