use tokio::time::Instant;

use super::*;
use crate::cluster::source::tests::proxy;

#[test]
fn an_event_has_a_call_with_its_proxy_or_a_notice_about_a_gap() {
    let call = event(&proxy(), Tapped::Line(r#"{"path":"/items"}"#));
    assert_eq!(call, Some(json!({ "path": "/items", "workload": "shop/web", "pod": "web-1" })));
    assert_eq!(event(&proxy(), Tapped::Line("no JSON")), None);
    assert_eq!(event(&proxy(), Tapped::Gap("it ended".to_owned())), Some(json!({ "notice": "it ended" })));
}

#[tokio::test(start_paused = true)]
async fn a_tap_whose_browser_reads_nothing_ends_and_a_slow_browser_keeps_its_tap() {
    let (sender, mut receiver) = channel::<Bytes>(2);
    let (dropped, start) = (Cell::new(0), Instant::now());
    for number in 0..4 {
        send(&sender, &dropped, &json!(number));
    }
    // The browser reads one event every 20 s, and a new call takes its place at once.
    let reading = async {
        for _ in 0..10 {
            sleep(Duration::from_secs(20)).await;
            receiver.recv().await;
            sleep(UNREAD_EVERY / 2).await;
            send(&sender, &dropped, &json!("more"));
        }
    };
    tokio::join!(reading, unread(&sender));
    let ended_s = start.elapsed().as_secs();
    assert!((234..=240).contains(&ended_s), "{ended_s} s: about 30 s after the browser read the last event");
}

#[test]
fn dropped_events_are_counted_before_the_next_event() {
    let (sender, mut receiver) = channel::<Bytes>(1);
    let dropped = Cell::new(0);
    for number in 0..4 {
        send(&sender, &dropped, &json!(number));
    }
    assert_eq!(receiver.try_recv().expect("an event"), "data: 0\n\n");
    send(&sender, &dropped, &json!(4));
    assert_eq!(receiver.try_recv().expect("an event"), "data: {\"dropped\":3}\n\ndata: 4\n\n");
    assert_eq!(dropped.get(), 0);
}
