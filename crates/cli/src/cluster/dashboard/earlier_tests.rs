use serde_json::json;

use super::*;
use crate::cluster::source::tests::{proxy, proxy_of};
use crate::cluster::stat::streams::streams;

/// A reading `at_ms` ms after the start. It shows one stream, with this number of messages, whose client does not read
/// the content that waits for it.
fn reading(proxy: ProxyAt, start: BootInstant, at_ms: u64, messages: u64) -> Reading {
    let page = json!({"calls": [{
        "id": 7, "worker": 0, "direction": "outbound", "client": "127.0.0.1:4000", "method": "shop.v1.Feed/Watch",
        "progress": "answering", "age_ms": 90_000, "attempts": 1, "request_messages": 1, "response_messages": messages,
        "request_bytes": 10, "response_bytes": 5_000, "request_queued_bytes": 0, "response_queued_bytes": 1_000,
    }], "omitted": 0});
    (proxy, start + Duration::from_millis(at_ms), page.to_string())
}

/// The result after each reading, from any tab: the stream's messages per second, and who stalls it, the client or the
/// server.
fn shown(readings: &[(u64, u64)]) -> Vec<(Option<f64>, Option<String>)> {
    let (mut earlier, start) = (EarlierCalls::default(), BootInstant::now());
    let show = |(at_ms, messages): &(u64, u64)| {
        let new = vec![reading(proxy(), start, *at_ms, *messages)];
        let (streams, _) = streams(earlier.comparable(&new), &new);
        earlier.keep(new);
        let row = serde_json::to_value(&streams.calls[0]).expect("JSON");
        (row["messages_per_second"].as_f64(), row["stalled_by"].as_str().map(str::to_owned))
    };
    readings.iter().map(show).collect()
}

#[test]
fn a_second_tab_shows_the_same_rates_and_no_side_that_stalls_for_a_moment() {
    let client = || Some("client".to_owned());
    let of_two_tabs = shown(&[(0, 0), (100, 10), (2_000, 200), (2_100, 210), (4_000, 400), (4_100, 410)]);
    let steady = (Some(100.0), client());
    assert_eq!(of_two_tabs, [(None, None), (None, None), steady.clone(), steady.clone(), steady.clone(), steady]);
}

#[test]
fn many_tabs_keep_no_reading_from_becoming_old_enough() {
    let readings: Vec<(u64, u64)> = (0..30).map(|number| (number * 300, number * 30)).collect();
    let shown = shown(&readings);
    assert!(shown[4..].iter().all(|(rate, _)| *rate == Some(100.0)), "{shown:?}");
}

#[test]
fn a_proxy_that_is_no_longer_read_is_forgotten() {
    let (mut earlier, start) = (EarlierCalls::default(), BootInstant::now());
    let gone = proxy_of("web", "web-2");
    earlier.keep(vec![reading(proxy(), start, 0, 0), reading(gone.clone(), start, 0, 0)]);
    earlier.keep(vec![reading(proxy(), start, 60_000, 0)]);
    assert!(earlier.proxies.contains_key(&gone), "another tab may read it");
    earlier.keep(vec![reading(proxy(), start, 120_000, 0)]);
    assert_eq!(earlier.proxies.keys().collect::<Vec<_>>(), [&proxy()]);
}
