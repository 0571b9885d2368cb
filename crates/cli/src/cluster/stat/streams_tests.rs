use serde_json::json;

use super::*;
use crate::cluster::source::tests::proxy;

/// A stream that has been open for 90 s. The proxy has received `received` bytes of the response, and `queued`
/// bytes of them still wait in the proxy for the client.
fn call(messages: u32, (received, queued): (u64, u64)) -> Call {
    let page = json!({"calls": [{
        "id": 7, "worker": 0, "direction": "outbound", "client": "127.0.0.1:4000", "target": "feed.shop:80",
        "method": "shop.v1.Feed/Watch", "endpoint": "10.0.0.1:50051", "progress": "answering", "age_ms": 90_000,
        "time_left_ms": 30_000, "attempts": 1, "request_messages": 1, "response_messages": messages,
        "request_bytes": 10, "response_bytes": received, "request_queued_bytes": 0, "response_queued_bytes": queued,
    }], "omitted": 2, "silent_workers": []});
    page_of(&proxy(), &page.to_string()).expect("a page").calls.remove(0)
}

fn row(before: Option<&Call>, now: Call) -> Row {
    Row::new(&proxy(), now, before.map(|call| (call, Duration::from_secs(2))))
}

#[test]
fn a_stream_has_its_messages_in_a_second_and_its_totals() {
    let row = row(Some(&call(100, (1_000, 0))), call(300, (3_000, 0)));
    let text = table(&Streams { calls: vec![row], omitted: 2, ..Streams::default() }, BETWEEN);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "NAMESPACE   NAME         METHOD               TO             ENDPOINT         STATE       AGE S   MSG/S   REQ   RESP   LEFT S   STALLED BY",
            "shop        web    out   shop.v1.Feed/Watch   feed.shop:80   10.0.0.1:50051   answering    90.0   100.0     1    300     30.0   -",
        ]
    );
    assert!(text.contains("1 calls open for longer than 1000 ms; 2 younger calls are left out"), "{text}");
}

#[test]
fn a_side_that_takes_nothing_stalls_the_stream() {
    let stalled = |before: (u64, u64), now: (u64, u64)| row(Some(&call(1, before)), call(1, now)).stalled_by;
    assert_eq!(stalled((5_000, 1_000), (5_000, 1_000)), Some("client"));
    assert_eq!(stalled((5_000, 1_000), (6_000, 2_000)), Some("client"), "what arrives meanwhile waits, too");
    assert_eq!(stalled((5_000, 1_000), (6_000, 1_000)), None, "the client has read 1,000 bytes");
    assert_eq!(stalled((5_000, 0), (6_000, 1_000)), None, "content has not waited for long");
    assert_eq!(row(None, call(1, (5_000, 1_000))).stalled_by, None, "the stream is new");
}

#[test]
fn workers_that_did_not_answer_their_proxy_are_counted_and_shown() {
    let page = |silent: &[usize]| {
        let page = json!({"calls": [], "omitted": 0, "silent_workers": silent});
        (proxy(), BootInstant::now(), page.to_string())
    };
    let (found, _) = streams([], &[page(&[0, 3]), page(&[1])]);
    assert_eq!(found.silent_workers, 3);
    assert!(
        table(&found, BETWEEN).contains("the calls of 3 workers are missing"),
        "also if no other worker has an open call"
    );
    let (found, _) = streams(&[page(&[0])], &[page(&[])]);
    assert!(!table(&found, BETWEEN).contains("missing"), "the first reading only serves for a comparison");
}

#[test]
fn without_streams_the_output_says_so() {
    assert!(table(&Streams::default(), BETWEEN).starts_with("no call has been open for longer than 1000 ms"));
    let error = page_of(&proxy(), "{}").expect_err("it is another page").to_string();
    assert!(error.contains("leno version"), "{error}");
}
