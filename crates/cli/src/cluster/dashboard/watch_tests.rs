use tokio::time::Instant;

use super::*;
use crate::cluster::source::tests::proxy;

#[test]
fn an_event_has_a_call_with_its_proxy() {
    let event = call(&proxy(), r#"{"path":"/items"}"#);
    assert_eq!(event, Some(json!({ "path": "/items", "workload": "shop/web", "pod": "web-1" })));
    assert_eq!(call(&proxy(), "no JSON"), None);
}

#[tokio::test(start_paused = true)]
async fn a_tap_whose_browser_reads_nothing_ends_and_a_slow_browser_keeps_its_tap() {
    let (sender, mut receiver) = channel::<Bytes>(2);
    let (missed, nothing, start) = (Missed::default(), Missed::default(), Instant::now());
    for number in 0..4 {
        send(&sender, &missed, &json!(number));
    }
    // The browser reads one event every 20 s, and a new call takes its place at once.
    let reading = async {
        for _ in 0..10 {
            sleep(Duration::from_secs(20)).await;
            receiver.recv().await;
            sleep(UNREAD_EVERY / 2).await;
            send(&sender, &missed, &json!("more"));
        }
    };
    tokio::join!(reading, unread(&sender, &nothing));
    let ended_s = start.elapsed().as_secs();
    assert!((234..=240).contains(&ended_s), "{ended_s} s: about 30 s after the browser read the last event");
}

#[test]
fn dropped_events_are_counted_before_the_next_event() {
    let (sender, mut receiver) = channel::<Bytes>(1);
    let missed = Missed::default();
    for number in 0..4 {
        send(&sender, &missed, &json!(number));
    }
    assert_eq!(receiver.try_recv().expect("an event"), "data: 0\n\n");
    send(&sender, &missed, &json!(4));
    assert_eq!(receiver.try_recv().expect("an event"), "data: {\"dropped\":3}\n\ndata: 4\n\n");
    assert_eq!(missed.dropped.get(), 0);
}

#[test]
fn notices_are_kept_until_the_browser_reads() {
    let (sender, mut receiver) = channel::<Bytes>(1);
    let missed = Missed::default();
    notify(&sender, &missed, "sent at once".to_owned());
    send(&sender, &missed, &json!("dropped"));
    notify(&sender, &missed, "a gap".to_owned());
    notify(&sender, &missed, "an end".to_owned());
    assert_eq!(receiver.try_recv().expect("an event"), "data: {\"notice\":\"sent at once\"}\n\n");
    send(&sender, &missed, &json!("a call"));
    let expected = "data: {\"dropped\":1}\n\ndata: {\"notice\":\"a gap\"}\n\ndata: {\"notice\":\"an end\"}\n\n\
                    data: \"a call\"\n\n";
    assert_eq!(receiver.try_recv().expect("an event"), expected);
    send(&sender, &missed, &json!("another"));
    assert_eq!(receiver.try_recv().expect("an event"), "data: \"another\"\n\n", "nothing is sent twice");
}

#[test]
fn only_the_newest_notices_are_kept() {
    let (sender, _receiver) = channel::<Bytes>(1);
    let missed = Missed::default();
    for number in 0..NOTICES_MAX + 4 {
        notify(&sender, &missed, number.to_string());
    }
    // The first notice was sent.
    assert_eq!(missed.dropped.get(), 3);
    let kept: Vec<String> = missed.notices.take().into();
    assert_eq!(kept, (4..NOTICES_MAX + 4).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_found_no_place_is_sent_although_no_event_follows() {
    let (sender, mut receiver) = channel::<Bytes>(1);
    let missed = Missed::default();
    send(&sender, &missed, &json!({ "path": "/a" }));
    notify(&sender, &missed, "the tap of a proxy ended".to_owned());
    let reading = async {
        let first = receiver.recv().await.expect("the call");
        let second = receiver.recv().await.expect("the notice");
        receiver.close();
        [first, second].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let ([first, second], ()) = tokio::join!(reading, unread(&sender, &missed));
    assert!(first.contains("/a") && second.contains("the tap of a proxy ended"), "{first}{second}");
}
